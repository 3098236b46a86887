"""One node's share of a resource: what its kernel holds while it is up, and what its disk remembers
when it is not.

Data is counted, not kept: a replica knows how many acknowledged bytes it misses, and whether it
misses any."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.models.storage.drbd.states import DiskState, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.models.storage.drbd.states import ResourceConfig


DISKLESS = DiskState.DISKLESS  # an enumeration takes its time to find it


class DiskEvent(IntEnum):
    INITIALIZED = auto()
    """Somebody declared it to be the truth."""
    CONFIRMED = auto()
    """It has met enough others to know that nobody has written since."""
    OVERTAKEN = auto()
    """Others have written since."""
    SYNC_BEGAN = auto()
    SYNC_ENDED = auto()
    STOPPED = auto()
    """The resource went down here, or the power did."""


DISK_TRANSITIONS = {
    (DiskState.INCONSISTENT, DiskEvent.INITIALIZED): DiskState.UP_TO_DATE,
    (DiskState.CONSISTENT, DiskEvent.CONFIRMED): DiskState.UP_TO_DATE,
    (DiskState.CONSISTENT, DiskEvent.OVERTAKEN): DiskState.OUTDATED,
    (DiskState.UP_TO_DATE, DiskEvent.OVERTAKEN): DiskState.OUTDATED,
    (DiskState.OUTDATED, DiskEvent.SYNC_BEGAN): DiskState.INCONSISTENT,
    (DiskState.INCONSISTENT, DiskEvent.SYNC_ENDED): DiskState.UP_TO_DATE,
    (DiskState.UP_TO_DATE, DiskEvent.STOPPED): DiskState.CONSISTENT,
}


class PeerView(NamedTuple):
    """What a peer sees of a replica that it is connected to."""

    role: Role
    disk: DiskState
    quorum: bool


@dataclass(slots=True, eq=False)
class DrbdReplica:
    """Of one resource on one node."""

    node: str
    config: ResourceConfig | None = None
    """While it is up."""
    role: Role = Role.SECONDARY
    promoted: int = 0
    """Which promotion of the resource made it Primary."""
    quorum: bool = False
    suspended: bool = False
    disk: DiskState = DiskState.DISKLESS
    size: int = 0
    data: int = 0
    """Which initialisation its data comes from; 0: it has none yet."""
    behind: bool = False
    """Others have written since, whether it knows or not."""
    missing: float = 0.0
    """Bytes that it has to get."""
    activity: float = 0.0
    """Bytes that it may have written and nobody else, when it crashed."""
    sees: dict[str, DrbdReplica | PeerView] = field(default_factory=dict)
    """The peers that it believes in, by node: as they are while they are connected, as they were
    last while they are silent.
    """

    @property
    def diskful(self) -> bool:
        return self.disk is not DISKLESS

    def turn(self, turn: DiskEvent) -> None:
        self.disk = DISK_TRANSITIONS.get((self.disk, turn), self.disk)

    def configure(self, config: ResourceConfig) -> None:
        """Up, or adjusted; a disk that was not there is new and empty."""
        self.config = config
        if self.diskful and not config.diskful:
            self.wipe()
        elif config.diskful and not self.diskful:
            self.disk, self.missing = DiskState.INCONSISTENT, float(config.size)
        self.size = config.size

    def demote(self) -> None:
        self.role, self.suspended = Role.SECONDARY, False
        self.behind = self.behind and self.diskful

    def stop(self) -> None:
        """Forget what only a running kernel knows."""
        self.demote()
        self.config, self.quorum = None, False
        self.turn(DiskEvent.STOPPED)

    def wipe(self) -> None:
        self.disk, self.data, self.behind, self.missing, self.activity = (
            DiskState.DISKLESS,
            0,
            False,
            0.0,
            0.0,
        )


# What a volume in use is written with, and who misses it. Nothing is counted while it flows:
# amounts come from times.


class WriteTracker:
    """Of one resource.

    They are acknowledged as soon as all who are connected to the writer have them.
    """

    def __init__(self, now: Callable[[], float], rate: float) -> None:
        self._now = now
        self._rate = rate
        self._since = now()
        self._absent: tuple[DrbdReplica, ...] = ()

    @property
    def are_missed(self) -> bool:
        return bool(self._absent)

    def flow_past(self, absent: tuple[DrbdReplica, ...]) -> None:
        """From now on these miss what is written; nobody does when nobody writes."""
        if absent != self._absent:
            self.settle()
            self._absent = absent

    def missing(self, replica: DrbdReplica) -> float:
        """Bytes that this replica lacks by now."""
        flown = (self._now() - self._since) * self._rate if replica in self._absent else 0.0
        return min(float(replica.size), replica.missing + flown)

    def settle(self) -> None:
        for replica in self._absent:
            replica.missing = self.missing(replica)
        self._since = self._now()
