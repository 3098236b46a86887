"""The kernels of all machines of a cluster, as their agents' commands find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.simulation.kubelet.machines import Machines
    from pytest_kscen.simulation.network import Network
    from pytest_kscen.simulation.storage.drbd.words import Config, Status

    Listener = Callable[[str, str], None]


class Drbd:
    """One per cluster. Its commands are given from within the running loop, as agents do; it outlives them."""

    def __init__(self, machines: Machines, network: Network, clock: Clock, chance: Chance) -> None:
        self._listeners: list[Listener] = []

    def on_change(self, listener: Listener) -> None:
        """Tell (node, resource) when that node's status is another one; percentages alone are no change."""
        self._listeners.append(listener)

    def up(self, node: str, resource: str, config: Config) -> None:
        """Create, or adjust what is there. A new disk is Inconsistent; one that was there remembers its data."""
        raise NotImplementedError

    def down(self, node: str, resource: str, *, wipe: bool = False) -> None:
        """End it here, whatever its role; `wipe` forgets the data too."""
        raise NotImplementedError

    def initialize(self, node: str, resource: str) -> None:
        """Declare this replica's data UpToDate, by force."""
        raise NotImplementedError

    def primary(self, node: str, resource: str) -> None:
        """Raises DrbdRefused, and why; asking again later may help."""
        raise NotImplementedError

    def secondary(self, node: str, resource: str) -> None:
        """Always allowed where the resource is up."""
        raise NotImplementedError

    def status(self, node: str, resource: str) -> Status | None:
        """None where the resource is not up, or the machine has no power."""
        raise NotImplementedError
