import pytest
from scheduler_cluster import SchedulerCluster

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.scheduler.framework.extender import ExtenderError, Victims
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo
from pytest_kscen.embedded.scheduler.plugins.preemption import PreemptionBudgets, best_candidates
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.resources import EVENTS, POD_DISRUPTION_BUDGETS, PODS
from pytest_kscen.scheduler import Plugin, wait

BELOW, LOW, MID, HIGH = -10, 10, 20, 100
NOW = "2026-01-01T12:00:00Z"
MINE = {"labelSelector": {"matchLabels": {"app": "db"}}}


@pytest.fixture
def cluster(api, runner):
    return SchedulerCluster(api, runner, Chance("hall"))


def put_pod(cluster, name, node, cpu, *, priority=LOW, started="", **spec):
    """Bind a pod to a node; it ends immediately when deleted."""
    spec = {"priority": priority, "terminationGracePeriodSeconds": 0, "nodeName": node, **spec}
    cluster.pod(name, cpu=cpu, **spec)
    if started:
        cluster.ask(
            cluster.api.patch(
                PODS, name, {"status": {"startTime": started}}, "default", subresource="status"
            )
        )
        cluster.advance()


def bound_node(cluster, name="p", cpu="2", priority=HIGH, **spec):
    """Return the node that a pod is bound to in the end."""
    cluster.pod(name, cpu=cpu, priority=priority, **spec)
    cluster.advance(30)
    return cluster.where(name)


def names(cluster):
    return " ".join(
        sorted(pod["metadata"]["name"] for pod in cluster.ask(cluster.api.list(PODS)).items)
    )


def budget(cluster, allowed, labels=None, name="pdb", disrupted=()):
    selector = {"matchLabels": labels or {"app": "db"}}
    obj = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
    }
    cluster.ask(
        cluster.api.create(
            POD_DISRUPTION_BUDGETS, {**obj, "spec": {"selector": selector, "minAvailable": 1}}
        )
    )
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    status["disruptedPods"] = dict.fromkeys(disrupted, NOW)
    cluster.ask(
        cluster.api.patch(
            POD_DISRUPTION_BUDGETS, name, {"status": status}, "default", subresource="status"
        )
    )
    cluster.advance()


class TestVictims:
    def test_fewest_victims_are_chosen(self, cluster):
        cluster.node("n1", cpu="4")
        for number, cpu in enumerate(("1", "1", "2")):
            put_pod(cluster, f"v{number}", "n1", cpu)
        assert bound_node(cluster, cpu="2") == "n1"
        assert names(cluster) == "p v0 v1"

    def test_highest_priority_pods_are_kept(self, cluster):
        """Reprieved are first mid, then the older of the two low ones; the younger does not fit."""
        cluster.node("n1", cpu="3")
        put_pod(cluster, "young", "n1", "1", started="2026-01-01T10:00:00Z")
        put_pod(cluster, "old", "n1", "1", started="2026-01-01T09:00:00Z")
        put_pod(cluster, "mid", "n1", "1", priority=MID)
        assert bound_node(cluster, cpu="1") == "n1"
        assert names(cluster) == "mid old p"

    def test_reprieve_order_with_small_pods(self, cluster):
        """The large one is more important and comes back; then there is no room for either of
        the small ones.
        """
        cluster.node("n1", cpu="4")
        put_pod(cluster, "large", "n1", "2", priority=MID)
        put_pod(cluster, "small1", "n1", "1")
        put_pod(cluster, "small2", "n1", "1")
        assert bound_node(cluster, cpu="2") == "n1"
        assert names(cluster) == "large p"

    def test_equal_priority_is_not_preempted(self, cluster):
        cluster.node("n1", cpu="2")
        put_pod(cluster, "v", "n1", "2", priority=HIGH)
        assert bound_node(cluster) is None
        assert names(cluster) == "p v"
        words = "0/1 nodes are available: 1 Insufficient cpu. "
        assert cluster.why().startswith(words)
        assert cluster.why().endswith(
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )

    def test_useless_preemption_is_avoided(self, cluster):
        cluster.node("n1", cpu="2")
        cluster.node("n2", cpu="2", unschedulable=True)
        put_pod(cluster, "v1", "n1", "1")
        put_pod(cluster, "v2", "n2", "2")
        put_pod(cluster, "v3", "n1", "1", priority=HIGH)
        assert bound_node(cluster) is None
        assert names(cluster) == "p v1 v2 v3"
        helpless = "1 Insufficient cpu, 1 Preemption is not helpful for scheduling"
        assert cluster.why().endswith(f"preemption: 0/2 nodes are available: {helpless}.")

    def test_anti_affinity_pods_are_victims(self, cluster):
        cluster.node("n1", cpu="4", labels={"zone": "a"})
        hermit = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{**MINE, "topologyKey": "zone"}]
            }
        }
        put_pod(cluster, "hermit", "n1", "1", affinity=hermit)
        put_pod(cluster, "other", "n1", "1")
        assert bound_node(cluster, cpu="1", labels={"app": "db"}) == "n1"
        assert names(cluster) == "other p"

    def test_skew_causing_pods_are_victims(self, cluster):
        """Zone a has two, b none but no room either: one must go from a, or one that is in the
        way from b.
        """
        for zone in ("a", "b"):
            cluster.node(f"n-{zone}", cpu="2", labels={"zone": zone})
        put_pod(cluster, "db1", "n-a", "1", labels={"app": "db"})
        put_pod(cluster, "db2", "n-a", "1", labels={"app": "db"})
        put_pod(cluster, "big", "n-b", "2", priority=HIGH)
        spread = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **MINE}
        assert (
            bound_node(cluster, cpu="1", labels={"app": "db"}, topologySpreadConstraints=[spread])
            == "n-a"
        )
        assert names(cluster) in {"big db1 p", "big db2 p"}

    def test_port_holder_is_victim(self, cluster):
        cluster.node("n1")
        port = {"ports": [{"containerPort": 80, "hostPort": 80}]}
        put_pod(cluster, "v", "n1", "1", container=port)
        put_pod(cluster, "other", "n1", "1")
        assert bound_node(cluster, cpu="1", container=port) == "n1"
        assert names(cluster) == "other p"


