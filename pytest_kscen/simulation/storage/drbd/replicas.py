"""One node's share of a resource: what its kernel holds while it is up, and what its disk remembers when it is not.

Data is counted, not kept: a replica knows how many acknowledged bytes it misses, and whether it misses any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.storage.drbd.words import Disk, Role

if TYPE_CHECKING:
    from pytest_kscen.simulation.storage.drbd.words import Config


DISKLESS = Disk.DISKLESS  # an enumeration takes its time to find it


class Turn(IntEnum):
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


DISKS = {
    (Disk.INCONSISTENT, Turn.INITIALIZED): Disk.UP_TO_DATE,
    (Disk.CONSISTENT, Turn.CONFIRMED): Disk.UP_TO_DATE,
    (Disk.CONSISTENT, Turn.OVERTAKEN): Disk.OUTDATED,
    (Disk.UP_TO_DATE, Turn.OVERTAKEN): Disk.OUTDATED,
    (Disk.OUTDATED, Turn.SYNC_BEGAN): Disk.INCONSISTENT,
    (Disk.INCONSISTENT, Turn.SYNC_ENDED): Disk.UP_TO_DATE,
    (Disk.UP_TO_DATE, Turn.STOPPED): Disk.CONSISTENT,
}


class View(NamedTuple):
    """What a peer sees of a replica that it is connected to."""

    role: Role
    disk: Disk
    quorum: bool


@dataclass(slots=True, eq=False)
class Replica:
    """Of one resource on one node."""

    node: str
    config: Config | None = None
    """While it is up."""
    role: Role = Role.SECONDARY
    promoted: int = 0
    """Which promotion of the resource made it Primary."""
    quorum: bool = False
    suspended: bool = False
    disk: Disk = Disk.DISKLESS
    size: int = 0
    data: int = 0
    """Which initialisation its data comes from; 0: it has none yet."""
    behind: bool = False
    """Others have written since, whether it knows or not."""
    missing: float = 0.0
    """Bytes that it has to get."""
    activity: float = 0.0
    """Bytes that it may have written and nobody else, when it crashed."""
    sees: dict[str, Replica | View] = field(default_factory=dict)
    """The peers that it believes in, by node: as they are while they are connected, as they were last while they are silent."""

    @property
    def diskful(self) -> bool:
        return self.disk is not DISKLESS

    def turn(self, turn: Turn) -> None:
        self.disk = DISKS.get((self.disk, turn), self.disk)

    def configure(self, config: Config) -> None:
        """Up, or adjusted; a disk that was not there is new and empty."""
        self.config = config
        if self.diskful and not config.diskful:
            self.wipe()
        elif config.diskful and not self.diskful:
            self.disk, self.missing = Disk.INCONSISTENT, float(config.size)
        self.size = config.size

    def demote(self) -> None:
        self.role, self.suspended = Role.SECONDARY, False
        self.behind = self.behind and self.diskful

    def stop(self) -> None:
        """Forget what only a running kernel knows."""
        self.demote()
        self.config, self.quorum = None, False
        self.turn(Turn.STOPPED)

    def wipe(self) -> None:
        self.disk, self.data, self.behind, self.missing, self.activity = Disk.DISKLESS, 0, False, 0.0, 0.0
