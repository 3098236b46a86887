"""Preemption: choose victims per node, compare candidate nodes, and delete the victims.

Called by the DefaultPreemption plugin, which decides when to preempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.embedded.scheduler.framework.extender import Victims
from pytest_kscen.embedded.scheduler.framework.status import Status, unresolvable
from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.selectors import requirements_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.embedded.scheduler.framework.profile import SchedulerProfile
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.objects.resources import Obj


NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


class NodeTrial:
    """Copy of a node and of the cycle state on which pods are removed and added to try filters."""

    def __init__(
        self, profile: SchedulerProfile, state: CycleState, pod: PodInfo, node: NodeInfo
    ) -> None:
        self._profile = profile
        self._state = state.clone()
        self._pod = pod
        self._node = node.copy()

    def remove_pod(self, pod: PodInfo) -> None:
        self._node.remove(pod)
        self._profile.remove_pod(self._state, self._pod, pod, self._node)

    def add_pod(self, pod: PodInfo) -> None:
        self._node.add(pod)
        self._profile.add_pod(self._state, self._pod, pod, self._node)

    def refusal(self) -> Status | None:
        return self._profile.filter_with_nominated(self._state, self._pod, self._node)

    def can_keep(self, pod: PodInfo) -> bool:
        """Return True if the incoming pod still fits with this pod on the node; otherwise remove it
        again.
        """
        self.add_pod(pod)
        if self.refusal() is None:
            return True
        self.remove_pod(pod)
        return False


@dataclass(frozen=True, slots=True)
class VictimSelector:
    """Selection of victims for one pod, node by node. `now` replaces the start time of pods that
    have not started.
    """

    profile: SchedulerProfile
    state: CycleState
    pod: PodInfo
    budgets: PreemptionBudgets
    now: str

    def select_victims(self, node: NodeInfo) -> Victims | Status:
        """Return the victims on a node, the most important first, or the reason why preemption
        there does not help.

        All pods of lower priority are removed first; then each is put back, most important first
        and those protected by a budget before others, if the incoming pod still fits.
        """
        removable = self._sorted(
            other for other in node.pods.values() if other.priority < self.pod.priority
        )
        if not removable:
            return NO_VICTIMS
        trial = NodeTrial(self.profile, self.state, self.pod, node)
        for other in removable:
            trial.remove_pod(other)
        if refusal := trial.refusal():
            return refusal
        violating, others = self.budgets.split(removable)
        violating_victims = [other for other in violating if not trial.can_keep(other)]
        other_victims = [other for other in others if not trial.can_keep(other)]
        return Victims(self._sorted((*violating_victims, *other_victims)), len(violating_victims))

    def _sorted(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Return the pods by importance: highest priority first, then longest running."""
        return sorted(pods, key=lambda pod: (-pod.priority, start_time(pod, self.now)))


def start_time(pod: PodInfo, now: str) -> str:
    since: str = (pod.obj.get("status") or {}).get("startTime") or now
    return since


