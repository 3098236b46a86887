"""The plugins for groups of pods, which a configuration may name. As by default in 1.36 no pod is in a group: they let each go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.events import Interest
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.status import Status


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
