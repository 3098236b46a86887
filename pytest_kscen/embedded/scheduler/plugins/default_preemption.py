"""Where there is no node for a pod: would it help to send pods of lower priority away? If so, from
where, and whom?

Nodes are tried out until there are enough candidates; extenders may have a say; from the best one
the victims are sent away, and the pod is nominated for it. Until the last of them has been told to
go, the pod is not looked at again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.diagnosis import counted
from pytest_kscen.embedded.scheduler.framework.events import POD, Action, Interest
from pytest_kscen.embedded.scheduler.framework.extender import ExtenderError
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import Nomination, PodInfo
from pytest_kscen.embedded.scheduler.framework.status import (
    Code,
    Status,
    failure,
    unresolvable,
    unschedulable,
)
from pytest_kscen.embedded.scheduler.plugins.preemption import (
    Budgets,
    Evicting,
    Trials,
    least_harm,
    was_sent_away,
)
from pytest_kscen.objects.resources import POD_DISRUPTION_BUDGETS, PODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.extender import Victims
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo

HELPLESS = "Preemption is not helpful for scheduling"
BUSY = unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption(Plugin):
    reads = (POD_DISRUPTION_BUDGETS,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._least_percentage: int = args.get("minCandidateNodesPercentage", 10)
        self._least: int = args.get("minCandidateNodesAbsolute", 100)
        self._pods = handle.context.informers.of(PODS)
        self._budgets = handle.context.informers.of(POD_DISRUPTION_BUDGETS)
        self._evicting = Evicting(handle)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return BUSY if self._evicting.is_busy(pod.uid) else None

    def events(self) -> Sequence[Interest]:
        """Whoever else has turned the pod down knows what helps it."""
        return (Interest(POD, Action.DELETE, lambda *_: False),)

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: dict[str, Status]
    ) -> Nomination | Status:
        live = self._pods.objects.get(pod.ref)
        if why := self._ineligible(PodInfo(live) if live else pod, statuses):
            return unschedulable(f"preemption: {why}")
        nodes = [
            node for node in self.handle.snapshot.nodes if _may_be_helped(statuses.get(node.name))
        ]
        candidates, refusals = self._try_out(state, pod, nodes)
        if not candidates:
            return Nomination("", f"preemption: {self._none_helps(refusals)}")
        try:
            candidates = await self._agreed(state, pod, candidates)
        except ExtenderError as error:
            return failure(f"preemption: {error}")
        if not candidates:
            return unschedulable("preemption: no candidate node for preemption")
        node = self.handle.ties.decide(pod, least_harm(candidates, self.handle.context.timestamp()))
        self._evicting.begin(pod, node, candidates[node].pods)
        return Nomination(node)

    def _ineligible(self, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        """Why this pod does not send others away."""
        if pod.spec.get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        status, node = statuses.get(pod.nominated), self.handle.snapshot.get(pod.nominated)
        if status is None or node is None or status.code is Code.UNRESOLVABLE:
            return ""
        if any(
            other.priority < pod.priority and was_sent_away(other.obj)
            for other in node.pods.values()
        ):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    # --- candidates ---

    def _try_out(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> tuple[dict[str, Victims], dict[str, Status]]:
        """Nodes with their victims, those that violate no budget first; and why others do not
        help.
        """
        harmless: dict[str, Victims] = {}
        violating: dict[str, Victims] = {}
        refusals: dict[str, Status] = {}
        trials = Trials(
            self.handle.profile, state, pod, Budgets(self._budgets), self.handle.context.timestamp()
        )
        wanted = self._wanted(len(nodes))
        start = self.handle.chance.below(len(nodes)) if wanted < len(nodes) else 0
        for number in range(len(nodes)):
            node = nodes[(start + number) % len(nodes)]
            found = trials.on(node)
            if isinstance(found, Status):
                refusals[node.name] = found
                continue
            if not found.pods:
                refusals[node.name] = failure(
                    f'expected at least one victim pod on node "{node.name}"'
                )
                continue
            (violating if found.violations else harmless)[node.name] = found
            if harmless and len(harmless) + len(violating) >= wanted:
                break
        return {**harmless, **violating}, refusals

    def _wanted(self, nodes: int) -> int:
        """How many candidates are enough."""
        return min(max(nodes * self._least_percentage // 100, self._least), nodes)

    def _none_helps(self, refusals: Mapping[str, Status]) -> str:
        nodes = self.handle.snapshot.nodes
        reasons = [reason for status in refusals.values() for reason in status.reasons]
        words = counted([*reasons, *[HELPLESS] * (len(nodes) - len(refusals))])
        return f"0/{len(nodes)} nodes are available: {words}."

    async def _agreed(
        self, state: CycleState, pod: PodInfo, candidates: dict[str, Victims]
    ) -> dict[str, Victims]:
        """The candidates that the extenders leave, with the victims that they name."""
        for extender in self.handle.extenders:
            if not candidates or not extender.preempts or not extender.interested(pod):
                continue
            try:
                answer = await extender.preempt(state, pod, candidates)
            except ExtenderError:
                if extender.ignorable:
                    continue
                raise
            empty = [node for node, victims in answer.items() if not victims.pods]
            if empty and not extender.ignorable:
                raise ExtenderError(f'expected at least one victim pod on node "{empty[0]}"')
            candidates = {node: victims for node, victims in answer.items() if victims.pods}
        return candidates


def _may_be_helped(status: Status | None) -> bool:
    return status is not None and status.code is Code.UNSCHEDULABLE
