"""Flows between machines, the filters that impair them, and the load on links.

Simulated storage, Cilium, Chaos Mesh and firewalls add filters; whatever depends on the network
listens for changes and evaluates its flows again.
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
    """Packets of one kind from one machine to a port of another.

    Packets of pods carry the pods' addresses. A peer that is no machine is `OUTSIDE`, with an
    address or without.
    """

    source: str
    target: str
    protocol: str = "TCP"
    port: int = 0
    source_address: str = ""
    target_address: str = ""


@dataclass(frozen=True, slots=True)
class Impairment:
    """Effect of the network on the packets of a flow, in the terms of netem. The default is no
    effect.
    """

    blocked: bool = False
    """True if packets are dropped without a reply."""
    loss: float = 0.0
    """Share of packets that is dropped at random."""
    delay: float = 0.0
    """Additional delay of each packet in seconds."""
    load: float = 0.0
    """Share of the link's capacity that other traffic uses."""
    corrupt: float = 0.0
    """Share of packets that arrive with a bit error and are discarded."""
    duplicate: float = 0.0
    """Share of packets that arrive twice."""
    reorder: float = 0.0
    """Share of packets that overtake others."""
    jitter: float = 0.0
    """Seconds by which the delay varies in either direction."""
    rate: float = math.inf
    """Maximum throughput in bits per second."""

    @property
    def lost(self) -> float:
        return _combine(self.loss, self.corrupt)

    def is_at_least(self, other: Impairment) -> bool:
        """Return True if this impairment is at least as severe as the other in every respect."""
        return self.blocked or (
            not other.blocked
            and self.rate <= other.rate
            and all(getattr(self, name) >= getattr(other, name) for name in SEVERITIES)
        )

    def combined_with(self, other: Impairment) -> Impairment:
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
"""Machine name of peers that are no machine of the cluster, such as the API server."""
NO_IMPAIRMENT = Impairment()
BLOCKED = Impairment(blocked=True)
Filter = Callable[[Flow], Impairment]
Location = tuple[str, str]


class Network:
    """Links between a cluster's machines, with the filters that impair flows on them."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._filters: list[Filter] = []
        self._listeners: list[Callable[[], None]] = []
        machines.on_change(lambda _: self.changed())

    def add_filter(self, packet_filter: Filter) -> None:
        self._filters.append(packet_filter)
        self.changed()

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def changed(self) -> None:
        """Notify the listeners that a filter may give other results. Filters call it after each
        change; nothing is cached here.
        """
        for listener in self._listeners:
            listener()

    def flow(
        self, source: Location, target: Location, protocol: str = "TCP", port: int = 0
    ) -> Flow:
        """Return the flow between two locations. A machine's own address is left out, as
        filters take it for granted.
        """
        addresses = [
            ""
            if machine in self._machines and self._machines[machine].address == address
            else address
            for machine, address in (source, target)
        ]
        return Flow(source[0], target[0], protocol, port, *addresses)

    def impairment(self, flow: Flow, *, excluding: Filter | None = None) -> Impairment:
        """Return the combined effect of all filters on a flow, or of all but `excluding`. A
        machine without power blocks.
        """
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


LINK_CAPACITY = 10e9  # bits per second, each way: a virtual machine's network card
MAX_QUEUE_DELAY = 0.02  # seconds, on a link that is fully loaded
HEARTBEATS = (
    ("TCP", 100.0, 200.0),
    ("UDP", 50.0, 150.0),
)  # packets per second, bytes per packet: storage, etcd, overlay
PAYLOAD, FRAME = 1448.0, 1500.0  # bytes of a load's packet, without and with headers


@dataclass(frozen=True, slots=True)
class TrafficStream:
    source: Machine
    target: Machine
    flow: Flow
    packets: float
    size: float


@dataclass(slots=True, eq=False)
class TrafficLoad:
    """Load on a link: `share` (0 to 1) of its capacity that one sender uses."""

    flow: Flow
    share: float


class Traffic:
    """Traffic between machines: heartbeats always, and loads while they last. Loads delay other
    packets on the same link.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._loads: dict[TrafficLoad, None] = {}
        network.add_filter(self.impairment)

    def begin(self, load: TrafficLoad) -> None:
        self._loads[load] = None
        self._network.changed()

    def change(self, load: TrafficLoad, share: float) -> None:
        if share != load.share:
            load.share = share
            self._network.changed()

    def end(self, load: TrafficLoad) -> None:
        del self._loads[load]
        self._network.changed()

    def impairment(self, flow: Flow) -> Impairment:
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
