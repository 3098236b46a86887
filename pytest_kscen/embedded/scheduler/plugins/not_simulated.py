"""Plugins for features that are not simulated: groups of pods, and dynamic resources.

A configuration may name them. Pods are never in a group, as by default in 1.36, and pods that claim
devices find no node.
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
    """Plugin that holds groups of pods back; as no pod is in a group, it lets every pod pass."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return None

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        return None

    def events(self) -> Sequence[Interest]:
        return ()


class TopologyPlacementGenerator(Plugin):
    """Plugin at a point that places whole groups, which is never called here."""


class PodGroupPodsCount(Plugin):
    """Plugin that scores placements of whole groups, which is never called here."""


class DynamicResources(Plugin):
    """Plugin for device claims: it refuses pods with claims, since devices are not simulated."""

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
        """Return the real plugin's result for pods without claims, which depends on whether
        pre_filter was called before.
        """
        return (
            unschedulable("no new claims to deallocate")
            if self.name in state
            else failure("not found")
        )

    def events(self) -> Sequence[Interest]:
        return ()
