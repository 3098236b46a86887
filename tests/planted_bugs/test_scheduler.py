"""Each bug of the scheduler changes a decision, and leaves nothing behind."""

from types import SimpleNamespace

import pytest

from planted_bugs import scheduler
from planted_bugs.catalogue import planted
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.scheduler import scoring
from pytest_kscen.embedded.scheduler.backoff_queue import BackoffQueue
from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
from pytest_kscen.embedded.scheduler.framework.extender import Victims
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo, QueuedPod
from pytest_kscen.embedded.scheduler.framework.status import Code, Status
from pytest_kscen.embedded.scheduler.plugins.node_filters import NodeUnschedulable
from pytest_kscen.embedded.scheduler.plugins.node_resources import NodeResourcesFit
from pytest_kscen.embedded.scheduler.plugins.pod_topology_spread import SpreadState
from pytest_kscen.embedded.scheduler.plugins.preemption import best_candidates
from pytest_kscen.embedded.scheduler.plugins.queueing_and_binding import PrioritySort
from pytest_kscen.embedded.scheduler.plugins.spread_constraints import SpreadConstraint
from pytest_kscen.embedded.scheduler.plugins.topology_counts import DictDomainSums, TrialChanges
from pytest_kscen.embedded.scheduler.scheduling_cycle import SchedulingCycle


def pod(name="p", cpu="2", priority=0):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "priority": priority, "nodeName": "n"}
    return PodInfo({"metadata": {"name": name, "namespace": "x", "uid": name}, "spec": spec})


def node(name="n", **spec):
    amounts = {"cpu": "3", "memory": "8Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


HANDLE = SimpleNamespace()


def fits_beside_another():
    info = NodeInfo("n", node())
    info.add(pod("other"))
    return NodeResourcesFit({}, HANDLE).filter(CycleState(None), pod(), info) is None


def fits_on_a_cordoned_node():
    info = NodeInfo("n", node(unschedulable=True))
    return NodeUnschedulable({}, HANDLE).filter(CycleState(None), pod(), info) is None


def taints_that_keep_away():
    taints = [{"key": key, "effect": key} for key in ("NoSchedule", "NoExecute")]
    return [taint["key"] for taint in NodeInfo("n", node(taints=taints)).hard_taints]


def preempted_node():
    victims = {"high": Victims([pod(priority=9)]), "low": Victims([pod(priority=1)])}
    return best_candidates(victims, "now")


def new_node_helps():
    return NodeResourcesFit({}, HANDLE)._became_large_enough(pod(), None, node())


def back_off():
    queue = BackoffQueue(lambda: 0.0, lambda queued: None)
    return queue._expiry(QueuedPod(pod(), 0.0, 1, unschedulable=10))


def pods_after_a_failed_binding():
    assumed = {"p"}

    async def fail(*_, **__):
        pass

    cycle = SimpleNamespace(_snapshot=SimpleNamespace(unassign_pod=assumed.discard), _fail=fail)
    profile = SimpleNamespace(unreserve=lambda *_: None)
    status = Status(Code.ERROR, ("refused",), "DefaultBinder")
    runner = VirtualRunner()
    runner.call(SchedulingCycle._revert(cycle, (profile, None, pod(), None), "n", status))
    runner.close()
    return assumed


def allowed_in_a_domain():
    sums = DictDomainSums({"a": 1, "b": 0})
    constraint = SpreadConstraint("zone", 1, (), honors_taints=False)
    return SpreadState([(constraint, sums)], TrialChanges()).allowed_count(0, pod())


def queue_order():
    queued = [QueuedPod(pod(name, priority=value), 0.0, 1) for name, value in (("a", 1), ("b", 9))]
    return [one.pod.name for one in sorted(queued, key=PrioritySort({}, HANDLE).sort_key)]


class FixedScores(Plugin):
    def score(self, state, pod, node):
        return {"a": 10, "b": 20}[node.name]

    def events(self):
        return ()


def weighted_scores():
    plugin = FixedScores({}, HANDLE)
    profile = SimpleNamespace(
        scorers=lambda _: [plugin],
        weights={plugin: 3},
        name_of=lambda _: "Fixed",
        handle=SimpleNamespace(snapshot=SimpleNamespace(table=None)),
    )
    current = scoring_attempt(profile)
    return scoring.total_scores(current, [NodeInfo("a", node("a")), NodeInfo("b", node("b"))])


def scoring_attempt(profile):
    from pytest_kscen.embedded.scheduler.filtering import SchedulingAttempt

    return SchedulingAttempt(profile, None, pod(), CycleState(None))


CASES = {
    # bug: (what is done, what follows, what follows with the bug)
    "fit-ignores-usage": (fits_beside_another, False, True),
    "cordoned-node-used": (fits_on_a_cordoned_node, False, True),
    "no-execute-taint-ignored": (
        taints_that_keep_away,
        ["NoSchedule", "NoExecute"],
        ["NoSchedule"],
    ),
    "preemption-prefers-important-victims": (preempted_node, ["low"], ["high"]),
    "new-node-missed": (new_node_helps, True, False),
    "back-off-without-limit": (back_off, 10, 512),
    "assumed-pod-kept": (pods_after_a_failed_binding, set(), {"p"}),
    "spread-ignores-own-pod": (allowed_in_a_domain, 0, 1),
    "priority-order-reversed": (queue_order, ["b", "a"], ["a", "b"]),
    "weights-ignored": (weighted_scores, [30, 60], [10, 20]),
}


@pytest.mark.parametrize("bug", scheduler.BUGS, ids=lambda bug: bug.name)
def test_bug_changes_what_the_scheduler_does(bug):
    act, sound, broken = CASES[bug.name]
    assert act() == sound
    with planted(bug.name):
        assert act() == broken
    assert act() == sound
