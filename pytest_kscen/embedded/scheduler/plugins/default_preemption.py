"""Plugin DefaultPreemption: make room for a pod by deleting pods of lower priority.

Nodes are tried until there are enough candidates; extenders may reduce them; victims on the best
one are deleted, and the pod is nominated for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.diagnosis import count_reasons
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
    PreemptionBudgets,
    PreemptionExecutor,
    VictimSelector,
    best_candidates,
    is_preempted,
)
from pytest_kscen.objects.resources import POD_DISRUPTION_BUDGETS, PODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.extender import Victims
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo

NOT_HELPFUL = "Preemption is not helpful for scheduling"
IN_PROGRESS = unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption(Plugin):
    """Preemption as post_filter; as pre_enqueue it gates the pod while its victims are being
    deleted.
    """

    reads = (POD_DISRUPTION_BUDGETS,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._min_percentage: int = args.get("minCandidateNodesPercentage", 10)
        self._min_candidates: int = args.get("minCandidateNodesAbsolute", 100)
        self._pods = handle.context.informers.of(PODS)
        self._budgets = handle.context.informers.of(POD_DISRUPTION_BUDGETS)
        self._executor = PreemptionExecutor(handle)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return IN_PROGRESS if self._executor.is_preempting(pod.uid) else None

    def events(self) -> Sequence[Interest]:
        """Return an event with a hint that never helps: the plugins that refused the pod have
        better hints.
        """
        return (Interest(POD, Action.DELETE, lambda *_: False),)

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: dict[str, Status]
    ) -> Nomination | Status:
        live = self._pods.objects.get(pod.ref)
        if why := self._ineligibility(PodInfo(live) if live else pod, statuses):
            return unschedulable(f"preemption: {why}")
        nodes = [
            node
            for node in self.handle.snapshot.nodes
            if (status := statuses.get(node.name)) and status.code is Code.UNSCHEDULABLE
        ]
        candidates, refusals = self._find_candidates(state, pod, nodes)
        if not candidates:
            return Nomination("", f"preemption: {self._explain_refusals(refusals)}")
        try:
            candidates = await self._filter_by_extenders(state, pod, candidates)
        except ExtenderError as error:
            return failure(f"preemption: {error}")
        if not candidates:
            return unschedulable("preemption: no candidate node for preemption")
        node = self.handle.ties.decide(
            pod, best_candidates(candidates, self.handle.context.timestamp())
        )
        self._executor.start(pod, node, candidates[node].pods)
        return Nomination(node)

    def _ineligibility(self, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        """Return the reason why this pod may not preempt; empty if it may."""
        if pod.spec.get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        status, node = statuses.get(pod.nominated), self.handle.snapshot.get(pod.nominated)
        if status is None or node is None or status.code is Code.UNRESOLVABLE:
            return ""
        if any(
            other.priority < pod.priority and is_preempted(other.obj)
            for other in node.pods.values()
        ):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _explain_refusals(self, refusals: Mapping[str, Status]) -> str:
        """Return kube-scheduler's sentence on nodes where preemption does not help."""
        count = len(self.handle.snapshot.nodes)
        reasons = [reason for status in refusals.values() for reason in status.reasons]
        words = count_reasons([*reasons, *[NOT_HELPFUL] * (count - len(refusals))])
        return f"0/{count} nodes are available: {words}."

    def _find_candidates(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> tuple[dict[str, Victims], dict[str, Status]]:
        """Return candidate nodes with their victims, nodes without violated budgets first, and
        refusals of the nodes where preemption does not help.
        """
        without_violations: dict[str, Victims] = {}
        violating: dict[str, Victims] = {}
        refusals: dict[str, Status] = {}
        selector = VictimSelector(
            self.handle.profile,
            state,
            pod,
            PreemptionBudgets(self._budgets),
            self.handle.context.timestamp(),
        )
        wanted = self._candidates_wanted(len(nodes))
        start = self.handle.chance.below(len(nodes)) if wanted < len(nodes) else 0
        for number in range(len(nodes)):
            node = nodes[(start + number) % len(nodes)]
            found = selector.select_victims(node)
            if isinstance(found, Status):
                refusals[node.name] = found
                continue
            if not found.pods:
                refusals[node.name] = failure(
                    f'expected at least one victim pod on node "{node.name}"'
                )
                continue
            (violating if found.violations else without_violations)[node.name] = found
            if without_violations and len(without_violations) + len(violating) >= wanted:
                break
        return {**without_violations, **violating}, refusals

    def _candidates_wanted(self, nodes: int) -> int:
        """Return how many candidates end the search, by percentage and minimum of the plugin's
        arguments.
        """
        return min(max(nodes * self._min_percentage // 100, self._min_candidates), nodes)

    async def _filter_by_extenders(
        self, state: CycleState, pod: PodInfo, candidates: dict[str, Victims]
    ) -> dict[str, Victims]:
        """Return the candidates that all extenders accept, with the victims that they name."""
        for extender in self.handle.extenders:
            if not candidates or not extender.preempts or not extender.is_interested(pod):
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
