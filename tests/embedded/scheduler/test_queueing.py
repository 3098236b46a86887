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


class AttemptTimes:
    """Times of the attempts of each pod, in seconds since the first."""

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
def attempt_times():
    return AttemptTimes()


def with_plugin(make_cluster, attempt_times, plugin, **options):
    registry = Registry()
    registry.register(plugin)
    sets = {"multiPoint": PluginSet((EnabledPlugin(plugin.name),))}
    configuration = SchedulerConfiguration((ProfileConfiguration(plugins=sets),), **options)
    return make_cluster(registry=registry, sink=attempt_times, configuration=configuration)


class Fussy(Plugin):
    """Plugin that accepts nodes with a label."""

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
    def test_queue_order(self, make_cluster, attempt_times):
        cluster = make_cluster(sink=attempt_times)
        names = [("a", 0), ("b", 5), ("c", 0), ("d", 9), ("e", 5)]
        for name, priority in names:
            pod = {
                "metadata": {"name": name},
                "spec": {"priority": priority, "containers": [{"name": "c", "image": "i"}]},
            }
            cluster.ask(cluster.api.create(PODS, pod, "default"))
        cluster.node("n1")
        cluster.advance()
        assert attempt_times.order()[:5] == ["d", "b", "e", "a", "c"]


