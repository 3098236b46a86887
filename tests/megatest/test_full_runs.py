"""Churn with all actors and all chaos on each storage generation, with correct verdicts."""

import os

import pytest

from pytest_kscen.chaos.profiles import PROFILES
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.objects.storage import HEALTH_SOURCES
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

EVERYBODY = Churn(resizer=True, replica_destroyer=True, replica_creator=True, pod_destroyer=True)
SEEDS = int(os.environ.get("KSCEN_TESTS_SEEDS", "0"))
RUNS = [(f"d{number}", "2h") for number in range(1, SEEDS + 1)] or [("d1", "30m")]
"""One seed and a short while, unless more is asked for."""


@pytest.mark.parametrize("generation", list(HEALTH_SOURCES))
@pytest.mark.parametrize(("seed", "duration"), RUNS)
def test_everything(generation, seed, duration):
    cluster = EmbeddedCluster(seed, nodes=6)
    chaos = tuple(profile() for profile in PROFILES.values())
    runner = ScenarioRunner(
        cluster,
        Plan(EVERYBODY, chaos, generation),
        parent=lambda: cluster.parent(kubeconfig=None, namespace=""),
    )
    outcome = runner.run(duration)
    runner.close()
    cluster.close()
    assert outcome.verdict == "valid", outcome.explain()
    assert len(outcome.volumes) > 50
