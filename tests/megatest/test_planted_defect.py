"""A storage that never restores a lost IOReady: chaos must not hide the defect."""

from __future__ import annotations

import pytest

from pytest_kscen.chaos.profiles import PROFILES
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.models.storage.generations.conditions import ConditionsGeneration
from pytest_kscen.models.storage.volume_view import ConditionValue
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

LOST = ConditionValue(holds=False, reason="Planted", message="it does not come back")


@pytest.fixture
def planted(monkeypatch):
    """Map volumes that were ready to whether they have lost the condition."""
    known = {}
    honest = ConditionsGeneration.io_ready

    def io_ready(self, view, quorum):
        found = honest(self, view, quorum)
        if found.holds or view.name in known:
            known[view.name] = known.get(view.name, False) or not found.holds
        return LOST if known.get(view.name) else found

    monkeypatch.setattr(ConditionsGeneration, "io_ready", io_ready)
    return known


@pytest.mark.parametrize("profiles", [["pod-destroy"], list(PROFILES)], ids=["pods", "everything"])
def test_condition_that_never_recovers_is_broken(planted, profiles):
    cluster = EmbeddedCluster("planted", nodes=6)
    plan = Plan(Churn(), tuple(PROFILES[name]() for name in profiles))
    runner = ScenarioRunner(
        cluster, plan, parent=lambda: cluster.parent(kubeconfig=None, namespace="")
    )
    outcome = runner.run("30m")
    lost = {name for name, it_did in planted.items() if it_did}
    assert outcome.volumes.broken
    assert {volume.name for volume in outcome.volumes.broken} <= lost
    runner.close()
    cluster.close()
