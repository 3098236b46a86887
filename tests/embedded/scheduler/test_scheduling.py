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
    def test_pod_is_bound(self, cluster):
        cluster.nodes(1)
        assert cluster.pod() == "n1"
        assert cluster.events() == [("Scheduled", "Successfully assigned default/p to n1")]
        (found,) = (
            one for one in cluster.get()["status"]["conditions"] if one["type"] == "PodScheduled"
        )
        assert found["status"] == "True"

    def test_pods_spread_by_free_resources(self, cluster):
        cluster.nodes(3)
        places = collections.Counter(cluster.pod(f"p{number}", cpu="500m") for number in range(6))
        assert places == {"n1": 2, "n2": 2, "n3": 2}

    def test_siblings_without_requests_spread(self, cluster):
        cluster.nodes(3)
        assert sorted(cluster.pod(f"p{number}", owner="web") for number in range(3)) == [
            "n1",
            "n2",
            "n3",
        ]

    def test_ties_are_broken_by_seed(self):
        def drawn(seed):
            ties = TieBreaker(Chance(seed).stream("scheduler"))
            return [ties.decide(None, best_positions([1, 7, 7, 7, 7, 2])) for _ in range(20)]

        assert drawn(1) == drawn(1)
        assert drawn(1) != drawn(2)
        assert set(drawn(1)) == {1, 2, 3, 4}

    def test_tie_breaker_decides(self, cluster):
        cluster.nodes(6)
        cluster.scheduler.ties.judge = lambda pod, names: (
            names[-1] if pod.name == "last" else names[0]
        )
        assert (cluster.pod("first"), cluster.pod("last")) == ("n1", "n6")

    def test_no_draw_without_ties(self):
        chance = Chance(1).stream("scheduler")
        assert TieBreaker(chance).decide(None, best_positions([1, 2])) == 1
        assert chance.below(1000) == Chance(1).stream("scheduler").below(1000)

    def test_higher_priority_is_scheduled_first(self, cluster):
        cluster.pod("low", cpu="3", priority=0)
        cluster.pod("high", cpu="3", priority=10)
        cluster.nodes(1)
        cluster.advance(2.1)
        assert (cluster.where("low"), cluster.where("high")) == (None, "n1")

    def test_pods_of_other_scheduler_are_ignored(self, cluster):
        cluster.nodes(1)
        assert cluster.pod(schedulerName="mine") is None
        assert cluster.events() == []

    def test_scheduling_gate_holds_pod_back(self, cluster):
        cluster.nodes(1)
        assert cluster.pod(schedulingGates=[{"name": "example.com/wait"}]) is None
        cluster.ask(cluster.api.patch(PODS, "p", {"spec": {"schedulingGates": None}}, "default"))
        cluster.advance()
        assert cluster.where() == "n1"