class PreemptionBudgets:
    """PodDisruptionBudgets at one moment; preemption violates them only if it cannot do
    otherwise.
    """

    def __init__(self, budgets: Iterable[Obj]) -> None:
        self._by_namespace: dict[str, list[PreemptionBudget]] = {}
        for budget in budgets:
            self._by_namespace.setdefault(budget["metadata"]["namespace"], []).append(
                PreemptionBudget(budget)
            )

    def split(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Divide pods, deleted in this order, into those whose deletion violates a budget and the
        others.
        """
        spent: dict[PreemptionBudget, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            exceeded = False
            for budget in self._by_namespace.get(pod.namespace, ()):
                if budget.protects(pod):
                    spent[budget] = spent.get(budget, 0) + 1
                    exceeded = exceeded or spent[budget] > budget.allowed
            (violating if exceeded else others).append(pod)
        return violating, others


class PreemptionBudget:
    """PodDisruptionBudget with the number of disruptions that it still allows, as its status has
    it; read once per attempt.
    """

    def __init__(self, obj: Obj) -> None:
        status = obj.get("status") or {}
        self.allowed: int = status.get("disruptionsAllowed", 0)
        self._disrupted = frozenset(status.get("disruptedPods") or ())
        self._labels = requirements_of(obj["spec"].get("selector") or {})

    def protects(self, pod: PodInfo) -> bool:
        """Return True if the budget covers the pod. As in kube-scheduler, an empty selector covers
        no pod, and pods listed as disrupted were counted already.
        """
        if not self._labels or not pod.labels or pod.name in self._disrupted:
            return False
        return all(requirement.holds(pod.labels) for requirement in self._labels)


PRIORITY_OFFSET = 2**31  # added to each priority, so that more victims are never better than fewer


def best_candidates(candidates: Mapping[str, Victims], now: str) -> list[str]:
    """Return the best nodes to preempt on; several only if they are equal in all respects.

    Compared in this order: fewest violated budgets, lowest highest priority of a victim, lowest sum
    of priorities, fewest victims, latest start of the longest-running victim of highest priority.
    """
    least = min(map(_disruption, candidates.values()))
    equals = [node for node, victims in candidates.items() if _disruption(victims) == least]
    youngest = max(_oldest_start(candidates[node], now) for node in equals)
    return [node for node in equals if _oldest_start(candidates[node], now) == youngest]


def _disruption(victims: Victims) -> tuple[int, int, int, int]:
    pods = victims.pods
    return (
        victims.violations,
        pods[0].priority,
        sum(pod.priority + PRIORITY_OFFSET for pod in pods),
        len(pods),
    )


def _oldest_start(victims: Victims, now: str) -> str:
    most = max(pod.priority for pod in victims.pods)
    return min(start_time(pod, now) for pod in victims.pods if pod.priority == most)


PLUGIN = "DefaultPreemption"
DISRUPTION_TARGET, REASON = "DisruptionTarget", "PreemptionByScheduler"
COMPARED_FIELDS = ("status", "reason", "message")


class PreemptionExecutor:
    """Executor of preemptions, beside the scheduling cycle. Victims at the permit point are
    rejected; others get a DisruptionTarget condition and are deleted. Pods of lower priority lose
    their nomination to the node. The preemptor is not retried before its last victim is deleted.
    """

    def __init__(self, handle: Handle) -> None:
        self._context = handle.context
        self._pods = handle.context.informers.of(PODS)
        self._waiting = handle.waiting
        self._nominated = handle.nominated
        self._queue = handle.queue
        self._child_tasks = handle.child_tasks
        self._busy: dict[str, Ref | None] = {}
        """Last victim by uid of the preemptor; None until its turn has come."""

    def is_preempting(self, uid: str) -> bool:
        if uid not in self._busy:
            return False
        last = self._busy[uid]
        live = self._pods.objects.get(last) if last else None
        return last is None or (live is not None and not is_terminating(live))

    def start(self, pod: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        staying = [victim for victim in victims if not is_terminating(victim.obj)]
        if staying:
            self._busy[pod.uid] = None
            self._nominated.preemptors |= {victim.uid: pod for victim in staying}
            self._child_tasks.start(
                self._evict(pod, node, staying), f"preemption by {pod.namespace}/{pod.name}"
            )

    async def _evict(self, pod: PodInfo, node: str, victims: list[PodInfo]) -> None:
        succeeded = await self._clear_nominations(pod, node)
        try:
            for victim in victims:
                if victim is victims[-1]:
                    self._busy[pod.uid] = victim.ref
                await self._evict_victim(pod, node, victim)
        except (ApiError, OSError):
            succeeded = False
        finally:
            del self._busy[pod.uid]
            for victim in victims:
                self._nominated.preemptors.pop(victim.uid, None)
            self._queue.wake()
        if not succeeded:
            self._queue.activate(pod)

    async def _clear_nominations(self, pod: PodInfo, node: str) -> bool:
        try:
            for other in self._nominated.pods_on(node):
                live = self._pods.objects.get(other.ref)
                if (
                    other.priority < pod.priority
                    and live
                    and (live.get("status") or {}).get("nominatedNodeName")
                ):
                    status = {
                        name: value
                        for name, value in live["status"].items()
                        if name != "nominatedNodeName"
                    }
                    await self._context.write_status(PODS, live, status)
        except (ApiError, OSError):
            return False
        return True

    async def _evict_victim(self, pod: PodInfo, node: str, victim: PodInfo) -> None:
        words = f"Preempted by pod {pod.uid} on node {node}"
        if waiting := self._waiting.get(victim.uid):
            waiting.reject(PLUGIN, "preempted")
            words += " (in kube-scheduler memory)."
        else:
            try:
                await self._write_condition(pod, self._pods.objects.get(victim.ref, victim.obj))
                await self._context.api.delete(PODS, victim.name, victim.namespace)
            except NotFound:
                return
        self._context.recorder.report_action(
            victim.obj, "Preempted", words, action="Preempting", related=pod.obj
        )

    async def _write_condition(self, pod: PodInfo, victim: Obj) -> None:
        new = {
            "type": DISRUPTION_TARGET,
            "observedGeneration": victim["metadata"].get("generation", 1),
            "status": "True",
            "reason": REASON,
            "message": (
                f"{pod.spec['schedulerName']}: preempting to accommodate a higher priority pod"
            ),
        }
        old, status = condition(victim, DISRUPTION_TARGET) or {}, victim.get("status") or {}
        if any(old.get(name) != new[name] for name in COMPARED_FIELDS):
            conditions = set_condition(status.get("conditions"), new, self._context.timestamp())
            await self._context.write_status(PODS, victim, {**status, "conditions": conditions})


def is_terminating(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_preempted(pod: Obj) -> bool:
    target = condition(pod, DISRUPTION_TARGET) or {}
    return is_terminating(pod) and target.get("status") == "True" and target.get("reason") == REASON
