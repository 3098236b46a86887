"""Making room for a pod by sending others away: which nodes come into question, whom it would hit,
and carrying it out.

`victims` tries a node out, `best` compares nodes, `evicting` acts. When to do it is said by the
DefaultPreemption plugin."""

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
    from pytest_kscen.embedded.scheduler.framework.profile import Profile
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.objects.resources import Obj


# Who would have to go from one node: first all that may, then those come back, the more
# important first, that need not. Tried on copies of the node and of what the plugins know. If
# the pod does not fit without any of them, nothing helps.


NONE = unresolvable("No preemption victims found for incoming pod")


class Trial:
    """One node, as it would be."""

    def __init__(self, profile: Profile, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        self._profile = profile
        self._state = state.clone()
        self._pod = pod
        self._node = node.copy()

    def without(self, pod: PodInfo) -> None:
        self._node.remove(pod)
        self._profile.remove_pod(self._state, self._pod, pod, self._node)

    def with_(self, pod: PodInfo) -> None:
        self._node.add(pod)
        self._profile.add_pod(self._state, self._pod, pod, self._node)

    def refusal(self) -> Status | None:
        return self._profile.filter_with_nominated(self._state, self._pod, self._node)

    def spares(self, pod: PodInfo) -> bool:
        """Whether this one may stay."""
        self.with_(pod)
        if self.refusal() is None:
            return True
        self.without(pod)
        return False


@dataclass(frozen=True, slots=True)
class Trials:
    """For one pod, node by node."""

    profile: Profile
    state: CycleState
    pod: PodInfo
    budgets: Budgets
    now: str

    def on(self, node: NodeInfo) -> Victims | Status:
        """The most important first; or why this node does not help."""
        able = self._sorted(
            other for other in node.pods.values() if other.priority < self.pod.priority
        )
        if not able:
            return NONE
        trial = Trial(self.profile, self.state, self.pod, node)
        for other in able:
            trial.without(other)
        if refusal := trial.refusal():
            return refusal
        violating, others = self.budgets.split(able)
        hurt = [other for other in violating if not trial.spares(other)]
        unhurt = [other for other in others if not trial.spares(other)]
        return Victims(self._sorted((*hurt, *unhurt)), len(hurt))

    def _sorted(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """The most important to the front: by priority, then who has run for longer."""
        return sorted(pods, key=lambda pod: (-pod.priority, started(pod, self.now)))


def started(pod: PodInfo, now: str) -> str:
    since: str = (pod.obj.get("status") or {}).get("startTime") or now
    return since


# What PodDisruptionBudgets still allow: scheduling respects them where it can, and goes on
# where it cannot.


class Budgets:
    """Those of a cluster at one moment."""

    def __init__(self, budgets: Iterable[Obj]) -> None:
        self._by_namespace: dict[str, list[Budget]] = {}
        for budget in budgets:
            self._by_namespace.setdefault(budget["metadata"]["namespace"], []).append(
                Budget(budget)
            )

    def split(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """If these went, in this order: those for which a budget would be exceeded, and the
        others.
        """
        spent: dict[Budget, int] = {}
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


class Budget:
    """One."""

    def __init__(self, obj: Obj) -> None:
        status = obj.get("status") or {}
        self.allowed: int = status.get("disruptionsAllowed", 0)
        self._disrupted = frozenset(status.get("disruptedPods") or ())
        self._labels = requirements_of(obj["spec"].get("selector") or {})

    def protects(self, pod: PodInfo) -> bool:
        """An empty selector protects nobody here; and who is known to be on the way out has been
        counted.
        """
        if not self._labels or not pod.labels or pod.name in self._disrupted:
            return False
        return all(requirement.holds(pod.labels) for requirement in self._labels)


# Which of several nodes to make room on: where it does the least harm.


LOWEST = 2**31  # added to each priority, so that more victims are never better than fewer


def least_harm(candidates: Mapping[str, Victims], now: str) -> list[str]:
    """The best nodes; more than one only if nothing tells them apart.

    The fewest violated budgets, the lowest highest priority, the lowest sum of priorities, the
    fewest pods; and at last where the oldest of the most important pods has run for the shortest
    time."""
    least = min(map(_harm, candidates.values()))
    equals = [node for node, victims in candidates.items() if _harm(victims) == least]
    youngest = max(_since(candidates[node], now) for node in equals)
    return [node for node in equals if _since(candidates[node], now) == youngest]


def _harm(victims: Victims) -> tuple[int, int, int, int]:
    pods = victims.pods
    return (
        victims.violations,
        pods[0].priority,
        sum(pod.priority + LOWEST for pod in pods),
        len(pods),
    )


def _since(victims: Victims, now: str) -> str:
    most = max(pod.priority for pod in victims.pods)
    return min(started(pod, now) for pod in victims.pods if pod.priority == most)


# Sending victims away, beside the scheduler: it goes on with other pods meanwhile, but not with
# the one for which this is done. A pod that waits for a permit is only turned away; every other
# is told why (DisruptionTarget) and deleted. Pods of lower priority that were to come to this
# node lose their nomination, so that another place is looked for.


PLUGIN = "DefaultPreemption"
TARGET, REASON = "DisruptionTarget", "PreemptionByScheduler"
SAME = ("status", "reason", "message")


class Evicting:
    """For one profile."""

    def __init__(self, handle: Handle) -> None:
        self._context = handle.context
        self._pods = handle.context.informers.of(PODS)
        self._waiting = handle.waiting
        self._nominated = handle.nominated
        self._queue = handle.queue
        self._brood = handle.brood
        self._busy: dict[str, Ref | None] = {}
        """For whom room is being made just now, and the last one to go, once it is its turn."""

    def is_busy(self, uid: str) -> bool:
        if uid not in self._busy:
            return False
        last = self._busy[uid]
        live = self._pods.objects.get(last) if last else None
        return last is None or (live is not None and not is_going(live))

    def begin(self, pod: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        staying = [victim for victim in victims if not is_going(victim.obj)]
        if staying:
            self._busy[pod.uid] = None
            self._nominated.preemptors |= {victim.uid: pod for victim in staying}
            self._brood.start(
                self._evict(pod, node, staying), f"preemption by {pod.namespace}/{pod.name}"
            )

    async def _evict(self, pod: PodInfo, node: str, victims: list[PodInfo]) -> None:
        succeeded = await self._clear_nominations(pod, node)
        try:
            for victim in victims:
                if victim is victims[-1]:
                    self._busy[pod.uid] = victim.ref
                await self._send_away(pod, node, victim)
        except (ApiError, OSError):
            succeeded = False
        finally:
            del self._busy[pod.uid]
            for victim in victims:
                self._nominated.preemptors.pop(victim.uid, None)
            self._queue.look_again()
        if not succeeded:
            self._queue.activate(pod)

    async def _clear_nominations(self, pod: PodInfo, node: str) -> bool:
        try:
            for other in self._nominated.on(node):
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

    async def _send_away(self, pod: PodInfo, node: str, victim: PodInfo) -> None:
        words = f"Preempted by pod {pod.uid} on node {node}"
        if waiting := self._waiting.get(victim.uid):
            waiting.reject(PLUGIN, "preempted")
            words += " (in kube-scheduler memory)."
        else:
            try:
                await self._tell(pod, self._pods.objects.get(victim.ref, victim.obj))
                await self._context.api.delete(PODS, victim.name, victim.namespace)
            except NotFound:
                return
        self._context.recorder.did(
            victim.obj, "Preempted", words, action="Preempting", related=pod.obj
        )

    async def _tell(self, pod: PodInfo, victim: Obj) -> None:
        new = {
            "type": TARGET,
            "observedGeneration": victim["metadata"].get("generation", 1),
            "status": "True",
            "reason": REASON,
            "message": (
                f"{pod.spec['schedulerName']}: preempting to accommodate a higher priority pod"
            ),
        }
        old, status = condition(victim, TARGET) or {}, victim.get("status") or {}
        if any(old.get(name) != new[name] for name in SAME):
            conditions = set_condition(status.get("conditions"), new, self._context.timestamp())
            await self._context.write_status(PODS, victim, {**status, "conditions": conditions})


def is_going(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def was_sent_away(pod: Obj) -> bool:
    """It is on its way out because somebody else needs its place."""
    target = condition(pod, TARGET) or {}
    return is_going(pod) and target.get("status") == "True" and target.get("reason") == REASON
