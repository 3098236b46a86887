"""Runs on the real control plane with each storage generation."""

from __future__ import annotations

import contextlib

import pytest

from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.storage import HEALTH_SOURCES
from pytest_kscen.report.story import story
from pytest_kscen.run import cleanup
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

pytestmark = pytest.mark.controlplane

CHURN = Churn(max_volumes=2, step=(2, 2), step_period=(1.0, 2.0), lifetime=(10.0, 15.0))


@pytest.fixture(scope="module", params=list(HEALTH_SOURCES))
def generation(request):
    return request.param


@pytest.fixture(scope="module")
def cluster(generation):
    with contextlib.closing(ControlPlaneCluster(generation)) as cluster:
        yield cluster


@pytest.fixture
def scenario_runner(cluster, generation, request):
    """Runner with the plan of the test's `parametrize` marker, or without a plan."""
    plan = Plan(getattr(request, "param", None), health=generation)
    with contextlib.closing(ScenarioRunner(cluster, plan, parent=cluster.parent)) as runner:
        yield runner


@pytest.mark.parametrize("generation", ["conditions"], indirect=True)
def test_two_lost_replicas_of_three_are_observed(scenario_runner, monkeypatch):
    monkeypatch.setattr(
        cleanup, "RECOVERY", 5.0
    )  # nothing will heal, and its five minutes are real ones here
    with scenario_runner as run:
        volume = run.volumes.create(storage_class="consistency-and-availability")
        run.until(volume.ready, timeout="3m")
        for node in volume.nodes[:2]:
            run.chaos.vm_stop(node)
        run.until(lambda: not volume.healthy(), timeout="2m")
        run.advance("2s")

    seen = run.outcome.volumes[volume.name]
    assert any(count % 2 for count in seen.transitions.values())
    assert run.outcome.volumes.broken == [seen]
    assert run.outcome.verdict == "invalid"
    assert run.outcome.leftovers == []


def reported(run):
    """Explain an invalid outcome, with the stories of broken volumes."""
    broken = [one.name for one in run.outcome.volumes.broken]
    return "\n".join(
        [
            run.outcome.explain(),
            *(line for one in broken for line in ("", one, *story(run.journal, one))),
        ]
    )


@pytest.mark.parametrize("scenario_runner", [CHURN], indirect=True, ids=["churn"])
def test_single_block_by_hand_among_other_faults(scenario_runner, generation):
    with scenario_runner as run:
        volume = run.volumes.create(storage_class="consistency-and-availability", attach=1)
        run.until(volume.ready, timeout="3m")
        run.until(lambda: volume.attached_to, timeout="3m")
        with run.chaos.network_block(*volume.nodes[:2]) as incident:
            run.advance("20s")
        run.until(volume.healthy, timeout="3m")

    outcome = run.outcome
    assert outcome.verdict == "valid", reported(run)
    assert incident.had_effect
    assert incident.removed_at - incident.started_at >= 20
    assert len(outcome.volumes) >= 3
    assert set(outcome.volumes[volume.name].transitions) == set(
        HEALTH_SOURCES[generation].conditions
    )
    assert outcome.volumes[volume.name].verdict in {"stable", "recovered"}
    assert outcome.leftovers == []
