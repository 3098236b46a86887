"""Composition of a run: a seed, a cluster and a plan become a journal and a verdict.

pytest may not be imported.

    runner         ScenarioRunner, the user's entry; context: Run, as a test holds it
    phases         table of a run's phases and of what may interrupt them
    lifecycle      one run that walks this table
    preflight      checks before anything is changed; chaos_lease, cleanup: other phases
    manual         volumes and faults that a test creates itself
    scenarios, workflows    players of scenarios and workflows, each with its *_setup
"""
