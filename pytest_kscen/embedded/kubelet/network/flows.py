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
class Impairment:
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
        return _combine(self.loss, self.corrupt)

    def is_at_least(self, other: Impairment) -> bool:
        """Whether the packets are treated at least as badly."""
        return self.blocked or (
            not other.blocked
            and self.rate <= other.rate
            and all(getattr(self, name) >= getattr(other, name) for name in SEVERITIES)
        )

    def combined_with(self, other: Impairment) -> Impairment:
        """Both one after the other."""
        return Impairment(
            self.blocked or other.blocked,
            _combine(self.loss, other.loss),
            self.delay + other.delay,
            min(1.0, self.load + other.load),
            _combine(self.corrupt, other.corrupt),
            _combine(self.duplicate, other.duplicate),
            _combine(self.reorder, other.reorder),
            self.jitter + other.jitter,
            min(self.rate, other.rate),
        )


def _combine(one: float, other: float) -> float:
    return one + other - one * other


SEVERITIES = ("loss", "delay", "load", "corrupt", "duplicate", "reorder", "jitter")
OUTSIDE = ""
"""In place of a machine's name: whoever is none of them, such as the API server."""
NO_IMPAIRMENT = Impairment()
BLOCKED = Impairment(blocked=True)
Filter = Callable[[Flow], Impairment]
Location = tuple[str, str]


class Network:
    """All links between a cluster's machines."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._filters: list[Filter] = []
        self._listeners: list[Callable[[], None]] = []
        machines.on_change(self._machine_changed)

    def add_filter(self, packet_filter: Filter) -> None:
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

    def flow(
        self, source: Location, target: Location, protocol: str = "TCP", port: int = 0
    ) -> Flow:
        """From an address on a machine to another; what is a machine's own goes without saying."""
        addresses = ["" if self._is_own(*place) else place[1] for place in (source, target)]
        return Flow(source[0], target[0], protocol, port, *addresses)

    def _is_own(self, machine: str, address: str) -> bool:
        return machine in self._machines and self._machines[machine].address == address

    def impairment(self, flow: Flow, *, excluding: Filter | None = None) -> Impairment:
        """What all filters make of it, or all but one."""
        if not (self._is_up(flow.source) and self._is_up(flow.target)):
            return BLOCKED
        impairment = NO_IMPAIRMENT
        for packet_filter in self._filters:
            if packet_filter != excluding and (found := packet_filter(flow)) is not NO_IMPAIRMENT:
                impairment = (
                    found if impairment is NO_IMPAIRMENT else impairment.combined_with(found)
                )
        return impairment

    def _is_up(self, name: str) -> bool:
        return name == OUTSIDE or self._machines.has_power(name)

    def _machine_changed(self, _: Machine) -> None:
        self.changed()


LINK_CAPACITY = 10e9  # bits per second, each way: a virtual machine's network card
MAX_QUEUE_DELAY = 0.02  # seconds that a packet waits where a load uses the whole link
HEARTBEATS = (
    ("TCP", 100.0, 200.0),
    ("UDP", 50.0, 150.0),
)  # packets per second and their bytes: storage, etcd, the overlay
PAYLOAD, FRAME = 1448.0, 1500.0  # bytes of a load's packet, without and with headers


@dataclass(frozen=True, slots=True)
class TrafficStream:
    """Packets of one kind, each second."""

    source: Machine
    target: Machine
    flow: Flow
    packets: float
    size: float


@dataclass(slots=True, eq=False)
class LinkLoad:
    """Somebody pushes as much as the link takes: `share` of its capacity."""

    flow: Flow
    share: float


class Traffic:
    """All of it."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._loads: dict[LinkLoad, None] = {}
        network.add_filter(self.impairment)

    def begin(self, load: LinkLoad) -> None:
        self._loads[load] = None
        self._network.changed()

    def change(self, load: LinkLoad, share: float) -> None:
        if share != load.share:
            load.share = share
            self._network.changed()

    def end(self, load: LinkLoad) -> None:
        del self._loads[load]
        self._network.changed()

    def impairment(self, flow: Flow) -> Impairment:
        """The filter: loads on the same way out, or on the same way in."""
        if not self._loads:
            return NO_IMPAIRMENT
        shares = [
            load.share
            for load in self._loads
            if load.flow.source == flow.source or load.flow.target == flow.target
        ]
        if not shares:
            return NO_IMPAIRMENT
        used = min(1.0, sum(shares))
        return Impairment(load=used, delay=MAX_QUEUE_DELAY * used)

    def between(self, source: Machine, target: Machine) -> Iterator[TrafficStream]:
        """What one sends to the other."""
        if source.powered:
            for protocol, packets, size in HEARTBEATS:
                yield TrafficStream(
                    source, target, Flow(source.name, target.name, protocol), packets, size
                )
            for load in self._loads:
                if (load.flow.source, load.flow.target) == (source.name, target.name):
                    yield TrafficStream(
                        source, target, load.flow, load.share * LINK_CAPACITY / 8 / PAYLOAD, FRAME
                    )
