"""Churn and all chaos on the simulated storage while all actors use a faulty API."""

from __future__ import annotations

import pytest
from faulty_api import FaultyApi, Outage
from faulty_run import CHAOS, FaultyRun, assert_actors_alive, assert_changes_are_true, failed

pytestmark = pytest.mark.filterwarnings("ignore:vm-reboot. the period")

MINUTES = 25
MAY_FAIL = {
    "cause losses",
    "cause latency",
    "create a replica",
    "resize the volume",
    "attach",
    "wait until the volume is ready",
}
"""On machines that go, on a stale view, on volumes without quorum."""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_run_completes_despite_refused_requests(seed):
    day = FaultyRun(seed, lambda api, day: FaultyApi(api, day, share=0.1))
    runner = day.runner()
    with runner as run:
        run.advance(f"{MINUTES}m")
        alive = day.tasks()
    journal = list(run.journal)

    assert run.outcome.verdict == "valid", run.outcome.explain()
    assert run.outcome.leftovers == []
    assert {incident.profile for incident in run.outcome.incidents if incident.had_effect} == {
        one.name for one in CHAOS
    }
    assert failed(journal) <= MAY_FAIL
    assert min(day.faults[verb] for verb in ("list", "create", "patch", "delete", "watch")) >= 5, (
        day.faults
    )
    assert_actors_alive(alive, journal, MINUTES)
    assert_changes_are_true(day.truth, journal)
    runner.close()
    day.close()


BEFORE, AFTER = 6, 15
CAUSES = {
    "cause blocking-everything",
    "cause blocking-drbd",
    "cause split-brain",
    "cause vm-reboot",
}
UNDOES = {"undo losses", "undo latency"}
GIVEN_UP = {
    "list": {"detach everywhere", "look for replicas that were left", *CAUSES, *UNDOES},
    "get": {*CAUSES, *UNDOES},
    "create": {"create the volume", "attach at first", *CAUSES, *UNDOES},
    "patch": set(),
    "watch": set(),
}
"""What ends when it was refused for five minutes; whoever did it goes on."""


@pytest.mark.parametrize(
    ("verb", "minutes", "silent"),
    [
        ("list", 12, False),
        ("get", 6, True),
        ("create", 8, True),
        ("patch", 10, False),
        ("watch", 11, False),
    ],
)
def test_run_completes_after_an_outage_longer_than_all_timeouts(verb, minutes, silent):
    day = FaultyRun("1", lambda api, day: Outage(api, day, verb, silent=silent))
    runner = day.runner()
    with runner as run:
        run.advance(f"{BEFORE}m")
        day.is_out = True
        run.advance(f"{minutes}m")
        day.is_out = False
        run.advance(f"{AFTER}m")
        alive = day.tasks()
    journal = list(run.journal)

    assert run.outcome.verdict == "valid", run.outcome.explain()
    assert run.outcome.leftovers == []
    assert failed(journal) <= MAY_FAIL | GIVEN_UP[verb]
    assert day.faults[verb] >= 50
    assert_actors_alive(alive, journal, BEFORE + minutes + AFTER)
    assert_changes_are_true(day.truth, journal)
    runner.close()
    day.close()
