"""What flows between the machines: heartbeats always, and loads that somebody puts on.

A machine has one link, each way with its own capacity; who shares it with a load has less of it, and its packets wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.network.network import OPEN, Flow, Passage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.simulation.kubelet.machines import Machine
    from pytest_kscen.simulation.network.network import Network

LINK = 10e9  # bits per second, each way: a virtual machine's network card
QUEUE = 0.02  # seconds that a packet waits where a load uses the whole link
HEARTBEATS = (("TCP", 100.0, 200.0), ("UDP", 50.0, 150.0))  # packets per second and their bytes: storage, etcd, the overlay
PAYLOAD, FRAME = 1448.0, 1500.0  # bytes of a load's packet, without and with headers


@dataclass(frozen=True, slots=True)
class Stream:
    """Packets of one kind, each second."""

    source: Machine
    target: Machine
    flow: Flow
    packets: float
    size: float


@dataclass(slots=True, eq=False)
class Load:
    """Somebody pushes as much as the link takes: `share` of its capacity."""

    flow: Flow
    share: float


class Traffic:
    """All of it."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._loads: dict[Load, None] = {}
        network.join(self.passage)

    def begin(self, load: Load) -> None:
        self._loads[load] = None
        self._network.changed()

    def change(self, load: Load, share: float) -> None:
        if share != load.share:
            load.share = share
            self._network.changed()

    def end(self, load: Load) -> None:
        del self._loads[load]
        self._network.changed()

    def passage(self, flow: Flow) -> Passage:
        """The filter: loads on the same way out, or on the same way in."""
        if not self._loads:
            return OPEN
        shares = [load.share for load in self._loads if load.flow.source == flow.source or load.flow.target == flow.target]
        if not shares:
            return OPEN
        used = min(1.0, sum(shares))
        return Passage(load=used, delay=QUEUE * used)

    def between(self, source: Machine, target: Machine) -> Iterator[Stream]:
        """What one sends to the other."""
        if source.powered:
            for protocol, packets, size in HEARTBEATS:
                yield Stream(source, target, Flow(source.name, target.name, protocol), packets, size)
            for load in self._loads:
                if (load.flow.source, load.flow.target) == (source.name, target.name):
                    yield Stream(source, target, load.flow, load.share * LINK / 8 / PAYLOAD, FRAME)
