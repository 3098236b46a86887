"""Devices that are claimed are not simulated: a pod that claims one finds no node, and is told so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import SKIP, Status, failure, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.events import Interest
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo


class DynamicResources(Plugin):
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        if pod.spec.get("resourceClaims"):
            return unresolvable("dynamic resources are not simulated")
        state[self.name] = True
        return SKIP

    async def post_filter(self, state: CycleState, pod: PodInfo, statuses: dict[str, Status]) -> Status:
        """What the real plugin says of pods that claim nothing: it has looked, or it was never asked before."""
        return unschedulable("no new claims to deallocate") if self.name in state else failure("not found")

    def events(self) -> Sequence[Interest]:
        return ()
