"""The megatest suite: `pytest -m megatest`.

Each test lasts an hour of cluster time, or as long as --kscen-duration says.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.megatest

BLOCKS = ("blocking-everything", "blocking-drbd", "split-brain")


@pytest.mark.volume_churn
def test_calm(scenario_runner):
    """Churn and nothing else: no condition may ever change, and whatever is asked for is done."""
    outcome = scenario_runner.run()

    assert outcome.verdict == "valid", outcome.explain()
    assert outcome.volumes
    assert outcome.volumes.stable == list(outcome.volumes)
    assert outcome.incidents == []
    failed = {action: tally.refusal for action, tally in outcome.actions.items() if tally.failed}
    assert not failed.keys() & {"attach", "detach", "detach everywhere"}, failed


@pytest.mark.volume_churn
@pytest.mark.chaos("network-block")
def test_the_network_is_blocked(scenario_runner):
    """Pairs of machines, single links of DRBD, one half from the other."""
    outcome = scenario_runner.run()

    assert outcome.verdict == "valid", outcome.explain()
    assert outcome.volumes
    assert outcome.incidents
    assert {incident.variant for incident in outcome.incidents} <= set(BLOCKS)


@pytest.mark.volume_churn
@pytest.mark.chaos("network-degrade", loss=0.05)
def test_the_network_is_degraded(scenario_runner):
    """One packet in twenty is lost, or the link is full."""
    outcome = scenario_runner.run()

    assert outcome.verdict == "valid", outcome.explain()
    assert outcome.volumes
    assert outcome.incidents
    assert {incident.variant for incident in outcome.incidents} <= {"losses", "latency"}


@pytest.mark.volume_churn
@pytest.mark.chaos("vm-reboot")
def test_machines_are_rebooted(scenario_runner):
    """Hard, and without asking anybody."""
    outcome = scenario_runner.run()

    assert outcome.verdict == "valid", outcome.explain()
    assert outcome.volumes
    assert outcome.incidents
    assert all(incident.had_effect for incident in outcome.incidents)


@pytest.mark.volume_churn
@pytest.mark.chaos("pod-destroy")
def test_pods_are_destroyed(scenario_runner):
    """The storage's own agents and controllers die again and again, and its volumes must not
    mind for long.
    """
    outcome = scenario_runner.run()

    assert outcome.verdict == "valid", outcome.explain()
    assert outcome.volumes
    assert outcome.incidents
    assert all(incident.had_effect for incident in outcome.incidents)


@pytest.mark.volume_churn(resizer=True, replica_destroyer=True, replica_creator=True)
@pytest.mark.chaos("network-block")
@pytest.mark.chaos("network-degrade")
@pytest.mark.chaos("vm-reboot")
@pytest.mark.chaos("pod-destroy")
def test_everything_at_once(scenario_runner):
    """All that there is."""
    outcome = scenario_runner.run()

    assert outcome.verdict == "valid", outcome.explain()
    assert outcome.volumes
    assert {incident.profile for incident in outcome.incidents} == {
        "network-block",
        "network-degrade",
        "vm-reboot",
        "pod-destroy",
    }


@pytest.mark.plan_from_command_line
def test_as_the_command_line_says(scenario_runner):
    """`pytest -m megatest -k command_line --max-volumes 20 --enable-chaos-network-block --chaos-
    period-max 2m`.
    """
    outcome = scenario_runner.run()

    assert outcome.verdict == "valid", outcome.explain()
    assert outcome.volumes
