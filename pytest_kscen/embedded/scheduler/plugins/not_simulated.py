"""The plugins for groups of pods, which a configuration may name.

As by default in 1.36 no pod is in a group: they let each go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import (
    SKIP,
    Status,
    failure,
    unresolvable,
    unschedulable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.events import Interest
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo


class GangScheduling(Plugin):
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return None

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return None

    def events(self) -> Sequence[Interest]:
        return ()


class TopologyPlacementGenerator(Plugin):
    """It stands where places for whole groups are looked for, which is nowhere here."""


class PodGroupPodsCount(Plugin):
    """It compares such places."""


# Devices that are claimed are not simulated: a pod that claims one finds no node, and is told
# so.


class DynamicResources(Plugin):
    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        if pod.spec.get("resourceClaims"):
            return unresolvable("dynamic resources are not simulated")
        state[self.name] = True
        return SKIP

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: dict[str, Status]
    ) -> Status:
        """What the real plugin says of pods that claim nothing: it has looked, or it was never
        asked before.
        """
        return (
            unschedulable("no new claims to deallocate")
            if self.name in state
            else failure("not found")
        )

    def events(self) -> Sequence[Interest]:
        return ()