class TestCandidateNode:
    def test_lowest_maximum_priority_wins(self, cluster):
        for node, classes in (("n1", [MID]), ("n2", [LOW, LOW])):
            cluster.node(node, cpu="2")
            for number, priority in enumerate(classes):
                put_pod(
                    cluster, f"{node}-{number}", node, str(2 // len(classes)), priority=priority
                )
        assert bound_node(cluster) == "n2"

    def test_lowest_priority_sum_wins(self, cluster):
        """Below nothing is still more than no pod: one of -10 is less than two of it."""
        for node, count in (("n1", 2), ("n2", 1)):
            cluster.node(node, cpu="2")
            for number in range(count):
                put_pod(cluster, f"{node}-{number}", node, str(2 // count), priority=BELOW)
        assert bound_node(cluster) == "n2"

    def test_latest_start_time_wins(self, cluster):
        starts = {"n1": "09:00:00", "n2": "11:00:00", "n3": "10:00:00"}
        for node, start in starts.items():
            cluster.node(node, cpu="2")
            put_pod(cluster, f"v-{node}", node, "2", started=f"2026-01-01T{start}Z")
        assert bound_node(cluster) == "n2"
        assert names(cluster) == "p v-n1 v-n3"

    def test_ties_are_broken_by_seed(self, api, runner):
        cluster = SchedulerCluster(api, runner, Chance("another"))
        for node in ("n1", "n2", "n3"):
            cluster.node(node, cpu="2")
            put_pod(cluster, f"v-{node}", node, "2", started=NOW)
        assert bound_node(cluster) in {"n1", "n2", "n3"}

    def test_order_of_criteria(self):
        def victims(*pods, violations=0):
            made = [
                PodInfo(
                    {
                        "metadata": {"name": "v", "uid": str(number)},
                        "spec": {"priority": priority, "containers": []},
                        "status": {"startTime": start},
                    }
                )
                for number, (priority, start) in enumerate(pods)
            ]
            return Victims(made, violations)

        cheap, dear = victims((5, "1")), victims((9, "1"))
        assert best_candidates({"a": cheap._replace(violations=1), "b": dear}, NOW) == ["b"]
        assert best_candidates({"a": victims((5, "1"), (4, "1")), "b": victims((6, "1"))}, NOW) == [
            "a"
        ]
        assert best_candidates(
            {"a": victims((5, "1"), (4, "1")), "b": victims((5, "1"), (3, "1"))}, NOW
        ) == ["b"]
        assert best_candidates({"a": victims((5, "1"), (-(2**31), "1")), "b": cheap}, NOW) == ["b"]
        oldest = {"a": victims((5, "2"), (5, "4")), "b": victims((5, "3"), (5, "3"))}
        assert best_candidates(oldest, NOW) == ["b"]
        low_ones_do_not_count = {"a": victims((5, "3"), (4, "1")), "b": victims((5, "2"), (4, "2"))}
        assert best_candidates(low_ones_do_not_count, NOW) == ["a"]
        assert best_candidates({"a": cheap, "b": victims((5, "1"))}, NOW) == ["a", "b"]


class TestBudgets:
    def test_node_without_budget_violation_wins(self, cluster):
        for node in ("n1", "n2"):
            cluster.node(node, cpu="2")
        put_pod(cluster, "guarded", "n1", "2", priority=BELOW, labels={"app": "db"})
        put_pod(cluster, "other", "n2", "2", priority=MID)
        budget(cluster, 0)
        assert bound_node(cluster) == "n2"
        assert names(cluster) == "guarded p"

    def test_budgeted_pods_are_reprieved_first(self, cluster):
        """The other pod has a higher priority."""
        cluster.node("n1", cpu="2")
        put_pod(cluster, "guarded", "n1", "1", labels={"app": "db"})
        put_pod(cluster, "other", "n1", "1", priority=MID)
        budget(cluster, 0)
        assert bound_node(cluster, cpu="1") == "n1"
        assert names(cluster) == "guarded p"

    def test_budget_is_violated_as_last_resort(self, cluster):
        cluster.node("n1", cpu="2")
        put_pod(cluster, "guarded", "n1", "2", labels={"app": "db"})
        budget(cluster, 0)
        assert bound_node(cluster) == "n1"
        assert names(cluster) == "p"

    def test_allowed_violations_are_counted(self):
        def pod(name, **labels):
            return PodInfo(
                {
                    "metadata": {"name": name, "namespace": "x", "uid": name, "labels": labels},
                    "spec": {"containers": []},
                }
            )

        def pdb(allowed, selector, disrupted=(), namespace="x"):
            status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, NOW)}
            return {
                "metadata": {"namespace": namespace},
                "spec": {"selector": selector},
                "status": status,
            }

        pods = [
            pod("a", app="db"),
            pod("b", app="db"),
            pod("c", app="db"),
            pod("d", app="web"),
            pod("e"),
        ]
        by_app = {"matchLabels": {"app": "db"}}

        def violating(*budgets):
            return "".join(one.name for one in PreemptionBudgets(budgets).split(pods)[0])

        assert violating(pdb(1, by_app)) == "bc"
        assert violating(pdb(1, by_app, disrupted=["a"])) == "c"
        assert violating(pdb(0, by_app, namespace="y")) == ""
        assert violating(pdb(0, {})) == ""
        assert (
            violating(
                pdb(2, by_app), pdb(0, {"matchExpressions": [{"key": "app", "operator": "Exists"}]})
            )
            == "abcd"
        )


class TestProcess:
    def test_victim_receives_condition_before_deletion(self, cluster):
        cluster.node("n1", cpu="2")
        cluster.pod("v", cpu="2", priority=LOW)
        cluster.pod(cpu="2", priority=HIGH)
        victim, pod = cluster.get("v"), cluster.get()
        assert victim["metadata"]["deletionTimestamp"]
        target = condition(victim, "DisruptionTarget")
        assert (target["status"], target["reason"], target["observedGeneration"]) == (
            "True",
            "PreemptionByScheduler",
            1,
        )
        assert (
            target["message"]
            == "default-scheduler: preempting to accommodate a higher priority pod"
        )
        event = next(
            one
            for one in cluster.ask(cluster.api.list(EVENTS)).items
            if one["reason"] == "Preempted"
        )
        assert event["message"] == f"Preempted by pod {pod['metadata']['uid']} on node n1"
        assert (event["action"], event["related"]["name"], event["type"]) == (
            "Preempting",
            "p",
            "Normal",
        )
        assert pod["status"]["nominatedNodeName"] == "n1"

    def test_nominated_node_is_reserved(self, cluster):
        cluster.node("n1", cpu="2")
        cluster.pod("v", cpu="2", priority=LOW)
        cluster.pod(cpu="2", priority=HIGH)
        cluster.pod("thief", cpu="2", priority=MID)
        cluster.delete("v")
        cluster.advance(30)
        assert (cluster.where(), cluster.where("thief")) == ("n1", None)
        assert (
            "nominatedNodeName" not in cluster.get()["status"]
            or cluster.get()["spec"]["nodeName"] == "n1"
        )

    def test_no_preemption_while_victim_terminates(self, cluster):
        for node in ("n1", "n2"):
            cluster.node(node, cpu="2")
            cluster.pod(f"v-{node}", cpu="2", priority=LOW, nodeName=node)
        cluster.pod(cpu="2", priority=HIGH, labels={"app": "p"})
        first = cluster.get()["status"]["nominatedNodeName"]
        cluster.ask(
            cluster.api.patch(PODS, "p", {"metadata": {"labels": {"again": "1"}}}, "default")
        )
        cluster.node("n3", cpu="1", unschedulable=True)
        cluster.advance(400)
        assert cluster.why().endswith(
            "preemption: not eligible due to a terminating pod on the nominated node."
        )
        assert cluster.get()["status"]["nominatedNodeName"] == first
        going = [
            pod
            for pod in cluster.ask(cluster.api.list(PODS)).items
            if "deletionTimestamp" in pod["metadata"]
        ]
        assert [pod["spec"]["nodeName"] for pod in going] == [first]

    def test_higher_priority_pod_takes_nominated_node(self, cluster):
        """The first pod loses its nomination and is rescheduled."""
        cluster.node("n1", cpu="2")
        cluster.pod("v", cpu="2", priority=LOW)
        cluster.pod("first", cpu="2", priority=MID)
        assert cluster.get("first")["status"]["nominatedNodeName"] == "n1"
        cluster.pod("boss", cpu="2", priority=HIGH)
        cluster.advance(5)
        assert cluster.get("boss")["status"].get("nominatedNodeName") == "n1"
        cluster.delete("v")
        cluster.advance(30)
        assert (cluster.where("boss"), cluster.where("first")) == ("n1", None)
        assert not cluster.get("first")["status"].get("nominatedNodeName")

    def test_displaced_pod_is_rescheduled_immediately(self, cluster):
        """It does not wait for its victims to end."""
        cluster.node("n1", cpu="2")
        cluster.node("n2", cpu="1")
        for name, where, cpu in (
            ("a", "n1", "1"),
            ("b", "n1", "1"),
            ("c", "n2", "500m"),
            ("d", "n2", "500m"),
        ):
            cluster.pod(name, cpu=cpu, priority=LOW, nodeName=where)
        cluster.pod("first", cpu="1", priority=MID)
        assert cluster.get("first")["status"]["nominatedNodeName"] == "n1"
        cluster.pod("boss", cpu="2", priority=HIGH)
        assert cluster.get("boss")["status"]["nominatedNodeName"] == "n1"
        assert cluster.get("first")["status"]["nominatedNodeName"] == "n2"
        assert names(cluster) == "a b boss c d first"

    def test_unrelated_victim_deletion_wakes_no_pod(self, cluster):
        cluster.node("n1", cpu="2")
        cluster.pod("v", cpu="2", priority=LOW)
        cluster.pod("first", cpu="2", priority=MID)
        assert cluster.get("first")["status"]["nominatedNodeName"] == "n1"
        for name, priority in (("same", MID), ("above", HIGH)):
            cluster.pod(name, cpu="2", priority=priority, preemptionPolicy="Never")
        cluster.delete("first")
        tries = [cluster.events(name) for name in ("same", "above")]
        assert [len(each) for each in tries] == [2, 1]

    def test_preemption_policy_never(self, cluster):
        cluster.node("n1", cpu="2")
        put_pod(cluster, "v", "n1", "2")
        assert bound_node(cluster, preemptionPolicy="Never") is None
        assert cluster.why().endswith("preemption: not eligible due to preemptionPolicy=Never.")
        assert names(cluster) == "p v"

    def test_concurrent_preemptions(self, cluster):
        for number in range(1, 6):
            cluster.node(f"n{number}", cpu="2")
            for one in range(2):
                put_pod(cluster, f"v{number}-{one}", f"n{number}", "1")
        for number in range(5):
            cluster.ask(cluster.api.create(PODS, heavy(f"p{number}")))
        cluster.advance(60)
        assert sorted(cluster.where(f"p{number}") for number in range(5)) == [
            "n1",
            "n2",
            "n3",
            "n4",
            "n5",
        ]
        assert names(cluster) == "p0 p1 p2 p3 p4"

    def test_waiting_victim_is_rejected_only(self, api, runner):
        registry = Registry()
        registry.register(Hesitant)
        cluster = SchedulerCluster(
            api,
            runner,
            Chance("hall"),
            {"registry": registry, "configuration": configured(Hesitant)},
        )
        cluster.node("n1", cpu="2")
        cluster.pod("v", cpu="2", priority=LOW, labels={"wait": "1"})
        assert cluster.where("v") is None
        assert bound_node(cluster) == "n1"
        assert "deletionTimestamp" not in cluster.get("v")["metadata"]
        words = (
            f"Preempted by pod {cluster.get()['metadata']['uid']} on node n1 (in kube-scheduler "
            "memory)."
        )
        assert ("Preempted", words) in cluster.events("v")


class Hesitant(Plugin):
    def permit(self, state, pod, node):
        return wait(600) if "wait" in pod.labels else None


def configured(*plugins):
    from pytest_kscen.embedded.scheduler.framework.configuration import (
        EnabledPlugin,
        PluginSet,
        ProfileConfiguration,
        SchedulerConfiguration,
    )

    more = PluginSet(tuple(EnabledPlugin(plugin.name) for plugin in plugins))
    return SchedulerConfiguration(profiles=(ProfileConfiguration(plugins={"multiPoint": more}),))


def heavy(name):
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "2"}}}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "priority": HIGH},
    }


