"""The network's life: filters join it, say when they have changed their mind, and whoever lives
by it looks again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.kubelet.machines import Machine, Machines


class Flow(NamedTuple):
    """Packets of one kind: from one machine to a port of another.

    Those of pods carry these pods' addresses. Whoever is no machine is `OUTSIDE`, at an address or
    none."""

    source: str
    target: str
    protocol: str = "TCP"
    port: int = 0
    source_address: str = ""
    target_address: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """What becomes of a flow's packets."""

    blocked: bool = False
    """All of them vanish, and nobody is told."""
    loss: float = 0.0
    """The share that vanishes by chance."""
    delay: float = 0.0
    """Seconds that each takes longer."""
    load: float = 0.0
    """The share of the link's capacity that others use."""
    corrupt: float = 0.0
    """The share that arrives with a wrong bit, and is thrown away there."""
    duplicate: float = 0.0
    """The share that arrives twice."""
    reorder: float = 0.0
    """The share that overtakes others."""
    jitter: float = 0.0
    """Seconds by which the delay differs, either way."""
    rate: float = math.inf
    """Bits per second that pass."""

    @property
    def lost(self) -> float:
        """The share that nobody gets anything from."""
        return _either(self.loss, self.corrupt)

    def covers(self, other: Passage) -> bool:
        """Whether the packets are treated at least as badly."""
        return self.blocked or (
            not other.blocked
            and self.rate <= other.rate
            and all(getattr(self, name) >= getattr(other, name) for name in WOES)
        )

    def also(self, other: Passage) -> Passage:
        """Both one after the other."""
        return Passage(
            self.blocked or other.blocked,
            _either(self.loss, other.loss),
            self.delay + other.delay,
            min(1.0, self.load + other.load),
            _either(self.corrupt, other.corrupt),
            _either(self.duplicate, other.duplicate),
            _either(self.reorder, other.reorder),
            self.jitter + other.jitter,
            min(self.rate, other.rate),
        )


def _either(one: float, other: float) -> float:
    return one + other - one * other


WOES = ("loss", "delay", "load", "corrupt", "duplicate", "reorder", "jitter")
OUTSIDE = ""
"""In place of a machine's name: whoever is none of them, such as the API server."""
OPEN = Passage()
BLOCKED = Passage(blocked=True)
Filter = Callable[[Flow], Passage]
Place = tuple[str, str]


class Network:
    """All links between a cluster's machines."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._filters: list[Filter] = []
        self._listeners: list[Callable[[], None]] = []
        machines.on_change(self._machine_changed)

    def join(self, packet_filter: Filter) -> None:
        """From now on this filter has a say on every flow."""
        self._filters.append(packet_filter)
        self.changed()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Tell of every change that may be one for some flow."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """A filter has changed its mind."""
        for listener in self._listeners:
            listener()

    def flow(self, source: Place, target: Place, protocol: str = "TCP", port: int = 0) -> Flow:
        """From an address on a machine to another; what is a machine's own goes without saying."""
        addresses = ["" if self._is_own(*place) else place[1] for place in (source, target)]
        return Flow(source[0], target[0], protocol, port, *addresses)

    def _is_own(self, machine: str, address: str) -> bool:
        return machine in self._machines and self._machines[machine].address == address

    def passage(self, flow: Flow, *, apart_from: Filter | None = None) -> Passage:
        """What all filters make of it, or all but one."""
        if not (self._is_up(flow.source) and self._is_up(flow.target)):
            return BLOCKED
        passage = OPEN
        for packet_filter in self._filters:
            if packet_filter != apart_from and (found := packet_filter(flow)) is not OPEN:
                passage = found if passage is OPEN else passage.also(found)
        return passage

    def _is_up(self, name: str) -> bool:
        return name == OUTSIDE or self._machines.has_power(name)

    def _machine_changed(self, _: Machine) -> None:
        self.changed()


LINK = 10e9  # bits per second, each way: a virtual machine's network card
QUEUE = 0.02  # seconds that a packet waits where a load uses the whole link
HEARTBEATS = (
    ("TCP", 100.0, 200.0),
    ("UDP", 50.0, 150.0),
)  # packets per second and their bytes: storage, etcd, the overlay
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
        shares = [
            load.share
            for load in self._loads
            if load.flow.source == flow.source or load.flow.target == flow.target
        ]
        if not shares:
            return OPEN
        used = min(1.0, sum(shares))
        return Passage(load=used, delay=QUEUE * used)

    def between(self, source: Machine, target: Machine) -> Iterator[Stream]:
        """What one sends to the other."""
        if source.powered:
            for protocol, packets, size in HEARTBEATS:
                yield Stream(
                    source, target, Flow(source.name, target.name, protocol), packets, size
                )
            for load in self._loads:
                if (load.flow.source, load.flow.target) == (source.name, target.name):
                    yield Stream(source, target, load.flow, load.share * LINK / 8 / PAYLOAD, FRAME)
