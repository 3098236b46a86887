"""The thin thread from end to end: churn and pod chaos on the embedded cluster, and what the outcome says of them."""

from __future__ import annotations

import pytest

from pytest_kscen.chaos.pods import PodDestroy
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.runs.plan import Plan
from pytest_kscen.runs.runner import ScenarioRunner


@pytest.fixture
def play():
    opened = []

    def play_one(plan, duration, meanwhile=None):
        cluster = EmbeddedCluster("megatest")
        runner = ScenarioRunner(cluster, plan)
        opened.extend([runner, cluster])
        if meanwhile:
            cluster.runner.start(meanwhile(cluster), "meanwhile")
        return runner.run(duration), runner.runs[0]

    yield play_one
    for one in opened:
        one.close()


def test_calm_weather_moves_nothing(play):
    outcome, run = play(Plan(Churn(max_volumes=3)), "20m")
    assert outcome.verdict == "valid", outcome.explain()
    assert len(outcome.volumes) >= 10
    assert outcome.volumes.stable == list(outcome.volumes)
    assert outcome.volumes.total_transitions == 0
    assert outcome.incidents == outcome.leftovers == []
    assert [entry.what for entry in run.journal][-3:] == ["liveness", "leftovers", "run-ended"] or "run-ended" in {
        entry.what for entry in run.journal
    }


def test_destroyed_pods_are_incidents_with_an_effect_and_an_end(play):
    outcome, _ = play(Plan(Churn(max_volumes=2), (PodDestroy(),)), "10m")
    assert outcome.verdict == "valid", outcome.explain()
    assert len(outcome.incidents) >= 8
    for incident in outcome.incidents:
        assert incident.had_effect
        assert incident.removed_at - incident.started_at < 60
        assert 1 <= len(incident.targets["pods"]) <= 3
    assert outcome.leftovers == []


def test_a_volume_that_breaks_is_seen(play):
    """Somebody turns a condition off and never on again."""

    async def vandal(cluster):
        api, clock = cluster.api("vandal"), cluster.runner.clock
        await clock.sleep(200)
        volume = (await api.list(REPLICATED_VOLUMES)).items[0]
        conditions = [{**one, "status": "False"} if one["type"] == "Quorum" else one for one in volume["status"]["conditions"]]
        name = volume["metadata"]["name"]
        while True:
            await api.patch(REPLICATED_VOLUMES, name, {"status": {"conditions": conditions}}, subresource="status")
            await clock.sleep(10_000)

    outcome, _ = play(Plan(Churn(max_volumes=1, lifetime=(250.0, 250.0))), "4m", vandal)
    assert outcome.verdict in {"valid", "invalid"}
    assert [volume.transitions["Quorum"] for volume in outcome.volumes if volume.transitions.get("Quorum")]
