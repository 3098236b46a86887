import pytest

from pytest_kscen.embedded.scheduler.backoff_queue import BackoffQueue
from pytest_kscen.embedded.scheduler.framework.configuration import (
    EnabledPlugin,
    PluginSet,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo, QueuedPod
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.objects.resources import NODES, PODS, SERVICES
from pytest_kscen.scheduler import (
    NODE,
    POD,
    Action,
    Interest,
    Plugin,
    pending,
    unschedulable,
)


class Tally:
    """When each pod was attempted, in seconds since the first."""

    def __init__(self):
        self.seen = []

    async def record(self, attempt):
        self.seen.append((attempt.pod["metadata"]["name"], attempt.at, attempt.number))

    def times(self, name):
        start = self.seen[0][1]
        return [round(at - start, 3) for one, at, _ in self.seen if one == name]

    def order(self):
        return [name for name, _, _ in self.seen]


@pytest.fixture
def tally():
    return Tally()


def with_plugin(halls, tally, plugin, **options):
    registry = Registry()
    registry.register(plugin)
    sets = {"multiPoint": PluginSet((EnabledPlugin(plugin.name),))}
    configuration = SchedulerConfiguration((ProfileConfiguration(plugins=sets),), **options)
    return halls(registry=registry, sink=tally, configuration=configuration)


class Fussy(Plugin):
    """Takes a node whose label says so."""

    def filter(self, state, pod, node):
        return None if node.labels.get("good") == pod.name else unschedulable("not good")

    def events(self):
        return (
            Interest(
                NODE,
                Action.NODE_LABEL,
                lambda pod, _, new: new["metadata"]["labels"].get("hint") == pod.name,
            ),
            Interest(NODE, Action.NODE_TAINT),
        )


class TestOrder:
    def test_by_priority_then_by_age(self, halls, tally):
        hall = halls(sink=tally)
        names = [("a", 0), ("b", 5), ("c", 0), ("d", 9), ("e", 5)]
        for name, priority in names:
            pod = {
                "metadata": {"name": name},
                "spec": {"priority": priority, "containers": [{"name": "c", "image": "i"}]},
            }
            hall.ask(hall.api.create(PODS, pod, "default"))
        hall.node("n1")
        hall.advance()
        assert tally.order()[:5] == ["d", "b", "e", "a", "c"]


class TestBackoff:
    def test_errors_double_it_up_to_ten_seconds(self, halls, tally):
        """Back-offs end with whole seconds: 1, 2, 4, 8, 10 and 10 seconds, each up to the end of
        the second that follows.
        """
        hall = halls(sink=tally)
        hall.pod()
        hall.advance(60)
        assert tally.times("p")[:7] == [0, 2, 5, 10, 19, 30, 41]

    def test_as_configured(self, halls, tally):
        hall = halls(
            sink=tally, configuration=SchedulerConfiguration(initial_backoff=3, longest_backoff=5)
        )
        hall.pod()
        hall.advance(20)
        assert tally.times("p") == [0, 4, 10, 16]

    def test_nobody_backs_off_while_there_is_nothing_else_to_do(self, halls, tally):
        hall = with_plugin(halls, tally, Fussy)
        hall.node("n1")
        hall.pod()
        for number in range(3):
            hall.change("n1", {"metadata": {"labels": {"hint": "p", "x": str(number)}}})
        assert tally.times("p") == [0, 0, 0, 0]

    def test_a_judge_says_who_comes_first_of_those_who_were_turned_down(self, halls, tally):
        hall = with_plugin(halls, tally, Fussy)
        hall.node("n1")
        for name, priority in (("a", 0), ("b", 9), ("c", 5)):
            hall.pod(name, priority=priority)
        hall.change("n1", {"spec": {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}})
        asked = []

        def judge(waiting):
            asked.append("".join(each.pod.name for each in waiting))
            return waiting[-1]

        hall.scheduler.queue.judge = judge
        hall.change("n1", {"spec": {"taints": [{"key": "y", "effect": "PreferNoSchedule"}]}})
        assert (tally.order(), asked) == (list("abcbcaacb"), ["bca", "bc"])

    def test_it_is_never_longer_however_often_a_pod_is_turned_down(self):
        queued = QueuedPod(
            PodInfo({"metadata": {"name": "p"}, "spec": {}}),
            since=0.0,
            sequence=1,
            unschedulable=5000,
        )
        backoffs = BackoffQueue(lambda: 9.0, lambda _: None)
        assert backoffs.is_backing_off(queued)
        assert queued.expires == 10.0

    def test_pods_that_wake_each_other_let_time_pass(self, halls, tally):
        class Shy(Plugin):
            async def pre_bind(self, state, pod, node):
                return unschedulable("not now")

        hall = with_plugin(halls, tally, Shy)
        hall.node("n1")
        hall.pod("a")
        hall.pod("b")
        hall.advance(60)
        assert max(tally.times("b").count(at) for at in tally.times("b")) <= 11
        assert tally.times("b")[-1] > 40

    def test_others_go_before_one_that_backs_off(self, halls, tally):
        hall = with_plugin(halls, tally, Fussy)
        hall.node("n1")
        hall.pod("old", priority=9)
        hall.ask(hall.api.patch(NODES, "n1", {"metadata": {"labels": {"hint": "old"}}}))
        hall.ask(
            hall.api.create(
                PODS,
                {
                    "metadata": {"name": "new"},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
                "default",
            )
        )
        hall.advance()
        assert tally.order() == ["old", "new", "old"]


class TestEvents:
    def test_only_what_a_plugin_has_asked_for(self, halls, tally):
        hall = with_plugin(halls, tally, Fussy)
        hall.node("n1")
        hall.pod()
        hall.change("n1", {"metadata": {"labels": {"hint": "other"}}})
        hall.change("n1", {"metadata": {"annotations": {"hint": "p"}}})
        assert len(tally.seen) == 1
        hall.change("n1", {"metadata": {"labels": {"hint": "p", "good": "p"}}})
        assert hall.where() == "n1"

    def test_what_happens_to_plugins_that_have_not_turned_it_down_does_not_help(self, halls, tally):
        hall = with_plugin(halls, tally, Fussy)
        hall.node("n1", cpu="1")
        hall.pod("first", cpu="1")
        hall.pod("second")
        count = len(tally.seen)
        hall.delete("first")
        assert len(tally.seen) == count

    def test_who_does_not_say_hears_of_everything(self, halls, tally):
        class Curious(Plugin):
            def filter(self, state, pod, node):
                return unschedulable("not yet")

        hall = with_plugin(halls, tally, Curious)
        hall.node("n1")
        hall.pod()
        count = len(tally.seen)
        service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
        hall.ask(hall.api.create(SERVICES, service, "default"))
        hall.advance()
        assert len(tally.seen) == count + 1

    def test_five_minutes_are_enough(self, halls, tally):
        hall = with_plugin(halls, tally, Fussy)
        hall.node("n1")
        hall.pod()
        hall.advance(700)
        assert tally.times("p") == [0, 330, 660]

    def test_its_own_change(self, halls, tally):
        hall = halls(sink=tally)
        hall.node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
        hall.pod()
        toleration = {"key": "k", "operator": "Exists"}
        spec = hall.get()["spec"]
        hall.ask(
            hall.api.patch(
                PODS,
                "p",
                {"spec": {"tolerations": [*spec.get("tolerations", []), toleration]}},
                "default",
            )
        )
        hall.advance()
        assert hall.where() == "n1"

    def test_a_gated_pod_is_not_even_attempted(self, halls, tally):
        hall = halls(sink=tally)
        hall.node("n1")
        hall.pod(schedulingGates=[{"name": "example.com/a"}])
        hall.advance(400)
        assert tally.seen == []

    def test_what_is_pending_is_looked_at_at_once(self, halls, tally):
        class Waits(Plugin):
            ready = False

            def filter(self, state, pod, node):
                return pending("not yet") if pod.name == "p" and not Waits.ready else None

            def events(self):
                return (Interest(POD, Action.DELETE),)

        hall = with_plugin(halls, tally, Waits)
        hall.node("n1")
        hall.pod("other", cpu="1")
        hall.pod()
        Waits.ready = True
        hall.delete("other")
        assert hall.where() == "n1"


def test_a_pod_in_deletion_is_passed_over(halls, tally, runner):
    import asyncio

    gate = asyncio.Event()
    hall = halls(sink=tally, gate=gate.wait)
    hall.node("n1")
    pod = {
        "metadata": {"name": "p", "finalizers": ["example.com/f"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    hall.ask(hall.api.create(PODS, pod, "default"))
    hall.ask(hall.api.delete(PODS, "p", "default"))
    gate.set()
    hall.advance()
    assert tally.seen == []
    assert hall.events() == [("FailedScheduling", "skip schedule deleting pod: default/p")]