class TestBackoff:
    def test_errors_double_backoff_to_ten_seconds(self, make_cluster, attempt_times):
        """Back-offs end with whole seconds: 1, 2, 4, 8, 10 and 10 seconds, each up to the end of
        the second that follows.
        """
        cluster = make_cluster(sink=attempt_times)
        cluster.pod()
        cluster.advance(60)
        assert attempt_times.times("p")[:7] == [0, 2, 5, 10, 19, 30, 41]

    def test_configured_backoff(self, make_cluster, attempt_times):
        cluster = make_cluster(
            sink=attempt_times,
            configuration=SchedulerConfiguration(initial_backoff=3, longest_backoff=5),
        )
        cluster.pod()
        cluster.advance(20)
        assert attempt_times.times("p") == [0, 4, 10, 16]

    def test_idle_scheduler_skips_backoff(self, make_cluster, attempt_times):
        cluster = with_plugin(make_cluster, attempt_times, Fussy)
        cluster.node("n1")
        cluster.pod()
        for number in range(3):
            cluster.change("n1", {"metadata": {"labels": {"hint": "p", "x": str(number)}}})
        assert attempt_times.times("p") == [0, 0, 0, 0]

    def test_tie_breaker_orders_rejected_pods(self, make_cluster, attempt_times):
        cluster = with_plugin(make_cluster, attempt_times, Fussy)
        cluster.node("n1")
        for name, priority in (("a", 0), ("b", 9), ("c", 5)):
            cluster.pod(name, priority=priority)
        cluster.change("n1", {"spec": {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}})
        asked = []

        def judge(waiting):
            asked.append("".join(each.pod.name for each in waiting))
            return waiting[-1]

        cluster.scheduler.queue.judge = judge
        cluster.change("n1", {"spec": {"taints": [{"key": "y", "effect": "PreferNoSchedule"}]}})
        assert (attempt_times.order(), asked) == (list("abcbcaacb"), ["bca", "bc"])

    def test_backoff_is_bounded(self):
        queued = QueuedPod(
            PodInfo({"metadata": {"name": "p"}, "spec": {}}),
            since=0.0,
            sequence=1,
            unschedulable=5000,
        )
        backoffs = BackoffQueue(lambda: 9.0, lambda _: None)
        assert backoffs.is_backing_off(queued)
        assert queued.expires == 10.0

    def test_mutual_wakeups_advance_time(self, make_cluster, attempt_times):
        class Shy(Plugin):
            async def pre_bind(self, state, pod, node):
                return unschedulable("not now")

        cluster = with_plugin(make_cluster, attempt_times, Shy)
        cluster.node("n1")
        cluster.pod("a")
        cluster.pod("b")
        cluster.advance(60)
        assert max(attempt_times.times("b").count(at) for at in attempt_times.times("b")) <= 11
        assert attempt_times.times("b")[-1] > 40

    def test_other_pods_precede_backoff_pod(self, make_cluster, attempt_times):
        cluster = with_plugin(make_cluster, attempt_times, Fussy)
        cluster.node("n1")
        cluster.pod("old", priority=9)
        cluster.ask(cluster.api.patch(NODES, "n1", {"metadata": {"labels": {"hint": "old"}}}))
        cluster.ask(
            cluster.api.create(
                PODS,
                {
                    "metadata": {"name": "new"},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
                "default",
            )
        )
        cluster.advance()
        assert attempt_times.order() == ["old", "new", "old"]


class TestEvents:
    def test_only_registered_events_requeue(self, make_cluster, attempt_times):
        cluster = with_plugin(make_cluster, attempt_times, Fussy)
        cluster.node("n1")
        cluster.pod()
        cluster.change("n1", {"metadata": {"labels": {"hint": "other"}}})
        cluster.change("n1", {"metadata": {"annotations": {"hint": "p"}}})
        assert len(attempt_times.seen) == 1
        cluster.change("n1", {"metadata": {"labels": {"hint": "p", "good": "p"}}})
        assert cluster.where() == "n1"

    def test_events_of_other_plugins_do_not_requeue(self, make_cluster, attempt_times):
        cluster = with_plugin(make_cluster, attempt_times, Fussy)
        cluster.node("n1", cpu="1")
        cluster.pod("first", cpu="1")
        cluster.pod("second")
        count = len(attempt_times.seen)
        cluster.delete("first")
        assert len(attempt_times.seen) == count

    def test_plugin_without_events_requeues_on_all(self, make_cluster, attempt_times):
        class Curious(Plugin):
            def filter(self, state, pod, node):
                return unschedulable("not yet")

        cluster = with_plugin(make_cluster, attempt_times, Curious)
        cluster.node("n1")
        cluster.pod()
        count = len(attempt_times.seen)
        service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
        cluster.ask(cluster.api.create(SERVICES, service, "default"))
        cluster.advance()
        assert len(attempt_times.seen) == count + 1

    def test_unschedulable_pod_is_retried_after_five_minutes(self, make_cluster, attempt_times):
        cluster = with_plugin(make_cluster, attempt_times, Fussy)
        cluster.node("n1")
        cluster.pod()
        cluster.advance(700)
        assert attempt_times.times("p") == [0, 330, 660]

    def test_own_change_requeues_pod(self, make_cluster, attempt_times):
        cluster = make_cluster(sink=attempt_times)
        cluster.node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
        cluster.pod()
        toleration = {"key": "k", "operator": "Exists"}
        spec = cluster.get()["spec"]
        cluster.ask(
            cluster.api.patch(
                PODS,
                "p",
                {"spec": {"tolerations": [*spec.get("tolerations", []), toleration]}},
                "default",
            )
        )
        cluster.advance()
        assert cluster.where() == "n1"

    def test_gated_pod_is_not_attempted(self, make_cluster, attempt_times):
        cluster = make_cluster(sink=attempt_times)
        cluster.node("n1")
        cluster.pod(schedulingGates=[{"name": "example.com/a"}])
        cluster.advance(400)
        assert attempt_times.seen == []

    def test_pending_pod_is_retried_immediately(self, make_cluster, attempt_times):
        class Waits(Plugin):
            ready = False

            def filter(self, state, pod, node):
                return pending("not yet") if pod.name == "p" and not Waits.ready else None

            def events(self):
                return (Interest(POD, Action.DELETE),)

        cluster = with_plugin(make_cluster, attempt_times, Waits)
        cluster.node("n1")
        cluster.pod("other", cpu="1")
        cluster.pod()
        Waits.ready = True
        cluster.delete("other")
        assert cluster.where() == "n1"


def test_terminating_pod_is_skipped(make_cluster, attempt_times, runner):
    import asyncio

    gate = asyncio.Event()
    cluster = make_cluster(sink=attempt_times, gate=gate.wait)
    cluster.node("n1")
    pod = {
        "metadata": {"name": "p", "finalizers": ["example.com/f"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    cluster.ask(cluster.api.create(PODS, pod, "default"))
    cluster.ask(cluster.api.delete(PODS, "p", "default"))
    gate.set()
    cluster.advance()
    assert attempt_times.seen == []
    assert cluster.events() == [("FailedScheduling", "skip schedule deleting pod: default/p")]
