"""What was last told of each kernel: one whose figures alone have moved is told again only now and then."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.simulation.storage.drbd import Status

FIGURES_EVERY = 10.0  # seconds


class Snapshots:
    """By volume."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[Status, Status, float]] = {}

    def of(self, volume: str, status: Status, now: float) -> Status:
        """The status as it is to be told now."""
        bare = _without_figures(status)
        before = self._told.get(volume)
        if before and before[1] == bare and now < before[2] + FIGURES_EVERY:
            return before[0]
        self._told[volume] = status, bare, now
        return status

    def is_moving(self, volume: str) -> bool:
        """Whether figures will be others soon."""
        before = self._told.get(volume)
        return before is not None and any(one.out_of_sync for one in before[0].connections.values())

    def forget(self, volume: str) -> None:
        self._told.pop(volume, None)


def _without_figures(status: Status) -> Status:
    links = {node: replace(one, percent_in_sync=0.0, out_of_sync=0) for node, one in status.connections.items()}
    return replace(status, connections=links)
