"""Who would have to go from one node: first all that may, then those come back, the more important first, that need not.

Tried on copies of the node and of what the plugins know. If the pod does not fit without any of them, nothing helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.extending import Victims
from pytest_kscen.simulation.scheduler.framework.status import Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.profile import Profile
    from pytest_kscen.simulation.scheduler.preemption.budgets import Budgets

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
        able = self._sorted(other for other in node.pods.values() if other.priority < self.pod.priority)
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
