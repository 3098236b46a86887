"""Requests to the storage are done in time without faults, or the outcome is invalid."""

from __future__ import annotations

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest import actors
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.models.storage import attachment_rules
from pytest_kscen.objects.storage import REPLICATED_STORAGE_CLASSES
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner, bring_storage

LONG_LIVED = {"max_volumes": 3, "lifetime": (1200.0, 1200.0)}


def run_without_faults(churn, generation="conditions", prepare=lambda cluster: None):
    cluster = EmbeddedCluster("in time", nodes=6)
    bring_storage(cluster, generation)
    prepare(cluster)
    runner = ScenarioRunner(cluster, Plan(churn, (), generation))
    outcome = runner.run("20m")
    runner.close()
    cluster.close()
    return outcome


def not_valid(outcome):
    return {
        finding.check: finding.verdict for finding in outcome.findings if finding.verdict != "valid"
    }


def test_volumes_on_nodes_that_never_attach_are_reported(monkeypatch):
    may_attach = attachment_rules.may_attach
    monkeypatch.setattr(
        attachment_rules,
        "may_attach",
        lambda replica: may_attach(replica) and replica.node not in {"node-1", "node-2", "node-3"},
    )
    outcome = run_without_faults(Churn(**LONG_LIVED))
    assert outcome.actions["attach"].done > 0
    assert not_valid(outcome) == {"attachments": "invalid"}


def test_volumes_detached_at_deletion_are_not_reported(monkeypatch):
    is_detached = attachment_rules.is_detached
    monkeypatch.setattr(
        attachment_rules,
        "is_detached",
        lambda view, attachment: view.deleting and is_detached(view, attachment),
    )
    assert not_valid(run_without_faults(Churn(**LONG_LIVED))) == {"detachments": "invalid"}


@pytest.mark.parametrize(
    "nodes", [{"node-1", "node-2", "node-3"}, {f"node-{number}" for number in range(1, 7)}]
)
def test_short_lived_volumes_without_attachment_are_not_reported(monkeypatch, nodes):
    may_attach = attachment_rules.may_attach
    monkeypatch.setattr(
        attachment_rules,
        "may_attach",
        lambda replica: may_attach(replica) and replica.node not in nodes,
    )
    assert not_valid(run_without_faults(Churn())) == {"attachments": "unknown"}


def test_volumes_never_attached_as_created_are_reported(monkeypatch):
    monkeypatch.setattr(attachment_rules, "may_attach", lambda _: False)
    assert not_valid(run_without_faults(Churn(attacher_period=(5000.0, 5000.0)))) == {
        "attachments": "unknown"
    }


def test_volumes_that_never_grow_are_reported(monkeypatch):
    monkeypatch.setattr(actors, "actual_size", lambda _: 0)
    assert not_valid(run_without_faults(Churn(resizer=True))) == {"resizes": "unknown"}


def test_disks_kept_by_newer_storage_are_tolerated():
    churn = Churn(
        **LONG_LIVED, resizer=True, replica_destroyer=True, replica_destroyer_period=(60.0, 120.0)
    )
    outcome = run_without_faults(churn, "effectiveLayout")
    assert outcome.actions["attach"].refusal.startswith("failed: HinderedError"), outcome.actions
    assert not_valid(outcome) == {}


def test_class_with_local_access_is_tolerated():
    def local(cluster):
        api = cluster.api("test")
        spec = cluster.runner.call(api.get(REPLICATED_STORAGE_CLASSES, "availability"))["spec"]
        made = {
            "apiVersion": REPLICATED_STORAGE_CLASSES.api_version,
            "kind": REPLICATED_STORAGE_CLASSES.kind,
            "metadata": {"name": "local"},
            "spec": {**spec, "volumeAccess": "Local"},
        }
        cluster.runner.call(api.create(REPLICATED_STORAGE_CLASSES, made))

    outcome = run_without_faults(Churn(**LONG_LIVED, storage_classes=("local",)), prepare=local)
    assert outcome.actions["attach"].refusal.startswith("failed: HinderedError"), outcome.actions
    assert not_valid(outcome) == {}
