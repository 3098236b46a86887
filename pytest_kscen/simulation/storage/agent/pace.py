"""When a kernel's state is told: what is bad or complete at once, what is on its way to be so together, the rest along with it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.drbd import Disk, Replication, State

if TYPE_CHECKING:
    from pytest_kscen.simulation.storage.controller.view import Replica
    from pytest_kscen.simulation.storage.drbd import Status
    from pytest_kscen.simulation.storage.generations.generation import Answer

GOES = 1.0  # seconds within which it is seen whether a peer that was lost is to be one no more
ARRIVES = 5.0  # seconds within which links that come and short resyncs have come
PROGRESS_EVERY = 10.0  # seconds
LATEST = 60.0  # seconds after which peers' roles and amounts are told, if nothing else was
UP_TO_DATE, CONNECTED, SYNC_TARGET = Disk.UP_TO_DATE, State.CONNECTED, Replication.SYNC_TARGET  # enumerations take their time
WHOLE = (UP_TO_DATE, Disk.DISKLESS)


class Pace:
    """What was last told of each replica, and since when that is not all any more."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[Status, Answer]] = {}
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}
        """When it is going to be told."""

    def wait(self, replica: Replica, status: Status, answer: Answer, now: float) -> float:
        """The seconds until it is to be told. Whoever gave orders is answered at once."""
        told, answered = self._told.get(replica.name, (None, answer))
        if answered != answer:
            return 0.0
        due = self._due[replica.name] = self._when(replica, status, told, now)
        return max(0.0, due - now)

    def sooner(self, replica: Replica, status: Status, now: float) -> float | None:
        """The seconds until it is to be told, if that is before it was going to be."""
        told, _ = self._told.get(replica.name, (None, None))
        if told == status:  # it is again as it was told
            self._settle(replica.name)
            return None
        due = self._when(replica, status, told, now)
        if due >= self._due.get(replica.name, math.inf):
            return None
        self._due[replica.name] = due
        return max(0.0, due - now)

    def tell(self, replica: Replica, status: Status, answer: Answer) -> None:
        self._told[replica.name] = status, answer
        self._settle(replica.name)

    def forget(self, replica: str) -> None:
        for known in (self._told, self._since, self._due):
            known.pop(replica, None)

    def _settle(self, replica: str) -> None:
        self._since.pop(replica, None)
        self._due.pop(replica, None)

    def _when(self, replica: Replica, status: Status, told: Status | None, now: float) -> float:
        return self._since.setdefault(replica.name, now) + _patience(replica, status, told)


def is_filling(status: Status) -> bool:
    """Whether its amounts move."""
    return SYNC_TARGET in [link.replication for link in status.connections.values()]


def _patience(replica: Replica, status: Status, told: Status | None) -> float:
    """The first that fits."""
    if told == status or (replica.in_sync and replica.is_diskful and status.disk_state != UP_TO_DATE):
        return 0.0
    if told is None:
        has_begun = not replica.initialized and status.disk_state == UP_TO_DATE  # or else another disk would begin, too
        return 0.0 if has_begun or _is_complete(status) or replica.in_quorum > status.quorum else ARRIVES
    before = told.connections
    others = [node for node, link in status.connections.items() if node not in before or before[node].state is not link.state]
    if not others and told[:-1] == status[:-1]:  # all but the connections
        return PROGRESS_EVERY if is_filling(status) else LATEST
    if _is_complete(status) or status.role is not told.role or _is_worse(status, told):
        return 0.0
    is_cut = any(node in before and before[node].state is CONNECTED for node in others)
    return GOES if is_cut else ARRIVES


def _is_complete(status: Status) -> bool:
    if not status.quorum or status.disk_state not in WHOLE:
        return False
    return not [link for link in status.connections.values() if link.state is not CONNECTED]


def _is_worse(status: Status, told: Status) -> bool:
    same_peers = status.connections.keys() == told.connections.keys()  # new ones come with new votes
    alone = same_peers and told.quorum and not status.quorum
    return alone or (status.suspended and not told.suspended)
