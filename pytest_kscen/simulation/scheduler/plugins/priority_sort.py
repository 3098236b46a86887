"""Higher priority first; among equals, whoever has waited longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.simulation.scheduler.framework.events import Interest
    from pytest_kscen.simulation.scheduler.queueing.queued import QueuedPod


class PrioritySort(Plugin):
    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.pod.priority, queued.since

    def events(self) -> Sequence[Interest]:
        return ()
