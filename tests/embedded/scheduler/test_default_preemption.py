import pytest
from hall import Hall

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
def hall(api, runner):
    return Hall(api, runner, Chance("hall"))


def put(hall, name, node, cpu, *, priority=LOW, started="", **spec):
    """A pod that is on this node and goes at once when it is told to."""
    spec = {"priority": priority, "terminationGracePeriodSeconds": 0, "nodeName": node, **spec}
    hall.pod(name, cpu=cpu, **spec)
    if started:
        hall.ask(
            hall.api.patch(
                PODS, name, {"status": {"startTime": started}}, "default", subresource="status"
            )
        )
        hall.advance()


def want(hall, name="p", cpu="2", priority=HIGH, **spec):
    """Where a pod is in the end."""
    hall.pod(name, cpu=cpu, priority=priority, **spec)
    hall.advance(30)
    return hall.where(name)


def names(hall):
    return " ".join(sorted(pod["metadata"]["name"] for pod in hall.ask(hall.api.list(PODS)).items))


def budget(hall, allowed, labels=None, name="pdb", disrupted=()):
    selector = {"matchLabels": labels or {"app": "db"}}
    obj = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
    }
    hall.ask(
        hall.api.create(
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
    hall.ask(
        hall.api.patch(
            POD_DISRUPTION_BUDGETS, name, {"status": status}, "default", subresource="status"
        )
    )
    hall.advance()


class TestWhoGoes:
    def test_as_few_as_must(self, hall):
        hall.node("n1", cpu="4")
        for number, cpu in enumerate(("1", "1", "2")):
            put(hall, f"v{number}", "n1", cpu)
        assert want(hall, cpu="2") == "n1"
        assert names(hall) == "p v0 v1"

    def test_the_most_important_stay(self, hall):
        """Back come first mid, then the older of the two low ones; for the younger there is no
        room.
        """
        hall.node("n1", cpu="3")
        put(hall, "young", "n1", "1", started="2026-01-01T10:00:00Z")
        put(hall, "old", "n1", "1", started="2026-01-01T09:00:00Z")
        put(hall, "mid", "n1", "1", priority=MID)
        assert want(hall, cpu="1") == "n1"
        assert names(hall) == "mid old p"

    def test_one_that_is_too_small_goes_on_as_before(self, hall):
        """The large one is more important and comes back; then there is no room for either of
        the small ones.
        """
        hall.node("n1", cpu="4")
        put(hall, "large", "n1", "2", priority=MID)
        put(hall, "small1", "n1", "1")
        put(hall, "small2", "n1", "1")
        assert want(hall, cpu="2") == "n1"
        assert names(hall) == "large p"

    def test_never_an_equal(self, hall):
        hall.node("n1", cpu="2")
        put(hall, "v", "n1", "2", priority=HIGH)
        assert want(hall) is None
        assert names(hall) == "p v"
        words = "0/1 nodes are available: 1 Insufficient cpu. "
        assert hall.why().startswith(words)
        assert hall.why().endswith(
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )

    def test_nobody_where_it_would_not_help(self, hall):
        hall.node("n1", cpu="2")
        hall.node("n2", cpu="2", unschedulable=True)
        put(hall, "v1", "n1", "1")
        put(hall, "v2", "n2", "2")
        put(hall, "v3", "n1", "1", priority=HIGH)
        assert want(hall) is None
        assert names(hall) == "p v1 v2 v3"
        helpless = "1 Insufficient cpu, 1 Preemption is not helpful for scheduling"
        assert hall.why().endswith(f"preemption: 0/2 nodes are available: {helpless}.")

    def test_those_that_do_not_want_it_near(self, hall):
        hall.node("n1", cpu="4", labels={"zone": "a"})
        hermit = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{**MINE, "topologyKey": "zone"}]
            }
        }
        put(hall, "hermit", "n1", "1", affinity=hermit)
        put(hall, "other", "n1", "1")
        assert want(hall, cpu="1", labels={"app": "db"}) == "n1"
        assert names(hall) == "other p"

    def test_those_that_make_it_uneven(self, hall):
        """Zone a has two, b none but no room either: one must go from a, or one that is in the
        way from b.
        """
        for zone in ("a", "b"):
            hall.node(f"n-{zone}", cpu="2", labels={"zone": zone})
        put(hall, "db1", "n-a", "1", labels={"app": "db"})
        put(hall, "db2", "n-a", "1", labels={"app": "db"})
        put(hall, "big", "n-b", "2", priority=HIGH)
        spread = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **MINE}
        assert (
            want(hall, cpu="1", labels={"app": "db"}, topologySpreadConstraints=[spread]) == "n-a"
        )
        assert names(hall) in {"big db1 p", "big db2 p"}

    def test_a_port(self, hall):
        hall.node("n1")
        port = {"ports": [{"containerPort": 80, "hostPort": 80}]}
        put(hall, "v", "n1", "1", container=port)
        put(hall, "other", "n1", "1")
        assert want(hall, cpu="1", container=port) == "n1"
        assert names(hall) == "other p"