class TestCandidateLimit:
    @pytest.mark.parametrize(
        ("args", "nodes", "wanted"),
        [
            ({}, 50, 50),
            ({}, 500, 100),
            ({}, 5000, 500),
            ({"minCandidateNodesPercentage": 50, "minCandidateNodesAbsolute": 1}, 10, 5),
            ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 3}, 10, 3),
        ],
    )
    def test_candidate_count(self, rig, args, nodes, wanted):
        from pytest_kscen.embedded.scheduler.plugins.default_preemption import DefaultPreemption

        assert rig.make(DefaultPreemption, **args)._candidates_wanted(nodes) == wanted

    def test_search_stops_at_candidate_limit(self, api, runner):
        """One candidate is wanted, so the first is taken, though another would be cheaper."""
        from pytest_kscen.embedded.scheduler.framework.configuration import (
            ProfileConfiguration,
            SchedulerConfiguration,
        )

        args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}
        profile = ProfileConfiguration(arguments={"DefaultPreemption": args})
        cluster = SchedulerCluster(
            api, runner, Chance("y"), {"configuration": SchedulerConfiguration(profiles=(profile,))}
        )
        for number in range(20):
            cluster.node(f"n{number}", cpu="2")
            put_pod(
                cluster, f"v{number}", f"n{number}", "2", priority=BELOW if number == 0 else LOW
            )
        assert bound_node(cluster) in {f"n{number}" for number in range(1, 20)}


