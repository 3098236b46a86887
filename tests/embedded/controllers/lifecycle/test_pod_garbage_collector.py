import pytest

from pytest_kscen.embedded.controllers.pod_garbage_collector import PodGarbageCollector
from pytest_kscen.objects.resources import NODES, PODS


@pytest.fixture
def site(build):
    return build(nodes=2, garbage=PodGarbageCollector)


def test_pods_of_a_node_that_is_gone(site):
    site.create()
    site.create("other", node="node-2")
    site.advance(5)
    site.runner.ask(site.api.delete(NODES, "node-1"))
    site.advance(50)
    assert site.exists()
    assert site.until(lambda: not site.exists()) == 60
    assert site.exists("other")


def test_where_nothing_could_be_garbage_nobody_looks(site, monkeypatch):
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


def test_a_node_that_comes_back_in_time_keeps_them(site):
    site.create()
    site.advance(5)
    site.runner.ask(site.api.delete(NODES, "node-1"))
    site.advance(30)
    site.runner.ask(
        site.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
    )
    site.advance(120)
    assert site.exists()


def test_pods_that_end_on_a_node_out_of_service(site):
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


def test_pods_that_never_had_a_node_and_have_a_finalizer_fail(site):
    site.create(node=None)
    site.call(
        site.api.patch(PODS, "p", {"metadata": {"finalizers": ["example.com/hold"]}}, "default")
    )
    site.delete()
    site.advance(21)
    assert site.status()["phase"] == "Failed"
