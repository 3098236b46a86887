import collections

import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.controllers.provisioner import storage_class
from pytest_kscen.embedded.scheduler.framework.handle import TieBreaker
from pytest_kscen.embedded.scheduler.scoring import best_positions
from pytest_kscen.objects.resources import PODS, STORAGE_CLASSES

HELPLESS = (
    "no new claims to deallocate, preemption: 0/{0} nodes are available: {0} Preemption is "
    "not helpful for scheduling."
)


def on_label(key, operator, *values):
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    term = {"matchExpressions": [expression]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }


class TestBinding:
    def test_a_pod_finds_a_node(self, hall):
        hall.nodes(1)
        assert hall.pod() == "n1"
        assert hall.events() == [("Scheduled", "Successfully assigned default/p to n1")]
        (found,) = (
            one for one in hall.get()["status"]["conditions"] if one["type"] == "PodScheduled"
        )
        assert found["status"] == "True"

    def test_pods_spread_by_what_is_left(self, hall):
        hall.nodes(3)
        places = collections.Counter(hall.pod(f"p{number}", cpu="500m") for number in range(6))
        assert places == {"n1": 2, "n2": 2, "n3": 2}

    def test_siblings_spread_though_they_ask_for_nothing(self, hall):
        hall.nodes(3)
        assert sorted(hall.pod(f"p{number}", owner="web") for number in range(3)) == [
            "n1",
            "n2",
            "n3",
        ]

    def test_equals_are_drawn_by_the_seed(self):
        def drawn(seed):
            ties = TieBreaker(Chance(seed).stream("scheduler"))
            return [ties.decide(None, best_positions([1, 7, 7, 7, 7, 2])) for _ in range(20)]

        assert drawn(1) == drawn(1)
        assert drawn(1) != drawn(2)
        assert set(drawn(1)) == {1, 2, 3, 4}

    def test_a_judge_decides_between_equals(self, hall):
        hall.nodes(6)
        hall.scheduler.ties.judge = lambda pod, names: names[-1] if pod.name == "last" else names[0]
        assert (hall.pod("first"), hall.pod("last")) == ("n1", "n6")

    def test_where_there_are_no_equals_nothing_is_drawn(self):
        chance = Chance(1).stream("scheduler")
        assert TieBreaker(chance).decide(None, best_positions([1, 2])) == 1
        assert chance.below(1000) == Chance(1).stream("scheduler").below(1000)

    def test_the_one_with_the_higher_priority_first(self, hall):
        hall.pod("low", cpu="3", priority=0)
        hall.pod("high", cpu="3", priority=10)
        hall.nodes(1)
        hall.advance(2.1)
        assert (hall.where("low"), hall.where("high")) == (None, "n1")

    def test_pods_of_another_scheduler_are_not_ours(self, hall):
        hall.nodes(1)
        assert hall.pod(schedulerName="mine") is None
        assert hall.events() == []

    def test_a_gate_holds_a_pod_back(self, hall):
        hall.nodes(1)
        assert hall.pod(schedulingGates=[{"name": "example.com/wait"}]) is None
        hall.ask(hall.api.patch(PODS, "p", {"spec": {"schedulingGates": None}}, "default"))
        hall.advance()
        assert hall.where() == "n1"