class InProcessExtender:
    """Extender in this process."""

    name, weight, filters, prioritizes, binds, preempts = "sayso", 1, False, False, False, True

    def __init__(self, answer, *, ignorable=False):
        self.answer, self.ignorable = answer, ignorable

    def is_interested(self, pod):
        return True

    async def preempt(self, state, pod, victims):
        return self.answer(victims)


class TestExtenders:
    @pytest.fixture
    def asked(self, cluster):
        for node, priority in (("n1", BELOW), ("n2", LOW)):
            cluster.node(node, cpu="2")
            put_pod(cluster, f"v-{node}", node, "2", priority=priority)

        def ask(answer, **parts):
            for profile in cluster.scheduler._profiles.values():
                profile.handle.extenders = [InProcessExtender(answer, **parts)]
            return bound_node(cluster)

        return ask

    def test_extender_keeps_some_candidates(self, asked):
        assert asked(lambda victims: {"n2": victims["n2"]}) == "n2"

    def test_extender_keeps_no_candidates(self, cluster, asked):
        assert asked(lambda _: {}) is None
        assert cluster.why().endswith("preemption: no candidate node for preemption")

    @pytest.mark.parametrize("ignorable", [True, False])
    def test_extender_failure(self, cluster, asked, ignorable):
        def broken(_):
            raise ExtenderError("it is broken")

        assert asked(broken, ignorable=ignorable) == ("n1" if ignorable else None)

    @pytest.mark.parametrize("ignorable", [True, False])
    def test_extender_omits_victims(self, cluster, asked, ignorable):
        where = asked(lambda victims: {"n1": Victims([]), "n2": victims["n2"]}, ignorable=ignorable)
        assert where == ("n2" if ignorable else None)
