"""Runs with a profile declared twice, and churn beside an equal profile."""

from __future__ import annotations

import itertools

from pytest_kscen.chaos.profiles import NetworkBlock, PodDestroy
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.report.story import story
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

BLOCKS = NetworkBlock(variants=("split-brain",))


def played(churn, *chaos):
    cluster = EmbeddedCluster("several")
    runner = ScenarioRunner(cluster, Plan(churn, chaos), parent=cluster.parent)
    outcome = runner.run("10m")
    entries = list(runner.runs[0].journal)
    runner.close()
    cluster.close()
    return outcome, entries


def incidents(entries):
    """Return start times of incidents by actor."""
    begun = [entry for entry in entries if entry.what == "incident-started"]
    return {
        who: [entry.at for entry in begun if entry.actor == who]
        for who in {entry.actor for entry in begun}
    }


def test_each_marker_declares_separate_faults():
    _, lonely = played(None, BLOCKS)
    outcome, entries = played(None, BLOCKS, BLOCKS)
    isolated_command, beside = incidents(lonely), incidents(entries)
    assert (
        beside["chaos-network-blocker"]
        == isolated_command["chaos-network-blocker"]
        != beside["chaos-network-blocker/2"]
    )
    assert len(outcome.incidents) == sum(map(len, beside.values()))
    assert all(incident.removed_at is not None for incident in outcome.incidents)
    assert {
        entry.actor for entry in entries if entry.data.get("resource", "").startswith("cilium")
    } == {
        "chaos-network-blocker/parent",
        "chaos-network-blocker/2/parent",
    }


def test_pod_destroyer_of_churn_follows_the_declared_ones():
    churn, own = (
        Churn(pod_destroyer=True),
        {"pod-destroyer/app=agent", "pod-destroyer/app=controller"},
    )
    _, lonely = played(churn)
    outcome, entries = played(churn, PodDestroy("app=agent", pods=(1, 1), period=(100.0, 100.0)))
    isolated_command, beside = incidents(lonely), incidents(entries)
    assert set(isolated_command) == own
    assert set(beside) == {*own, "pod-destroyer/app=agent/2"}
    assert {
        round(second - first)
        for first, second in itertools.pairwise(beside["pod-destroyer/app=agent"])
    } == {100}
    assert (
        beside["pod-destroyer/app=controller"] == isolated_command["pod-destroyer/app=controller"]
    )
    assert outcome.verdict != "invalid", outcome.explain()
    reported = [
        line.split()[1] for volume in outcome.volumes for line in story(entries, volume.name)
    ]
    assert "pod-destroyer" in reported