class TestRefusing:
    def test_no_nodes(self, hall):
        hall.pod()
        assert hall.why() == "no nodes available to schedule pods"

    def test_more_than_any_node_has(self, hall):
        hall.nodes(3)
        hall.pod(cpu="5")
        assert hall.why() == "0/3 nodes are available: 3 Insufficient cpu. " + HELPLESS.format(3)
        assert hall.events() == [("FailedScheduling", hall.why())]

    def test_more_than_is_left(self, hall):
        hall.nodes(1)
        hall.pod("first", cpu="3")
        hall.pod(cpu="2")
        assert hall.why() == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
            "0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )

    def test_too_many_pods(self, hall):
        hall.nodes(1, pods="1")
        hall.pod("first")
        hall.pod()
        assert hall.why().startswith("0/1 nodes are available: 1 Too many pods. ")

    def test_every_reason_is_counted(self, hall):
        hall.node("n1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
        hall.node("n2", unschedulable=True)
        hall.node("n3", cpu="1", memory="1Gi")
        hall.pod(container={"resources": {"requests": {"cpu": "2", "memory": "2Gi"}}})
        assert hall.why() == (
            "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 "
            "node(s) had untolerated taint(s), "
            "1 node(s) were unschedulable. " + HELPLESS.format(3)
        )

    def test_a_port_of_the_host(self, hall):
        hall.nodes(1)
        listening = {"ports": [{"containerPort": 80, "hostPort": 80}]}
        assert hall.pod("first", container=listening) == "n1"
        hall.pod(container=listening)
        assert hall.why().startswith(
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested "
            "pod ports. "
        )

    def test_a_pod_that_may_not_preempt(self, hall):
        hall.nodes(1)
        hall.pod(cpu="5", preemptionPolicy="Never")
        assert hall.why().endswith("preemption: not eligible due to preemptionPolicy=Never.")


class TestChoosing:
    @pytest.mark.parametrize(
        "spec",
        [
            {"nodeSelector": {"disk": "fast"}},
            {"affinity": on_label("disk", "In", "fast", "faster")},
            {"affinity": on_label("disk", "NotIn", "slow")},
            {"affinity": on_label("speed", "Gt", "5")},
            {"affinity": on_label("slow", "DoesNotExist")},
        ],
    )
    def test_by_labels(self, hall, spec):
        hall.node("slow", labels={"disk": "slow", "speed": "1", "slow": ""})
        hall.node("fast", labels={"disk": "fast", "speed": "10"})
        assert hall.pod(**spec) == "fast"

    def test_by_name(self, hall):
        hall.nodes(3)
        field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        assert (
            hall.pod(
                affinity={
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
                }
            )
            == "n2"
        )

    def test_none_that_is_wanted(self, hall):
        hall.nodes(2)
        hall.pod(nodeSelector={"disk": "fast"})
        assert (
            hall.why()
            == "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "
            + HELPLESS.format(2)
        )

    def test_what_is_preferred(self, hall):
        hall.node("plain", cpu="100")
        hall.node("nice", labels={"nice": "yes"})
        preference = {"matchExpressions": [{"key": "nice", "operator": "Exists"}]}
        preferred = [{"weight": 100, "preference": preference}]
        assert (
            hall.pod(
                affinity={
                    "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
                }
            )
            == "nice"
        )

    def test_what_is_tolerated(self, hall):
        hall.node("n1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
        hall.pod("q")
        assert hall.where("q") is None
        assert (
            hall.pod(
                tolerations=[
                    {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
                ]
            )
            == "n1"
        )

    def test_what_is_better_avoided(self, hall):
        hall.node("n1", taints=[{"key": "k", "effect": "PreferNoSchedule"}], cpu="100")
        hall.node("n2")
        assert hall.pod() == "n2"


class TestLookingAgain:
    def test_when_a_node_comes(self, hall):
        hall.node("n0", unschedulable=True)
        hall.pod()
        hall.nodes(1)
        assert hall.where() == "n1"

    def test_where_there_is_no_node_at_all_after_a_second(self, hall):
        hall.pod()
        hall.nodes(1)
        assert hall.where() is None
        hall.advance(2.1)
        assert hall.where() == "n1"

    def test_when_a_pod_goes(self, hall):
        hall.nodes(1)
        hall.pod("first", cpu="3")
        assert hall.pod(cpu="2") is None
        hall.delete("first")
        assert hall.where() == "n1"

    def test_when_a_pod_is_finished(self, hall):
        hall.nodes(1)
        hall.pod("first", cpu="3")
        hall.pod(cpu="2")
        done = {**hall.get("first"), "status": {"phase": "Succeeded"}}
        hall.ask(hall.api.update(PODS, done, subresource="status"))
        hall.advance()
        assert hall.where() == "n1"

    @pytest.mark.parametrize(
        ("node", "pod", "change"),
        [
            ({"unschedulable": True}, {}, {"spec": {"unschedulable": None}}),
            ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, {}, {"spec": {"taints": None}}),
            ({}, {"nodeSelector": {"disk": "fast"}}, {"metadata": {"labels": {"disk": "fast"}}}),
        ],
        ids=["opened", "taint gone", "labelled"],
    )
    def test_when_a_node_changes(self, hall, node, pod, change):
        hall.node("n1", **node)
        assert hall.pod(**pod) is None
        hall.change("n1", change)
        assert hall.where() == "n1"

    def test_not_when_a_node_only_says_that_it_lives(self, hall):
        hall.nodes(1)
        hall.pod(cpu="5")
        version = hall.get()["metadata"]["resourceVersion"]
        hall.change("n1", {"metadata": {"annotations": {"a": "b"}}})
        assert hall.get()["metadata"]["resourceVersion"] == version
        assert len(hall.events()) == 1

    def test_a_pod_that_is_gone_is_forgotten(self, hall):
        hall.pod()
        hall.delete()
        hall.nodes(1)
        assert hall.pod("q") == "n1"


@pytest.mark.parametrize("seed", range(5))
def test_no_node_is_crowded_and_no_pod_waits_in_vain(hall, seed):
    chance, cpus = Chance(seed).stream("pods"), {}
    hall.nodes(4, cpu="4", pods="8")
    for number in range(40):
        if cpus and chance.below(4) == 0:
            gone = chance.choice(sorted(cpus))
            hall.delete(gone)
            del cpus[gone]
        name = f"p{number}"
        cpus[name] = chance.whole(1, 30)
        hall.pod(name, cpu=f"{cpus[name]}00m")
    places = {name: hall.where(name) for name in cpus}
    used = {
        node: sum(cpus[name] for name in cpus if places[name] == node)
        for node in ("n1", "n2", "n3", "n4")
    }
    count = collections.Counter(places.values())
    assert all(total <= 40 for total in used.values())
    for name in [name for name in cpus if places[name] is None]:
        assert all(total + cpus[name] > 40 or count[node] >= 8 for node, total in used.items())


class TestVolumes:
    @pytest.fixture
    def with_data(self):
        return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}

    def on_node(self, name):
        field = {"matchExpressions": [{"key": "host", "operator": "In", "values": [name]}]}
        return {"required": {"nodeSelectorTerms": [field]}}

    def test_a_claim_that_is_not_there(self, hall, with_data):
        hall.nodes(1)
        hall.pod(**with_data)
        assert (
            hall.why()
            == '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
        )

    def test_a_claim_that_is_not_bound(self, hall, with_data):
        hall.nodes(1)
        hall.claim()
        hall.pod(**with_data)
        assert hall.why() == (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
        )
        hall.volume()
        assert hall.where() == "n1"

    def test_where_its_volume_is(self, hall, with_data):
        for name in ("n1", "n2"):
            hall.node(name, labels={"host": name})
        hall.volume(nodeAffinity=self.on_node("n2"))
        hall.claim()
        assert hall.pod(**with_data) == "n2"

    def test_a_volume_that_is_elsewhere(self, hall, with_data):
        hall.node("n1", labels={"host": "n1"})
        hall.volume(nodeAffinity=self.on_node("n9"))
        hall.claim()
        hall.pod(**with_data)
        assert hall.why().startswith(
            "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity. "
        )

    def test_a_claim_that_waits_gets_its_volume_where_the_pod_goes(self, hall, with_data):
        hall.nodes(2)
        hall.class_("slow", "WaitForFirstConsumer")
        hall.claim(cls="slow")
        hall.pod(**with_data)
        assert hall.where() is None
        hall.advance(1.1)
        assert hall.where() in {"n1", "n2"}
        assert hall.claim_volume().startswith("pvc-")

    def test_a_claim_that_waits_takes_a_volume_that_is_there(self, hall, with_data):
        hall.ask(hall.api.create(*no_provisioner()))
        for name in ("n1", "n2"):
            hall.node(name, labels={"host": name})
        hall.volume(nodeAffinity=self.on_node("n2"), storageClassName="local")
        hall.claim(cls="local")
        hall.pod(**with_data)
        assert (hall.where(), hall.claim_volume()) == ("n2", "pv")

    def test_no_volume_for_a_claim_that_waits(self, hall, with_data):
        hall.ask(hall.api.create(*no_provisioner()))
        hall.nodes(1)
        hall.claim(cls="local")
        hall.pod(**with_data)
        words = (
            "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. "
        )
        assert hall.why() == words + HELPLESS.format(1)


def no_provisioner():
    return STORAGE_CLASSES, {
        **storage_class("local"),
        "provisioner": "kubernetes.io/no-provisioner",
    }
