import pytest

from pytest_kscen.embedded.controllers.node_lifecycle import NodeLifecycle
from pytest_kscen.embedded.controllers.taint_eviction import TaintEviction
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.resources import NODES, PODS

FIVE_MINUTES = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]


@pytest.fixture
def make_site(build):
    return lambda nodes=3: build(nodes=nodes, lifecycle=NodeLifecycle, eviction=TaintEviction)


@pytest.fixture
def site(make_site):
    return make_site()


def taints(site, name="node-1"):
    found = site.node(name)["spec"].get("taints") or []
    return [(taint["key"].removeprefix("node.kubernetes.io/"), taint["effect"]) for taint in found]


def status_of(site, type_, name="node-1"):
    return condition(site.node(name), type_)["status"]


class TestUnreachableNodes:
    def test_node_is_unknown_after_fifty_seconds(self, site):
        site.advance(12)
        site.power_off()
        assert site.until(lambda: status_of(site, "Ready") == "Unknown") == 65
        ready = condition(site.node(), "Ready")
        assert ready["reason"] == "NodeStatusUnknown"
        assert ready["message"] == "Kubelet stopped posting node status."
        assert ready["lastTransitionTime"] == "2026-01-01T00:01:05Z"
        assert ready["lastHeartbeatTime"] == "2026-01-01T00:00:00Z"
        assert status_of(site, "MemoryPressure") == "Unknown"
        assert ("NodeNotReady", "Node node-1 status is now: NodeNotReady") in site.events("node-1")

    def test_other_nodes_stay_ready(self, site):
        site.power_off()
        site.advance(600)
        assert is_true(site.node("node-2"), "Ready")
        assert taints(site, "node-2") == []

    def test_conditions_set_taints(self, site):
        site.power_off()
        site.until(lambda: status_of(site, "Ready") == "Unknown")
        site.advance(0)
        assert sorted(taints(site)) == [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]
        assert site.node()["spec"]["taints"][0]["timeAdded"] == "2026-01-01T00:00:55Z"

    def test_pods_become_unready(self, site):
        site.create()
        site.advance(2)
        site.power_off()
        site.until(lambda: status_of(site, "Ready") == "Unknown")
        site.advance(0)
        assert condition(site.pod(), "Ready")["status"] == "False"
        assert site.status()["phase"] == "Running"
        assert ("NodeNotReady", "Node is not ready") in site.events()

    def test_recovered_node_loses_taints(self, site):
        site.create(tolerations=FIVE_MINUTES)
        site.advance(2)
        site.power_off()
        site.advance(100)
        site.power_on()
        site.advance(6)
        assert is_true(site.node(), "Ready")
        assert taints(site) == []
        assert is_true(site.pod(), "Ready")

    def test_node_without_heartbeat_is_unknown(self, site):
        site.runner.ask(site.api.delete(NODES, "node-1"))
        site.advance(1)
        site.machines.add("mute").powered = False
        site.runner.ask(
            site.api.create(
                NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mute"}}
            )
        )
        assert site.until(lambda: condition(site.node("mute"), "Ready")) == 65
        assert condition(site.node("mute"), "Ready")["reason"] == "NodeStatusNeverUpdated"

    def test_node_registration_is_reported(self, site):
        site.advance(6)
        assert (
            "RegisteredNode",
            "Node node-1 event: Registered Node node-1 in Controller",
        ) in site.events("node-1")


class TestTaints:
    def test_cordoned_node_is_tainted(self, site):
        site.call(site.api.patch(NODES, "node-1", {"spec": {"unschedulable": True}}))
        site.advance(0)
        assert taints(site) == [("unschedulable", "NoSchedule")]
        site.call(site.api.patch(NODES, "node-1", {"spec": {"unschedulable": None}}))
        site.advance(0)
        assert taints(site) == []

    def test_foreign_taints_are_kept(self, site):
        mine = {"key": "mine", "effect": "NoExecute"}
        site.call(
            site.api.patch(NODES, "node-1", {"spec": {"taints": [mine], "unschedulable": True}})
        )
        site.advance(0)
        assert taints(site) == [("mine", "NoExecute"), ("unschedulable", "NoSchedule")]


class TestEviction:
    def test_pods_are_evicted_after_five_minutes(self, site):
        site.create(tolerations=FIVE_MINUTES)
        site.advance(2)
        site.power_off()
        site.advance(55 + 300 - 3)
        assert "deletionTimestamp" not in site.pod()["metadata"]
        assert site.until(lambda: "deletionTimestamp" in site.pod()["metadata"]) == 355
        target = condition(site.pod(), "DisruptionTarget")
        assert (target["reason"], target["message"]) == (
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )
        assert ("TaintManagerEviction", "Marking for deletion Pod default/p") in site.events()

    def test_pods_without_toleration_are_evicted_immediately(self, site):
        site.create()
        site.advance(2)
        site.power_off()
        assert site.until(lambda: "deletionTimestamp" in site.pod()["metadata"]) == 55

    def test_unlimited_toleration_prevents_eviction(self, site):
        site.create(tolerations=[{"operator": "Exists"}])
        site.advance(2)
        site.power_off()
        site.advance(3600)
        assert "deletionTimestamp" not in site.pod()["metadata"]

    def test_recovered_node_keeps_pods(self, site):
        site.create(tolerations=FIVE_MINUTES)
        site.advance(2)
        site.power_off()
        site.advance(300)
        site.power_on()
        site.advance(600)
        assert site.status()["phase"] == "Running"
        assert ("TaintManagerEviction", "Cancelling deletion of Pod default/p") in site.events()

    def test_custom_taint_evicts_pods(self, site):
        site.create()
        site.create("tolerant", tolerations=[{"key": "mine", "operator": "Exists"}])
        site.advance(2)
        site.call(
            site.api.patch(
                NODES, "node-1", {"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}}
            )
        )
        site.advance(1)
        assert [pod["metadata"]["name"] for pod in site.call(site.api.list(PODS)).items] == [
            "tolerant"
        ]


class TestManyUnreachableNodes:
    def test_eviction_rate_is_one_node_per_ten_seconds(self, make_site):
        site = make_site(6)
        for number in (1, 2):
            site.power_off(f"node-{number}")
        site.advance(56)
        assert [
            ("unreachable", "NoExecute") in taints(site, f"node-{number}") for number in (1, 2)
        ] == [True, False]
        site.advance(10)
        assert ("unreachable", "NoExecute") in taints(site, "node-2")

    def test_mostly_unreachable_zone_is_not_evicted(self, make_site):
        site = make_site(6)
        for number in (1, 2, 3, 4):
            site.power_off(f"node-{number}")
        site.advance(600)
        assert taints(site, "node-1") == [("unreachable", "NoSchedule")]

    def test_fully_unreachable_cluster_is_not_evicted(self, site):
        for number in (1, 2, 3):
            site.power_off(f"node-{number}")
        site.advance(600)
        assert [taints(site, f"node-{number}") for number in (1, 2, 3)] == [
            [("unreachable", "NoSchedule")]
        ] * 3
        site.power_on("node-1")
        site.advance(100)
        assert taints(site, "node-1") == []
        assert ("unreachable", "NoExecute") in taints(site, "node-2")