class TestFromWhere:
    def test_where_the_highest_is_lowest(self, hall):
        for node, classes in (("n1", [MID]), ("n2", [LOW, LOW])):
            hall.node(node, cpu="2")
            for number, priority in enumerate(classes):
                put(hall, f"{node}-{number}", node, str(2 // len(classes)), priority=priority)
        assert want(hall) == "n2"

    def test_where_the_sum_is_lowest(self, hall):
        """Below nothing is still more than no pod: one of -10 is less than two of it."""
        for node, count in (("n1", 2), ("n2", 1)):
            hall.node(node, cpu="2")
            for number in range(count):
                put(hall, f"{node}-{number}", node, str(2 // count), priority=BELOW)
        assert want(hall) == "n2"

    def test_where_they_have_run_for_the_shortest_time(self, hall):
        starts = {"n1": "09:00:00", "n2": "11:00:00", "n3": "10:00:00"}
        for node, start in starts.items():
            hall.node(node, cpu="2")
            put(hall, f"v-{node}", node, "2", started=f"2026-01-01T{start}Z")
        assert want(hall) == "n2"
        assert names(hall) == "p v-n1 v-n3"

    def test_among_equals_by_the_seed(self, api, runner):
        hall = Hall(api, runner, Chance("another"))
        for node in ("n1", "n2", "n3"):
            hall.node(node, cpu="2")
            put(hall, f"v-{node}", node, "2", started=NOW)
        assert want(hall) in {"n1", "n2", "n3"}

    def test_the_order_of_the_rules(self):
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
    def test_the_node_where_none_is_exceeded(self, hall):
        for node in ("n1", "n2"):
            hall.node(node, cpu="2")
        put(hall, "guarded", "n1", "2", priority=BELOW, labels={"app": "db"})
        put(hall, "other", "n2", "2", priority=MID)
        budget(hall, 0)
        assert want(hall) == "n2"
        assert names(hall) == "guarded p"

    def test_guarded_pods_come_back_first(self, hall):
        """Though the other one is more important."""
        hall.node("n1", cpu="2")
        put(hall, "guarded", "n1", "1", labels={"app": "db"})
        put(hall, "other", "n1", "1", priority=MID)
        budget(hall, 0)
        assert want(hall, cpu="1") == "n1"
        assert names(hall) == "guarded p"

    def test_where_there_is_no_other_way_it_is_exceeded(self, hall):
        hall.node("n1", cpu="2")
        put(hall, "guarded", "n1", "2", labels={"app": "db"})
        budget(hall, 0)
        assert want(hall) == "n1"
        assert names(hall) == "p"

    def test_how_many_it_allows(self):
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


class TestHowItGoes:
    def test_a_pod_is_told_before_it_goes(self, hall):
        hall.node("n1", cpu="2")
        hall.pod("v", cpu="2", priority=LOW)
        hall.pod(cpu="2", priority=HIGH)
        victim, pod = hall.get("v"), hall.get()
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
            one for one in hall.ask(hall.api.list(EVENTS)).items if one["reason"] == "Preempted"
        )
        assert event["message"] == f"Preempted by pod {pod['metadata']['uid']} on node n1"
        assert (event["action"], event["related"]["name"], event["type"]) == (
            "Preempting",
            "p",
            "Normal",
        )
        assert pod["status"]["nominatedNodeName"] == "n1"

    def test_its_place_is_kept_until_it_is_gone(self, hall):
        hall.node("n1", cpu="2")
        hall.pod("v", cpu="2", priority=LOW)
        hall.pod(cpu="2", priority=HIGH)
        hall.pod("thief", cpu="2", priority=MID)
        hall.delete("v")
        hall.advance(30)
        assert (hall.where(), hall.where("thief")) == ("n1", None)
        assert (
            "nominatedNodeName" not in hall.get()["status"]
            or hall.get()["spec"]["nodeName"] == "n1"
        )

    def test_no_more_are_sent_away_while_one_is_on_its_way_out(self, hall):
        for node in ("n1", "n2"):
            hall.node(node, cpu="2")
            hall.pod(f"v-{node}", cpu="2", priority=LOW, nodeName=node)
        hall.pod(cpu="2", priority=HIGH, labels={"app": "p"})
        first = hall.get()["status"]["nominatedNodeName"]
        hall.ask(hall.api.patch(PODS, "p", {"metadata": {"labels": {"again": "1"}}}, "default"))
        hall.node("n3", cpu="1", unschedulable=True)
        hall.advance(400)
        assert hall.why().endswith(
            "preemption: not eligible due to a terminating pod on the nominated node."
        )
        assert hall.get()["status"]["nominatedNodeName"] == first
        going = [
            pod
            for pod in hall.ask(hall.api.list(PODS)).items
            if "deletionTimestamp" in pod["metadata"]
        ]
        assert [pod["spec"]["nodeName"] for pod in going] == [first]

    def test_somebody_more_important_takes_the_place(self, hall):
        """The first to come loses its nomination and looks for another place."""
        hall.node("n1", cpu="2")
        hall.pod("v", cpu="2", priority=LOW)
        hall.pod("first", cpu="2", priority=MID)
        assert hall.get("first")["status"]["nominatedNodeName"] == "n1"
        hall.pod("boss", cpu="2", priority=HIGH)
        hall.advance(5)
        assert hall.get("boss")["status"].get("nominatedNodeName") == "n1"
        hall.delete("v")
        hall.advance(30)
        assert (hall.where("boss"), hall.where("first")) == ("n1", None)
        assert not hall.get("first")["status"].get("nominatedNodeName")

    def test_who_loses_its_place_looks_for_another_at_once(self, hall):
        """Not only when those are gone who were to make room."""
        hall.node("n1", cpu="2")
        hall.node("n2", cpu="1")
        for name, where, cpu in (
            ("a", "n1", "1"),
            ("b", "n1", "1"),
            ("c", "n2", "500m"),
            ("d", "n2", "500m"),
        ):
            hall.pod(name, cpu=cpu, priority=LOW, nodeName=where)
        hall.pod("first", cpu="1", priority=MID)
        assert hall.get("first")["status"]["nominatedNodeName"] == "n1"
        hall.pod("boss", cpu="2", priority=HIGH)
        assert hall.get("boss")["status"]["nominatedNodeName"] == "n1"
        assert hall.get("first")["status"]["nominatedNodeName"] == "n2"
        assert names(hall) == "a b boss c d first"

    def test_who_does_not_reckon_with_a_pod_is_not_woken_when_that_goes(self, hall):
        hall.node("n1", cpu="2")
        hall.pod("v", cpu="2", priority=LOW)
        hall.pod("first", cpu="2", priority=MID)
        assert hall.get("first")["status"]["nominatedNodeName"] == "n1"
        for name, priority in (("same", MID), ("above", HIGH)):
            hall.pod(name, cpu="2", priority=priority, preemptionPolicy="Never")
        hall.delete("first")
        tries = [hall.events(name) for name in ("same", "above")]
        assert [len(each) for each in tries] == [2, 1]

    def test_a_pod_that_may_not(self, hall):
        hall.node("n1", cpu="2")
        put(hall, "v", "n1", "2")
        assert want(hall, preemptionPolicy="Never") is None
        assert hall.why().endswith("preemption: not eligible due to preemptionPolicy=Never.")
        assert names(hall) == "p v"

    def test_many_at_once(self, hall):
        for number in range(1, 6):
            hall.node(f"n{number}", cpu="2")
            for one in range(2):
                put(hall, f"v{number}-{one}", f"n{number}", "1")
        for number in range(5):
            hall.ask(hall.api.create(PODS, heavy(f"p{number}")))
        hall.advance(60)
        assert sorted(hall.where(f"p{number}") for number in range(5)) == [
            "n1",
            "n2",
            "n3",
            "n4",
            "n5",
        ]
        assert names(hall) == "p0 p1 p2 p3 p4"

    def test_a_victim_that_waits_for_a_permit_is_only_turned_away(self, api, runner):
        registry = Registry()
        registry.register(Hesitant)
        hall = Hall(
            api,
            runner,
            Chance("hall"),
            {"registry": registry, "configuration": configured(Hesitant)},
        )
        hall.node("n1", cpu="2")
        hall.pod("v", cpu="2", priority=LOW, labels={"wait": "1"})
        assert hall.where("v") is None
        assert want(hall) == "n1"
        assert "deletionTimestamp" not in hall.get("v")["metadata"]
        words = (
            f"Preempted by pod {hall.get()['metadata']['uid']} on node n1 (in kube-scheduler "
            "memory)."
        )
        assert ("Preempted", words) in hall.events("v")


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


class TestHowManyAreTried:
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
    def test_candidates(self, rig, args, nodes, wanted):
        from pytest_kscen.embedded.scheduler.plugins.default_preemption import DefaultPreemption

        assert rig.make(DefaultPreemption, **args)._candidates_wanted(nodes) == wanted

    def test_enough_are_enough(self, api, runner):
        """With one candidate wanted, it is taken, though another would be cheaper."""
        from pytest_kscen.embedded.scheduler.framework.configuration import (
            ProfileConfiguration,
            SchedulerConfiguration,
        )

        args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}
        profile = ProfileConfiguration(arguments={"DefaultPreemption": args})
        hall = Hall(
            api, runner, Chance("y"), {"configuration": SchedulerConfiguration(profiles=(profile,))}
        )
        for number in range(20):
            hall.node(f"n{number}", cpu="2")
            put(hall, f"v{number}", f"n{number}", "2", priority=BELOW if number == 0 else LOW)
        assert want(hall) in {f"n{number}" for number in range(1, 20)}


class Sayso:
    """An extender in this process."""

    name, weight, filters, prioritizes, binds, preempts = "sayso", 1, False, False, False, True

    def __init__(self, answer, *, ignorable=False):
        self.answer, self.ignorable = answer, ignorable

    def is_interested(self, pod):
        return True

    async def preempt(self, state, pod, victims):
        return self.answer(victims)


class TestExtenders:
    @pytest.fixture
    def asked(self, hall):
        for node, priority in (("n1", BELOW), ("n2", LOW)):
            hall.node(node, cpu="2")
            put(hall, f"v-{node}", node, "2", priority=priority)

        def ask(answer, **parts):
            for profile in hall.scheduler._profiles.values():
                profile.handle.extenders = [Sayso(answer, **parts)]
            return want(hall)

        return ask

    def test_it_leaves_some(self, asked):
        assert asked(lambda victims: {"n2": victims["n2"]}) == "n2"

    def test_it_leaves_none(self, hall, asked):
        assert asked(lambda _: {}) is None
        assert hall.why().endswith("preemption: no candidate node for preemption")

    @pytest.mark.parametrize("ignorable", [True, False])
    def test_it_fails(self, hall, asked, ignorable):
        def broken(_):
            raise ExtenderError("it is broken")

        assert asked(broken, ignorable=ignorable) == ("n1" if ignorable else None)

    @pytest.mark.parametrize("ignorable", [True, False])
    def test_it_forgets_the_victims(self, hall, asked, ignorable):
        where = asked(lambda victims: {"n1": Victims([]), "n2": victims["n2"]}, ignorable=ignorable)
        assert where == ("n2" if ignorable else None)
