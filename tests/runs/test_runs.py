"""The thin thread from end to end: churn and pod chaos on the embedded cluster, and what the outcome says of them."""

from __future__ import annotations

import pytest

from pytest_kscen.chaos.pods import PodDestroy
from pytest_kscen.checks.outcome import judge
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Entry
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.objects.volume_health import HEALTH_SOURCES
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
    told = [entry.what for entry in run.journal if entry.who == "run"]
    assert told == ["run-started", "frozen", "healed", "liveness", "leftovers", "run-ended"]


def test_destroyed_pods_are_incidents_with_an_effect_and_an_end(play):
    outcome, _ = play(Plan(Churn(max_volumes=2), (PodDestroy(),)), "10m")
    assert outcome.verdict == "valid", outcome.explain()
    assert len(outcome.incidents) >= 8
    for incident in outcome.incidents:
        assert incident.had_effect
        assert incident.removed_at - incident.started_at < 60
        assert 1 <= len(incident.targets["pods"]) <= 3
    assert outcome.leftovers == []


def test_pods_that_churn_destroys_are_chaos_too(play):
    outcome, _ = play(Plan(Churn(max_volumes=1, pod_destroyer=True)), "4m")
    assert outcome.verdict == "valid", outcome.explain()
    assert "chaos:pod-destroy" in {finding.check for finding in outcome.findings}
    assert len(outcome.incidents) >= 8
    assert all(incident.recovered_at is not None for incident in outcome.incidents)


class Slow:
    """Destroys a pod in the run's last moment, and half a minute passes before another is there."""

    label = "app=agent"

    async def run(self, stage, stop):
        await stop.wait()
        await stage.clock.sleep(30)


def test_pods_that_churn_destroys_are_replaced_before_anything_is_judged(play, monkeypatch):
    monkeypatch.setattr("pytest_kscen.megatest.multivolume.POD_DESTROYERS", (Slow(),))
    _, run = play(Plan(Churn(max_volumes=1, pod_destroyer=True)), "4m")
    assert {entry.what: entry.at for entry in run.journal if entry.who == "run"}["healed"] == 270


@pytest.mark.parametrize("health", ["effectiveLayout", "ready"])
def test_volumes_of_newer_storage_are_judged_by_its_own_words(play, health):
    outcome, _ = play(Plan(Churn(max_volumes=2), health=health), "5m")
    assert outcome.verdict == "valid", outcome.explain()
    assert len(outcome.volumes) >= 4
    assert all(set(volume.transitions) == set(HEALTH_SOURCES[health].conditions) for volume in outcome.volumes)
    assert outcome.volumes.stable == list(outcome.volumes)


def test_a_volume_that_breaks_is_seen(play):
    """Somebody turns a condition off and never on again."""

    async def vandal(cluster):
        api, clock = cluster.api("vandal"), cluster.runner.clock
        await clock.sleep(100)
        (volume,) = (await api.list(REPLICATED_VOLUMES)).items
        conditions = [{**one, "status": "False"} if one["type"] == "Quorum" else one for one in volume["status"]["conditions"]]
        await api.patch(
            REPLICATED_VOLUMES, volume["metadata"]["name"], {"status": {"conditions": conditions}}, subresource="status"
        )

    churn = Churn(max_volumes=1, step=(1, 1), step_period=(1.0, 1.0), lifetime=(500.0, 500.0))
    outcome, _ = play(Plan(churn), "4m", vandal)
    (volume,) = outcome.volumes
    assert volume.transitions["Quorum"] >= 1
    assert volume.verdict == ("recovered" if volume.transitions["Quorum"] % 2 == 0 else "broken")


def test_a_checker_that_crashes_makes_the_verdict_unknown(play, monkeypatch):
    async def crashes(*_):
        raise KeyError("lost")

    monkeypatch.setattr("pytest_kscen.megatest.volume.check", crashes)
    outcome, _ = play(Plan(Churn(max_volumes=1)), "5m")
    assert outcome.verdict in {"unknown", "invalid"}
    assert "the checker crashed: KeyError('lost')" in outcome.explain()


def test_a_second_run_on_one_cluster_finds_its_storage():
    cluster = EmbeddedCluster("twice")
    for _ in range(2):
        runner = ScenarioRunner(cluster, Plan(Churn(max_volumes=1)))
        assert runner.run("5m").verdict == "valid"
        runner.close()
    cluster.close()


def test_a_journal_that_makes_no_sense_is_unknown():
    outcome = judge([Entry(1, "x", "incident-ended", {"incident": "nobody"})], declared=[], seed="0", replayable=True)
    assert outcome.verdict == "unknown"
    assert "incidents is unknown: the check crashed: KeyError('nobody')" in outcome.explain()