class TestRefusing:
    def test_no_nodes(self, cluster):
        cluster.pod()
        assert cluster.why() == "no nodes available to schedule pods"

    def test_request_exceeds_every_node(self, cluster):
        cluster.nodes(3)
        cluster.pod(cpu="5")
        assert cluster.why() == "0/3 nodes are available: 3 Insufficient cpu. " + HELPLESS.format(3)
        assert cluster.events() == [("FailedScheduling", cluster.why())]

    def test_request_exceeds_free_resources(self, cluster):
        cluster.nodes(1)
        cluster.pod("first", cpu="3")
        cluster.pod(cpu="2")
        assert cluster.why() == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
            "0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )

    def test_too_many_pods(self, cluster):
        cluster.nodes(1, pods="1")
        cluster.pod("first")
        cluster.pod()
        assert cluster.why().startswith("0/1 nodes are available: 1 Too many pods. ")

    def test_reasons_are_counted(self, cluster):
        cluster.node("n1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
        cluster.node("n2", unschedulable=True)
        cluster.node("n3", cpu="1", memory="1Gi")
        cluster.pod(container={"resources": {"requests": {"cpu": "2", "memory": "2Gi"}}})
        assert cluster.why() == (
            "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 "
            "node(s) had untolerated taint(s), "
            "1 node(s) were unschedulable. " + HELPLESS.format(3)
        )

    def test_host_port_conflict(self, cluster):
        cluster.nodes(1)
        listening = {"ports": [{"containerPort": 80, "hostPort": 80}]}
        assert cluster.pod("first", container=listening) == "n1"
        cluster.pod(container=listening)
        assert cluster.why().startswith(
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested "
            "pod ports. "
        )

    def test_preemption_policy_never(self, cluster):
        cluster.nodes(1)
        cluster.pod(cpu="5", preemptionPolicy="Never")
        assert cluster.why().endswith("preemption: not eligible due to preemptionPolicy=Never.")


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
    def test_node_selector(self, cluster, spec):
        cluster.node("slow", labels={"disk": "slow", "speed": "1", "slow": ""})
        cluster.node("fast", labels={"disk": "fast", "speed": "10"})
        assert cluster.pod(**spec) == "fast"

    def test_node_name_affinity(self, cluster):
        cluster.nodes(3)
        field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        assert (
            cluster.pod(
                affinity={
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
                }
            )
            == "n2"
        )

    def test_unmatched_affinity(self, cluster):
        cluster.nodes(2)
        cluster.pod(nodeSelector={"disk": "fast"})
        assert (
            cluster.why()
            == "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "
            + HELPLESS.format(2)
        )

    def test_preferred_affinity(self, cluster):
        cluster.node("plain", cpu="100")
        cluster.node("nice", labels={"nice": "yes"})
        preference = {"matchExpressions": [{"key": "nice", "operator": "Exists"}]}
        preferred = [{"weight": 100, "preference": preference}]
        assert (
            cluster.pod(
                affinity={
                    "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
                }
            )
            == "nice"
        )

    def test_tolerations(self, cluster):
        cluster.node("n1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
        cluster.pod("q")
        assert cluster.where("q") is None
        assert (
            cluster.pod(
                tolerations=[
                    {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
                ]
            )
            == "n1"
        )

    def test_prefer_no_schedule(self, cluster):
        cluster.node("n1", taints=[{"key": "k", "effect": "PreferNoSchedule"}], cpu="100")
        cluster.node("n2")
        assert cluster.pod() == "n2"


class TestRequeueing:
    def test_added_node(self, cluster):
        cluster.node("n0", unschedulable=True)
        cluster.pod()
        cluster.nodes(1)
        assert cluster.where() == "n1"

    def test_retry_without_nodes(self, cluster):
        cluster.pod()
        cluster.nodes(1)
        assert cluster.where() is None
        cluster.advance(2.1)
        assert cluster.where() == "n1"

    def test_deleted_pod(self, cluster):
        cluster.nodes(1)
        cluster.pod("first", cpu="3")
        assert cluster.pod(cpu="2") is None
        cluster.delete("first")
        assert cluster.where() == "n1"

    def test_finished_pod(self, cluster):
        cluster.nodes(1)
        cluster.pod("first", cpu="3")
        cluster.pod(cpu="2")
        done = {**cluster.get("first"), "status": {"phase": "Succeeded"}}
        cluster.ask(cluster.api.update(PODS, done, subresource="status"))
        cluster.advance()
        assert cluster.where() == "n1"

    @pytest.mark.parametrize(
        ("node", "pod", "change"),
        [
            ({"unschedulable": True}, {}, {"spec": {"unschedulable": None}}),
            ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, {}, {"spec": {"taints": None}}),
            ({}, {"nodeSelector": {"disk": "fast"}}, {"metadata": {"labels": {"disk": "fast"}}}),
        ],
        ids=["opened", "taint gone", "labelled"],
    )
    def test_changed_node(self, cluster, node, pod, change):
        cluster.node("n1", **node)
        assert cluster.pod(**pod) is None
        cluster.change("n1", change)
        assert cluster.where() == "n1"

    def test_heartbeat_causes_no_retry(self, cluster):
        cluster.nodes(1)
        cluster.pod(cpu="5")
        version = cluster.get()["metadata"]["resourceVersion"]
        cluster.change("n1", {"metadata": {"annotations": {"a": "b"}}})
        assert cluster.get()["metadata"]["resourceVersion"] == version
        assert len(cluster.events()) == 1

    def test_deleted_pending_pod_is_dropped(self, cluster):
        cluster.pod()
        cluster.delete()
        cluster.nodes(1)
        assert cluster.pod("q") == "n1"


@pytest.mark.parametrize("seed", range(5))
def test_no_overcommit_and_no_needless_waiting(cluster, seed):
    chance, cpus = Chance(seed).stream("pods"), {}
    cluster.nodes(4, cpu="4", pods="8")
    for number in range(40):
        if cpus and chance.below(4) == 0:
            gone = chance.choice(sorted(cpus))
            cluster.delete(gone)
            del cpus[gone]
        name = f"p{number}"
        cpus[name] = chance.whole(1, 30)
        cluster.pod(name, cpu=f"{cpus[name]}00m")
    places = {name: cluster.where(name) for name in cpus}
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

    def test_missing_claim(self, cluster, with_data):
        cluster.nodes(1)
        cluster.pod(**with_data)
        assert (
            cluster.why()
            == '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
        )

    def test_unbound_claim(self, cluster, with_data):
        cluster.nodes(1)
        cluster.claim()
        cluster.pod(**with_data)
        assert cluster.why() == (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
        )
        cluster.volume()
        assert cluster.where() == "n1"

    def test_volume_node_affinity(self, cluster, with_data):
        for name in ("n1", "n2"):
            cluster.node(name, labels={"host": name})
        cluster.volume(nodeAffinity=self.on_node("n2"))
        cluster.claim()
        assert cluster.pod(**with_data) == "n2"

    def test_volume_on_other_node(self, cluster, with_data):
        cluster.node("n1", labels={"host": "n1"})
        cluster.volume(nodeAffinity=self.on_node("n9"))
        cluster.claim()
        cluster.pod(**with_data)
        assert cluster.why().startswith(
            "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity. "
        )

    def test_delayed_claim_is_provisioned_on_selected_node(self, cluster, with_data):
        cluster.nodes(2)
        cluster.class_("slow", "WaitForFirstConsumer")
        cluster.claim(cls="slow")
        cluster.pod(**with_data)
        assert cluster.where() is None
        cluster.advance(1.1)
        assert cluster.where() in {"n1", "n2"}
        assert cluster.claim_volume().startswith("pvc-")

    def test_delayed_claim_binds_existing_volume(self, cluster, with_data):
        cluster.ask(cluster.api.create(*no_provisioner()))
        for name in ("n1", "n2"):
            cluster.node(name, labels={"host": name})
        cluster.volume(nodeAffinity=self.on_node("n2"), storageClassName="local")
        cluster.claim(cls="local")
        cluster.pod(**with_data)
        assert (cluster.where(), cluster.claim_volume()) == ("n2", "pv")

    def test_delayed_claim_without_volume(self, cluster, with_data):
        cluster.ask(cluster.api.create(*no_provisioner()))
        cluster.nodes(1)
        cluster.claim(cls="local")
        cluster.pod(**with_data)
        words = (
            "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. "
        )
        assert cluster.why() == words + HELPLESS.format(1)


def no_provisioner():
    return STORAGE_CLASSES, {
        **storage_class("local"),
        "provisioner": "kubernetes.io/no-provisioner",
    }
