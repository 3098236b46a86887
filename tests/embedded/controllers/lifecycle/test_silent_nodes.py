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


class TestSilence:
    def test_after_fifty_seconds_a_node_is_unknown(self, site):
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

    def test_the_others_are_not(self, site):
        site.power_off()
        site.advance(600)
        assert is_true(site.node("node-2"), "Ready")
        assert taints(site, "node-2") == []

    def test_its_conditions_call_for_taints(self, site):
        site.power_off()
        site.until(lambda: status_of(site, "Ready") == "Unknown")
        site.advance(0)
        assert sorted(taints(site)) == [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]
        assert site.node()["spec"]["taints"][0]["timeAdded"] == "2026-01-01T00:00:55Z"

    def test_its_pods_are_not_ready(self, site):
        site.create()
        site.advance(2)
        site.power_off()
        site.until(lambda: status_of(site, "Ready") == "Unknown")
        site.advance(0)
        assert condition(site.pod(), "Ready")["status"] == "False"
        assert site.status()["phase"] == "Running"
        assert ("NodeNotReady", "Node is not ready") in site.events()

    def test_what_is_ready_again_loses_its_taints(self, site):
        site.create(tolerations=FIVE_MINUTES)
        site.advance(2)
        site.power_off()
        site.advance(100)
        site.power_on()
        site.advance(6)
        assert is_true(site.node(), "Ready")
        assert taints(site) == []
        assert is_true(site.pod(), "Ready")

    def test_a_node_that_never_spoke(self, site):
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

    def test_nodes_are_greeted(self, site):
        site.advance(6)
        assert (
            "RegisteredNode",
            "Node node-1 event: Registered Node node-1 in Controller",
        ) in site.events("node-1")


class TestTaints:
    def test_a_node_that_is_closed(self, site):
        site.call(site.api.patch(NODES, "node-1", {"spec": {"unschedulable": True}}))
        site.advance(0)
        assert taints(site) == [("unschedulable", "NoSchedule")]
        site.call(site.api.patch(NODES, "node-1", {"spec": {"unschedulable": None}}))
        site.advance(0)
        assert taints(site) == []

    def test_those_of_others_stay(self, site):
        mine = {"key": "mine", "effect": "NoExecute"}
        site.call(
            site.api.patch(NODES, "node-1", {"spec": {"taints": [mine], "unschedulable": True}})
        )
        site.advance(0)
        assert taints(site) == [("mine", "NoExecute"), ("unschedulable", "NoSchedule")]


class TestEviction:
    def test_after_five_minutes(self, site):
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

    def test_at_once_without_a_toleration(self, site):
        site.create()
        site.advance(2)
        site.power_off()
        assert site.until(lambda: "deletionTimestamp" in site.pod()["metadata"]) == 55

    def test_never_with_one_that_has_no_end(self, site):
        site.create(tolerations=[{"operator": "Exists"}])
        site.advance(2)
        site.power_off()
        site.advance(3600)
        assert "deletionTimestamp" not in site.pod()["metadata"]

    def test_not_when_the_node_is_back_in_time(self, site):
        site.create(tolerations=FIVE_MINUTES)
        site.advance(2)
        site.power_off()
        site.advance(300)
        site.power_on()
        site.advance(600)
        assert site.status()["phase"] == "Running"
        assert ("TaintManagerEviction", "Cancelling deletion of Pod default/p") in site.events()

    def test_by_a_taint_of_ones_own(self, site):
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


class TestManyAtOnce:
    def test_one_node_in_ten_seconds(self, make_site):
        site = make_site(6)
        for number in (1, 2):
            site.power_off(f"node-{number}")
        site.advance(56)
        assert [
            ("unreachable", "NoExecute") in taints(site, f"node-{number}") for number in (1, 2)
        ] == [True, False]
        site.advance(10)
        assert ("unreachable", "NoExecute") in taints(site, "node-2")

    def test_nobody_is_driven_away_where_most_are_silent(self, make_site):
        site = make_site(6)
        for number in (1, 2, 3, 4):
            site.power_off(f"node-{number}")
        site.advance(600)
        assert taints(site, "node-1") == [("unreachable", "NoSchedule")]

    def test_nor_where_all_are(self, site):
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
