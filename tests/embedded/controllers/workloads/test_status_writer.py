import pytest

from pytest_kscen.embedded.controller import Controller
from pytest_kscen.objects.resources import DAEMON_SETS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS

SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.fixture
def reconciled_keys(monkeypatch):
    """Record the keys that the workload controllers reconcile."""
    work, seen = Controller._work, []

    async def seeing(self, key):
        seen.append((self.name, key))
        await work(self, key)

    monkeypatch.setattr(Controller, "_work", seeing)
    return seen


def overwrite(world, resource, name, status):
    world.ask(world.api.patch(resource, name, {"status": status}, "default", subresource="status"))
    world.advance(0)


@pytest.mark.parametrize("resource", [REPLICA_SETS, DEPLOYMENTS])
def test_foreign_status_write_is_corrected(world, template, resource):
    world.create(resource, "web", {"replicas": 2, "selector": SELECTOR, "template": template()})
    world.advance(5)
    for _ in range(2):
        overwrite(world, resource, "web", {"readyReplicas": 1, "availableReplicas": 1})
        assert world.status(resource, "web")["readyReplicas"] == 2


def test_foreign_daemon_set_status_write_is_corrected(world, template):
    world.create(NODES, "n1")
    world.create(DAEMON_SETS, "web", {"selector": SELECTOR, "template": template()})
    world.advance(5)
    overwrite(world, DAEMON_SETS, "web", {"numberReady": 7})
    assert world.status(DAEMON_SETS, "web")["numberReady"] == 1


def test_own_status_write_causes_no_reconcile(world, template, reconciled_keys):
    world.create(REPLICA_SETS, "web", {"replicas": 1, "selector": SELECTOR, "template": template()})
    world.advance(5)
    reconciled_keys.clear()
    world.pod_runner.takedown = 5.0
    world.delete(PODS, world.names(PODS)[0])
    world.advance(20)
    told = [key for name, key in reconciled_keys if name == "replicaset-controller"]
    assert world.status(REPLICA_SETS, "web")["readyReplicas"] == 1
    assert len(told) == 4  # one pod goes, another comes, it is ready, the first is gone


def test_history_is_limited_after_rollout(world, template):
    spec = {"replicas": 1, "revisionHistoryLimit": 0, "selector": SELECTOR}
    world.create(DEPLOYMENTS, "web", {**spec, "template": template()})
    world.advance(5)
    world.patch(
        DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}
    )
    world.advance(10)
    assert len(world.names(REPLICA_SETS)) == 1
