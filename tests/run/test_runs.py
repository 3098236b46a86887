"""End-to-end runs: churn and pod chaos on the embedded cluster, and their outcomes."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest

from pytest_kscen.chaos.profiles import PodDestroy
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.embedded.apiserver.admission.chain import Hook
from pytest_kscen.journal import Entry
from pytest_kscen.judge.outcome import judge
from pytest_kscen.kube.waiting import StateUnknown
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.models.storage import attachment_rules, decisions
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import DEPLOYMENTS
from pytest_kscen.objects.storage import (
    HEALTH_SOURCES,
    NAMESPACE,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)
from pytest_kscen.run import cleanup
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner


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


def test_run_without_faults_changes_nothing(play):
    outcome, run = play(Plan(Churn(max_volumes=3)), "20m")
    assert outcome.verdict == "valid", outcome.explain()
    assert len(outcome.volumes) >= 10
    assert outcome.volumes.stable == list(outcome.volumes)
    assert outcome.volumes.total_transitions == 0
    assert outcome.incidents == outcome.leftovers == []
    reported = [entry.what for entry in run.journal if entry.actor == "run"]
    assert reported == ["run-started", "frozen", "healed", "liveness", "leftovers", "run-ended"]


def test_destroyed_pods_are_incidents_with_an_effect_and_an_end(play):
    outcome, _ = play(Plan(Churn(max_volumes=2), (PodDestroy(),)), "10m")
    assert outcome.verdict == "valid", outcome.explain()
    assert len(outcome.incidents) >= 8
    for incident in outcome.incidents:
        assert incident.had_effect
        assert incident.removed_at - incident.started_at < 60
        assert 1 <= len(incident.targets["pods"]) <= 3
    assert outcome.leftovers == []


def test_pods_destroyed_by_churn_are_chaos(play):
    outcome, _ = play(Plan(Churn(max_volumes=1, pod_destroyer=True)), "4m")
    assert outcome.verdict == "valid", outcome.explain()
    assert "chaos:pod-destroy" in {finding.check for finding in outcome.findings}
    assert len(outcome.incidents) >= 8
    assert all(incident.recovered_at is not None for incident in outcome.incidents)


class Slow(PodDestroy):
    """Destroys a pod at the end of the run; the replacement needs half a minute."""

    async def run(self, context, stop):
        await stop.wait()
        await context.clock.sleep(30)


def test_pods_destroyed_by_churn_are_replaced_before_judging(play, monkeypatch):
    monkeypatch.setattr("pytest_kscen.megatest.churn.POD_DESTROYER", Slow())
    _, run = play(Plan(Churn(max_volumes=1, pod_destroyer=True)), "4m")
    assert {entry.what: entry.at for entry in run.journal if entry.actor == "run"}["healed"] == 270


@pytest.mark.parametrize("health", ["effectiveLayout", "ready"])
def test_volumes_of_newer_storage_are_judged_by_its_conditions(play, health):
    outcome, _ = play(Plan(Churn(max_volumes=2), health=health), "5m")
    assert outcome.verdict == "valid", outcome.explain()
    assert len(outcome.volumes) >= 4
    assert all(
        set(volume.transitions) == set(HEALTH_SOURCES[health].conditions)
        for volume in outcome.volumes
    )
    assert outcome.volumes.stable == list(outcome.volumes)


ALONE = Plan(Churn(max_volumes=1, step=(1, 1), step_period=(1.0, 1.0), lifetime=(500.0, 500.0)))


def test_broken_volume_is_detected(play):
    """A condition is set to False while the storage has no controllers. They return during
    recovery.
    """

    async def delete_volumes(cluster):
        api, clock = cluster.api("vandal"), cluster.runner.clock
        await clock.sleep(90)
        await api.patch(DEPLOYMENTS, "controller", {"spec": {"replicas": 0}}, NAMESPACE)
        await clock.sleep(60)
        (volume,) = (await api.list(REPLICATED_VOLUMES)).items
        conditions = [
            {**one, "status": "False"} if one["type"] == "Quorum" else one
            for one in volume["status"]["conditions"]
        ]
        status = {"status": {"conditions": conditions}}
        await api.patch(
            REPLICATED_VOLUMES, volume["metadata"]["name"], status, subresource="status"
        )
        await clock.sleep(150)
        await api.patch(DEPLOYMENTS, "controller", {"spec": {"replicas": 3}}, NAMESPACE)

    outcome, _ = play(ALONE, "4m", delete_volumes)
    (volume,) = outcome.volumes
    assert (volume.verdict, volume.transitions) == ("broken", {"IOReady": 0, "Quorum": 1})
    assert {finding.check: finding.verdict for finding in outcome.findings} == {
        "volumes": "invalid",
        "liveness": "valid",
        "leftovers": "valid",
    }


def wiped(after, *, by_force):
    """Delete the volume with all its objects."""

    async def delete_volumes(cluster):
        api = cluster.api("vandal")
        await cluster.runner.clock.sleep(after)
        for resource in (
            REPLICATED_VOLUMES,
            REPLICATED_VOLUME_ATTACHMENTS,
            REPLICATED_VOLUME_REPLICAS,
        ):
            for one in (
                (await api.list(resource)).items
                if by_force or resource is REPLICATED_VOLUMES
                else ()
            ):
                with contextlib.suppress(NotFound):
                    await api.delete(resource, one["metadata"]["name"])
                    if by_force:
                        await api.patch(
                            resource, one["metadata"]["name"], {"metadata": {"finalizers": None}}
                        )

    return delete_volumes


@pytest.mark.parametrize(
    ("after", "by_force"),
    [(100, True), (100, False), (6.5, True)],
    ids=["while it is checked", "in good order", "before it is ready"],
)
def test_vanished_volume_is_broken(play, after, by_force):
    outcome, run = play(ALONE, "4m", wiped(after, by_force=by_force))
    volume = outcome.volumes[0]
    ready = after > 10
    assert (volume.verdict, set(volume.transitions.values()), volume.ready_at is not None) == (
        "broken",
        {0},
        ready,
    )
    assert (
        f"{volume.name} (gone at {volume.lost_at:g} s, not deleted by the run)" in outcome.explain()
    )
    assert outcome.verdict == "invalid"
    assert "volume-disappeared" in [entry.what for entry in run.journal]


def test_volume_vanishing_during_recovery_is_broken(play, monkeypatch):
    monkeypatch.setattr("pytest_kscen.megatest.churn.POD_DESTROYER", Slow())
    plan = Plan(dataclasses.replace(ALONE.churn, pod_destroyer=True))
    outcome, _ = play(plan, "4m", wiped(260, by_force=True))
    (volume,) = outcome.volumes.broken
    assert 240 < volume.lost_at < 270


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (REPLICATED_VOLUMES, "volumes is unknown: churn made no volume: failed: Forbidden("),
        (REPLICATED_VOLUME_ATTACHMENTS, "attachments is unknown: none of the "),
    ],
)
def test_volume_never_admitted_proves_nothing(play, resource, message):
    async def closed(cluster):
        cluster.admission.add(
            Hook(
                "quota", validate=lambda _: "no more", resources=(resource,), operations=("CREATE",)
            )
        )

    outcome, _ = play(Plan(Churn(max_volumes=3)), "10m", closed)
    assert outcome.verdict == "unknown"
    assert outcome.explain().startswith(message)
    assert "no more" in outcome.explain()


@pytest.mark.parametrize("duration", ["1m", "20m"])
@pytest.mark.parametrize(("patience", "verdict"), [(800.0, "valid"), (400.0, "invalid")])
def test_large_volume_has_the_configured_time(play, patience, verdict, duration):
    """It needs 520 seconds, beyond the end of the run."""
    churn = Churn(("availability",), max_volumes=1, step=(1, 1), size="50Gi", patience=patience)
    outcome, _ = play(Plan(churn), duration)
    assert outcome.verdict == verdict, outcome.explain()


@pytest.mark.parametrize(("duration", "verdict"), [("10m", "valid"), ("20m", "unknown")])
def test_storage_has_time_to_replace_our_deletions(play, duration, verdict):
    """Two disks of three need 620 seconds, and one is deleted each minute. Churn gives a volume up
    after 700 s.
    """
    large = Churn(
        ("consistency-and-availability",), max_volumes=1, step=(1, 1), size="30Gi", patience=700.0
    )
    churn = dataclasses.replace(
        large, replica_destroyer=True, replica_destroyer_period=(60.0, 60.0)
    )
    outcome, _ = play(Plan(churn), duration)
    assert outcome.volumes.broken == []
    verdicts = {finding.check: finding.verdict for finding in outcome.findings}
    assert (verdicts["volumes"], verdicts["liveness"]) == (verdict, "valid"), outcome.explain()


@pytest.mark.parametrize(
    ("churn", "check", "message"),
    [
        (
            Churn(max_volumes=3, replica_destroyer=True, patience=60.0),
            "volumes",
            "1 of 12 volumes did not keep their guaranteed state",
        ),
        (
            Churn(max_volumes=3, replica_destroyer=True, lifetime=(3600.0, 3600.0)),
            "liveness",
            "not ready again although there was no fault except for the replicas that the run deleted: ",
        ),
    ],
    ids=["while the run is on", "at its end"],
)
def test_missing_replacement_of_our_deletion_is_detected(play, monkeypatch, churn, check, message):
    formed, missing = {}, decisions._missing_disks

    def missing_disks(view, generation):
        formed[view.name] = formed.get(view.name) or len(view.diskful) == view.layout.diskful
        return 0 if formed[view.name] else missing(view, generation)

    monkeypatch.setattr(decisions, "_missing_disks", missing_disks)
    monkeypatch.setattr(attachment_rules, "may_leave", lambda *_: True)
    outcome, _ = play(Plan(churn), "10m")
    assert f"{check} is invalid: {message}" in outcome.explain()


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_replacement_of_our_deletion_is_observed(play, generation):
    """Newer storage may not miss the replica at all."""
    churn = Churn(
        max_volumes=2,
        lifetime=(400.0, 400.0),
        replica_destroyer=True,
        replica_destroyer_period=(90.0, 90.0),
    )
    outcome, run = play(Plan(churn, health=generation), "5m")
    disks = [
        entry.at for entry in run.journal if entry.what == "ended" and "patience" in entry.data
    ]
    assert [entry.at for entry in run.journal if entry.what == "replicas-restored"] == [
        pytest.approx(at + 10) for at in disks
    ]
    assert len(disks) >= 4
    assert outcome.volumes.stable == list(outcome.volumes)


def test_unobserved_volumes_are_not_late(play, monkeypatch):
    async def refused(*_, **__):
        raise StateUnknown(
            "did not reach the awaited state within 300 s; the last refusal was ServiceUnavailable('')"
        )

    monkeypatch.setattr(cleanup, "wait_for", refused)
    outcome, _ = play(Plan(Churn(max_volumes=1, lifetime=(3600.0, 3600.0))), "2m")
    assert outcome.verdict == "unknown"
    assert (
        "liveness is unknown: it was not observed whether the remaining volumes became ready again"
        in outcome.explain()
    )


def test_crashed_checker_makes_the_verdict_unknown(play, monkeypatch):
    async def crashes(*_):
        raise KeyError("lost")

    monkeypatch.setattr("pytest_kscen.megatest.volume.check", crashes)
    outcome, _ = play(ALONE, "5m")
    (volume,) = outcome.volumes
    assert (outcome.verdict, volume.verdict) == ("unknown", "unknown")
    assert (
        f"1 of 1 volumes could not be judged: {volume.name} (the checker crashed: KeyError('lost'))"
        in outcome.explain()
    )


def test_second_run_on_one_cluster_finds_its_storage():
    cluster = EmbeddedCluster("twice")
    for _ in range(2):
        runner = ScenarioRunner(cluster, Plan(Churn(max_volumes=1)))
        assert runner.run("5m").verdict == "valid"
        runner.close()
    cluster.close()


def test_inconsistent_journal_is_unknown():
    outcome = judge([Entry(1, "x", "incident-ended", {"incident": "nobody"})])
    assert outcome.verdict == "unknown"
    assert "incidents is unknown: the check crashed: KeyError('nobody')" in outcome.explain()
