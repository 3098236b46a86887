"""Replica of a resource on one node: the kernel's state while it is up, and the state of its disk.

Only the resource changes it. Data is counted, not stored: a replica has the number of acknowledged
bytes that it misses, and a flag that is set if it misses any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.models.storage.drbd.states import DiskState, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.models.storage.drbd.states import ResourceConfig


DISKLESS = DiskState.DISKLESS  # looking up enumeration members is slow


class DiskEvent(IntEnum):
    INITIALIZED = auto()
    """Declared UpToDate by force."""
    CONFIRMED = auto()
    """Enough peers were met to be sure that no newer data exists."""
    OVERTAKEN = auto()
    """Other replicas have newer data."""
    SYNC_BEGAN = auto()
    SYNC_ENDED = auto()
    STOPPED = auto()
    """The resource went down on this node, or the machine lost its power."""


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
    role: Role
    disk: DiskState
    quorum: bool


@dataclass(slots=True, eq=False)
class DrbdReplica:
    """Replica of one resource on one node, with a disk or without. The resource changes it
    directly; its fields are as the kernel would report them.
    """

    node: str
    config: ResourceConfig | None = None
    """Absent while the resource is down on this node."""
    role: Role = Role.SECONDARY
    promoted: int = 0
    """Number of the resource's promotion that made it Primary."""
    quorum: bool = False
    suspended: bool = False
    disk: DiskState = DiskState.DISKLESS
    size: int = 0
    data: int = 0
    """Number of the initialisation of its data; 0 while it has none."""
    behind: bool = False
    """True once others have written since, even if the replica has not detected it."""
    missing: float = 0.0
    """Bytes that a resync has to bring."""
    activity: float = 0.0
    """Bytes that it alone may have written when it crashed."""
    visible_peers: dict[str, DrbdReplica | PeerView] = field(default_factory=dict)
    """Peers that it believes to be connected, by node: as they are while they are connected, as
    they were last while they are silent.
    """

    @property
    def diskful(self) -> bool:
        return self.disk is not DISKLESS

    def apply_event(self, apply_event: DiskEvent) -> None:
        self.disk = DISK_TRANSITIONS.get((self.disk, apply_event), self.disk)

    def configure(self, config: ResourceConfig) -> None:
        """Bring it up, or adjust it. A disk that was not there before is new and empty; a disk that
        is configured away loses its data.
        """
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
        """Forget all that only a running kernel keeps; the disk's own data stays."""
        self.demote()
        self.config, self.quorum = None, False
        self.apply_event(DiskEvent.STOPPED)

    def wipe(self) -> None:
        self.disk, self.data, self.behind, self.missing, self.activity = (
            DiskState.DISKLESS,
            0,
            False,
            0.0,
            0.0,
        )


class WriteTracker:
    """Writes of one resource in use, and the replicas that miss them.

    A write is acknowledged once all replicas that are connected to the writer have it. Nothing is
    counted while data flows: amounts follow from the times at which the absent replicas change.
    """

    def __init__(self, now: Callable[[], float], rate: float) -> None:
        self._now = now
        self._rate = rate
        self._since = now()
        self._absent: tuple[DrbdReplica, ...] = ()

    @property
    def has_absent(self) -> bool:
        return bool(self._absent)

    def set_absent(self, absent: tuple[DrbdReplica, ...]) -> None:
        """Let these replicas miss all writes from now on; an empty tuple if there is no writer."""
        if absent != self._absent:
            self.settle()
            self._absent = absent

    def missing(self, replica: DrbdReplica) -> float:
        """Return the bytes that this replica lacks by now, never more than its size."""
        flown = (self._now() - self._since) * self._rate if replica in self._absent else 0.0
        return min(float(replica.size), replica.missing + flown)

    def settle(self) -> None:
        """Add the bytes missed until now to the counts of absent replicas. Call it before a change
        of a replica.
        """
        for replica in self._absent:
            replica.missing = self.missing(replica)
        self._since = self._now()
