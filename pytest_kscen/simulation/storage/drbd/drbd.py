"""The kernels of all machines of a cluster, as their agents' commands find them.

They outlive agents. A machine that loses its power forgets roles and connections; its disks remember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.drbd import report
from pytest_kscen.simulation.storage.drbd.figures import FIGURES, Figures
from pytest_kscen.simulation.storage.drbd.kernel import Kernel
from pytest_kscen.simulation.storage.drbd.news import News
from pytest_kscen.simulation.storage.drbd.roles import refusal
from pytest_kscen.simulation.storage.drbd.timers import Timers
from pytest_kscen.simulation.storage.drbd.volume import Volume
from pytest_kscen.simulation.storage.drbd.words import DrbdRefused, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.simulation.kubelet.machines import Machine, Machines
    from pytest_kscen.simulation.network import Network
    from pytest_kscen.simulation.storage.drbd.replicas import Replica
    from pytest_kscen.simulation.storage.drbd.words import Config, Status

    Listener = Callable[[str, str], None]


class Drbd:
    """One per cluster. Its commands are given from within the running loop, as agents do."""

    def __init__(self, machines: Machines, network: Network, clock: Clock, chance: Chance, figures: Figures = FIGURES) -> None:
        self._machines = machines
        self._timers = Timers()
        self._news = News(self._timers.soon)
        self._kernel = Kernel(clock, network, chance, figures, self._timers, self._news.of)
        self._volumes: dict[str, Volume] = {}
        self._dark: list[str] = []
        """Machines whose power went, and whose kernels have not noticed yet."""
        self._network_changed = False
        machines.on_change(self._see_machine)
        network.on_change(self._see_network)

    def on_change(self, listener: Listener) -> None:
        """Tell (node, resource) when that node's status is another one; amounts alone are no change."""
        self._news.join(listener)

    @property
    def pending(self) -> int:
        """Timers that are set: none in a cluster at rest."""
        return len(self._timers)

    # --- commands ---

    def up(self, node: str, resource: str, config: Config) -> None:
        """Create, or adjust what is there. A new disk is Inconsistent; one that was there remembers its data."""
        self._timers.learn_loop()
        self._reach(node, resource)
        if resource not in self._volumes:
            self._volumes[resource] = Volume(resource, self._kernel)
        self._volumes[resource].up(node, config)

    def down(self, node: str, resource: str, *, wipe: bool = False) -> None:
        """End it here, whatever its role; `wipe` forgets the data too. Nothing, where it is not known."""
        self._reach(node, resource)
        volume = self._volumes.get(resource)
        if volume and node in volume.replicas:
            volume.down(node, wipe=wipe)
            if volume.is_gone:
                self._volumes.pop(resource).end()

    def initialize(self, node: str, resource: str) -> None:
        """Declare a new disk UpToDate, by force. One that has data is left as it is."""
        volume, replica = self._running(node, resource)
        if not replica.diskful:
            raise DrbdRefused(f"{resource}: {node} has no disk to initialise")
        if replica.data:
            return
        if any(peer.data for peer in volume.mesh.peers(replica)):
            raise DrbdRefused(f"{resource}: a peer that {node} is connected to has data already")
        volume.initialize(node)

    def primary(self, node: str, resource: str) -> None:
        """Raises DrbdRefused, and why; asking again later may help."""
        volume, replica = self._running(node, resource)
        if replica.role is Role.PRIMARY:
            return
        if why := refusal(volume, replica):
            raise DrbdRefused(f"{resource}: {node} cannot become Primary: {why}")
        volume.promote(node)

    def secondary(self, node: str, resource: str) -> None:
        """Always allowed where the resource is up."""
        volume, replica = self._running(node, resource)
        if replica.role is Role.PRIMARY:
            volume.demote(node)

    def status(self, node: str, resource: str) -> Status | None:
        """None where the resource is not up, or the machine has no power."""
        self._catch_up()
        volume = self._volumes.get(resource)
        return report.status(volume, node, self._kernel.clock.now) if volume else None

    def _reach(self, node: str, resource: str) -> None:
        self._catch_up()
        if not self._machines.has_power(node):
            raise DrbdRefused(f"{resource}: {node} has no power")

    def _running(self, node: str, resource: str) -> tuple[Volume, Replica]:
        self._reach(node, resource)
        volume = self._volumes.get(resource)
        replica = volume.replicas.get(node) if volume else None
        if volume is None or replica is None or replica.config is None:
            raise DrbdRefused(f"{resource} is not up on {node}")
        return volume, replica

    # --- what happens to machines and between them ---

    def _see_machine(self, machine: Machine) -> None:
        if not machine.powered:
            self._dark.append(machine.name)
            self._timers.soon(self._catch_up)

    def _see_network(self) -> None:
        if not self._network_changed:
            self._network_changed = True
            self._timers.soon(self._catch_up)

    def _catch_up(self) -> None:
        """See all that has changed, once for each instant, or as soon as somebody asks."""
        if self._dark:
            dark, self._dark = self._dark, []
            for name in dark:
                self._lose_power(name)
        if self._network_changed:
            self._network_changed = False
            for volume in self._volumes.values():
                volume.look()

    def _lose_power(self, name: str) -> None:
        for volume in list(self._volumes.values()):
            replica = volume.replicas.get(name)
            if replica and replica.config:
                volume.lose_power(name)
