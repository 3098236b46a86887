"""One resource on all its nodes. Whatever happens to it, its replicas agree anew on what each knows and may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.drbd.accord import Accord
from pytest_kscen.simulation.storage.drbd.mesh import Mesh
from pytest_kscen.simulation.storage.drbd.replicas import DISKLESS, Replica, Turn
from pytest_kscen.simulation.storage.drbd.words import Role
from pytest_kscen.simulation.storage.drbd.writes import Writes

if TYPE_CHECKING:
    from pytest_kscen.simulation.storage.drbd.kernel import Kernel
    from pytest_kscen.simulation.storage.drbd.words import Config, Status


class Volume:
    """What commands, the network and the power do to it."""

    def __init__(self, name: str, kernel: Kernel) -> None:
        self.name = name
        self.replicas: dict[str, Replica] = {}
        self.writes = Writes(kernel.clock.now, kernel.figures.write_rate)
        self.mesh = Mesh(name, self.replicas, kernel, self.agree)
        self.accord = Accord(self.replicas, self.mesh, self.writes, kernel, self.agree)
        self.size: int | None = None
        """Of the device, if any replica has a disk: all disks have grown before it does."""
        self.faces: dict[str, Status | None] = {}
        """As they were shown since the replicas last agreed."""
        self.statuses: dict[str, Status] = {}
        """The same with amounts, while none of them moves."""
        self._kernel = kernel
        self._initialisations = 0
        self._promotions = 0

    @property
    def is_gone(self) -> bool:
        """Up nowhere, and no disk remembers it."""
        return not any(replica.config or replica.diskful for replica in self.replicas.values())

    @property
    def is_dirty(self) -> bool:
        """Whether somebody has something to get, while nobody gets anything."""
        return bool([one for one in self.replicas.values() if one.missing or one.activity])

    @property
    def is_still(self) -> bool:
        """Whether its amounts stay what they are until its replicas agree anew."""
        return not self.accord.resyncs and not self.writes.are_missed

    def end(self) -> None:
        """It is gone, and its parts no longer hold each other: so many come and go that nobody is to search for what is left."""
        del self.mesh, self.accord

    def agree(self) -> None:
        self.accord.reach()
        self.size = min([one.size for one in self.replicas.values() if one.disk is not DISKLESS], default=None)
        self.faces.clear()
        self.statuses.clear()
        self._kernel.changed(self)

    def look(self) -> None:
        """The network may have changed; who is brought up to date over it may have to go at another pace."""
        if self.mesh.look() or self.accord.resyncs:
            self.agree()

    def up(self, node: str, config: Config) -> None:
        replica = self.replicas.setdefault(node, Replica(node))
        before = replica.config
        if before == config:
            return
        self.writes.settle()
        replica.configure(config)
        if before is None or not config.is_agreed_with(before):
            self.mesh.adjust(replica, before)
            self.agree()

    def down(self, node: str, *, wipe: bool) -> None:
        replica = self.replicas[node]
        self.writes.settle()
        replica.stop()
        if wipe:
            replica.wipe()
        if not replica.diskful:
            del self.replicas[node]
        self.mesh.leave(node)
        self.agree()

    def lose_power(self, node: str) -> None:
        replica = self.replicas[node]
        self.writes.settle()
        self.mesh.die(node)
        if replica.role is Role.PRIMARY and replica.diskful and not replica.suspended:
            replica.activity = min(float(replica.size), self._kernel.figures.activity)
        replica.stop()
        self.mesh.fit(node)
        self.agree()

    def initialize(self, node: str) -> None:
        replica = self.replicas[node]
        self.writes.settle()
        self._initialisations += 1
        replica.data, replica.missing = self._initialisations, 0.0
        replica.turn(Turn.INITIALIZED)
        self.agree()

    def promote(self, node: str) -> None:
        self._promotions += 1
        replica = self.replicas[node]
        replica.role, replica.promoted = Role.PRIMARY, self._promotions
        self.agree()

    def demote(self, node: str) -> None:
        self.replicas[node].demote()
        self.agree()
