"""The tables of all machines as one filter of the network. Their counters stand still until somebody looks or something changes.

Between two such moments every kind of packets flows at one rate; its share is added to the rules that see it then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.network.firewall.rule import Packet
from pytest_kscen.simulation.network.firewall.tables import Tables
from pytest_kscen.simulation.network.network import OPEN, OUTSIDE, Flow, Passage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.clock import Clock
    from pytest_kscen.simulation.kubelet.machines import Machine, Machines
    from pytest_kscen.simulation.network.network import Network
    from pytest_kscen.simulation.network.traffic import Stream, Traffic

EVERYTHING = 1 - 1e-9  # as good as all packets


class Rate(NamedTuple):
    """Packets of one kind that come by a chain, each second."""

    tables: Tables
    chain: str
    packet: Packet
    packets: float
    size: float


class Firewalls:
    """Each machine has its own from when it is first asked for."""

    def __init__(self, machines: Machines, network: Network, traffic: Traffic, clock: Clock) -> None:
        self._machines, self._network, self._traffic, self._clock = machines, network, traffic, clock
        self._tables: dict[Machine, Tables] = {}
        self._armed: dict[str, Tables] = {}
        self._rates: list[Rate] = []
        self._counted_at = 0.0
        network.join(self.passage)
        network.on_change(self._flow_anew)
        machines.on_change(self._machine_changed)

    def of(self, machine: Machine) -> Tables:
        if machine not in self._tables:
            self._tables[machine] = Tables(self._count, self._network.changed)
        return self._tables[machine]

    def passage(self, flow: Flow) -> Passage:
        """The filter. A connection also needs the packets that answer."""
        if not self._armed or OUTSIDE in (flow.source, flow.target):
            return OPEN  # rules are about machines' addresses, and nobody outside has one
        if flow.source not in self._armed and flow.target not in self._armed:
            return OPEN
        source, target = self._machines[flow.source], self._machines[flow.target]
        there = self._lost(Packet(source.address, target.address, flow.protocol, dport=flow.port), source, target)
        back = 0.0
        if flow.protocol == "TCP":
            back = self._lost(Packet(target.address, source.address, flow.protocol, sport=flow.port), target, source)
        return Passage(blocked=max(there, back) > EVERYTHING, loss=there) if there or back else OPEN

    def _lost(self, packet: Packet, source: Machine, target: Machine) -> float:
        return 1 - (1 - self._share(source, "OUTPUT", packet)) * (1 - self._share(target, "INPUT", packet))

    def _share(self, machine: Machine, chain: str, packet: Packet) -> float:
        tables = self._armed.get(machine.name)
        return tables.lost(chain, packet) if tables else 0.0

    # --- counters ---

    def _count(self) -> None:
        """What has come by since the last time."""
        now = self._clock.now()
        elapsed, self._counted_at = now - self._counted_at, now
        for rate in self._rates:
            rate.tables.count(rate.chain, rate.packet, rate.packets * elapsed, rate.size)

    def _flow_anew(self) -> None:
        """Something has changed: from now on other rates hold."""
        self._count()
        there = {machine: self._tables[machine] for machine in self._machines if self._tables.get(machine)} if self._tables else {}
        self._armed = {machine.name: tables for machine, tables in there.items()}
        self._rates = [rate for machine, tables in there.items() for rate in self._rates_at(machine, tables)]

    def _rates_at(self, machine: Machine, tables: Tables) -> Iterator[Rate]:
        for peer in self._machines:
            if peer is not machine:
                for stream in self._traffic.between(machine, peer):
                    yield Rate(tables, "OUTPUT", _packet(stream), stream.packets, stream.size)
                for stream in self._traffic.between(peer, machine):
                    yield Rate(tables, "INPUT", _packet(stream), stream.packets * self._arriving(stream, peer), stream.size)

    def _arriving(self, stream: Stream, source: Machine) -> float:
        """The share that reaches the other machine's door."""
        passage = self._network.passage(stream.flow, apart_from=self.passage)
        return 0.0 if passage.blocked else (1 - passage.lost) * (1 - self._share(source, "OUTPUT", _packet(stream)))

    def _machine_changed(self, machine: Machine) -> None:
        tables = self._tables.get(machine)
        if tables and not machine.powered:
            tables.reset()
            self._network.changed()


def _packet(stream: Stream) -> Packet:
    return Packet(stream.source.address, stream.target.address, stream.flow.protocol, dport=stream.flow.port)
