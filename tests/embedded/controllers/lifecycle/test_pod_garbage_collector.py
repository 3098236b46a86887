import pytest

from pytest_kscen.embedded.controllers.pod_garbage_collector import PodGarbageCollector
from pytest_kscen.objects.resources import NODES, PODS


@pytest.fixture
def site(build):
    return build(nodes=2, garbage=PodGarbageCollector)


def test_pods_of_missing_node_are_deleted(site):
    site.create()
    site.create("other", node="node-2")
    site.advance(5)
    site.runner.ask(site.api.delete(NODES, "node-1"))
    site.advance(50)
    assert site.exists()
    assert site.until(lambda: not site.exists()) == 60
    assert site.exists("other")


def test_collector_is_idle_without_candidates(site, monkeypatch):
    looks, look = [], PodGarbageCollector._excess_terminated
    monkeypatch.setattr(
        PodGarbageCollector,
        "_excess_terminated",
        lambda garbage: looks.append(site.runner.clock.now()) or look(garbage),
    )
    began = site.runner.clock.now()
    site.create()
    site.advance(3600 + 5)
    assert looks == []
    site.runner.ask(site.api.delete(NODES, "node-1"))
    site.advance(45)
    assert [instant - began for instant in looks] == [3620, 3640], "on the beat"


def test_recreated_node_keeps_its_pods(site):
    site.create()
    site.advance(5)
    site.runner.ask(site.api.delete(NODES, "node-1"))
    site.advance(30)
    site.runner.ask(
        site.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
    )
    site.advance(120)
    assert site.exists()


def test_terminating_pods_on_out_of_service_node_are_deleted(site):
    site.create()
    site.advance(5)
    site.power_off()
    site.delete()
    site.advance(60)
    assert site.exists()
    conditions = [{**one, "status": "Unknown"} for one in site.node()["status"]["conditions"]]
    node = site.node()
    site.call(
        site.api.update(
            NODES,
            {**node, "status": {**node["status"], "conditions": conditions}},
            subresource="status",
        )
    )
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    site.call(site.api.patch(NODES, "node-1", {"spec": {"taints": [taint]}}))
    site.advance(21)
    assert not site.exists()


def test_unscheduled_terminating_pod_with_finalizer_fails(site):
    site.create(node=None)
    site.call(
        site.api.patch(PODS, "p", {"metadata": {"finalizers": ["example.com/hold"]}}, "default")
    )
    site.delete()
    site.advance(21)
    assert site.status()["phase"] == "Failed"
