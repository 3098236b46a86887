"""Filter tables of all machines as one network filter, with packet counters.

Counters are brought up to date only when they are read or something changes: in between, every kind
of packets flows at a constant rate. All rules of a machine are lost with its power.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.embedded.kubelet.network.flows import NO_IMPAIRMENT, OUTSIDE, Flow, Impairment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.machines import Machine, Machines
    from pytest_kscen.embedded.kubelet.network.flows import Network, Traffic, TrafficStream


CHAINS = ("INPUT", "FORWARD", "OUTPUT")
DROPPING_TARGETS = ("DROP", "REJECT")


@dataclass(slots=True, eq=False)
class RuleEntry:
    """Rule in a chain with its counters. Counters are fractional, as shares of packets are
    counted.
    """

    rule: FirewallRule
    packets: float = 0.0
    bytes: float = 0.0


class FilterTable:
    """Chains, rules and policies of one machine's filter table.

    `before` and `after` are called around each change, so that packets until then are counted by
    the old rules.
    """

    def __init__(
        self, before: Callable[[], None] = lambda: None, after: Callable[[], None] = lambda: None
    ) -> None:
        self._before, self._after = before, after
        self._chains: dict[str, list[RuleEntry]] = {chain: [] for chain in CHAINS}
        self._policies = dict.fromkeys(CHAINS, "ACCEPT")

    def __bool__(self) -> bool:
        return any(self._chains.values()) or "DROP" in self._policies.values()

    def chains(self) -> Iterator[tuple[str, str, list[RuleEntry]]]:
        self._before()
        for chain, entries in self._chains.items():
            yield chain, self._policies[chain], entries

    def has_chain(self, chain: str) -> bool:
        return chain in self._chains

    def append(self, chain: str, rule: FirewallRule) -> None:
        self.insert(chain, rule, len(self._chains[chain]) + 1)

    def insert(self, chain: str, rule: FirewallRule, number: int) -> bool:
        if not 1 <= number <= len(self._chains[chain]) + 1:
            return False
        self._before()
        self._chains[chain].insert(number - 1, RuleEntry(rule))
        self._after()
        return True

    def find(self, chain: str, rule: FirewallRule) -> int:
        return next(
            (number for number, entry in enumerate(self._chains[chain], 1) if entry.rule == rule), 0
        )

    def delete(self, chain: str, number: int) -> bool:
        if not 1 <= number <= len(self._chains[chain]):
            return False
        self._before()
        del self._chains[chain][number - 1]
        self._after()
        return True

    def flush(self, chain: str = "") -> None:
        self._before()
        for one in [chain] if chain else CHAINS:
            self._chains[one].clear()
        self._after()

    def zero(self, chain: str = "") -> None:
        self._before()
        for one in [chain] if chain else CHAINS:
            for entry in self._chains[one]:
                entry.packets = entry.bytes = 0.0

    def set_policy(self, chain: str, policy: str) -> None:
        self._before()
        self._policies[chain] = policy
        self._after()

    def reset(self) -> None:
        for chain in CHAINS:
            self._chains[chain].clear()
            self._policies[chain] = "ACCEPT"

    def dropped_share(self, chain: str, packet: Packet) -> float:
        """Return the share (0 to 1) of such packets that the chain drops or rejects, its policy
        included. Counters are not changed.
        """
        left, lost = 1.0, 0.0
        for entry, share in self._matching(chain, packet):
            if entry.rule.target:
                left -= share
            if entry.rule.target in DROPPING_TARGETS:
                lost += share
        return lost + left if self._policies[chain] == "DROP" else lost

    def count(self, chain: str, packet: Packet, packets: float, size: float) -> None:
        """Add packets of one kind to the counters of the rules that see them; `size` is bytes
        per packet.
        """
        for entry, share in self._matching(chain, packet):
            entry.packets += packets * share
            entry.bytes += packets * share * size

    def _matching(self, chain: str, packet: Packet) -> Iterator[tuple[RuleEntry, float]]:
        """Yield the rules that see such packets, and the share of all packets that each takes.
        A rule with a target takes its share from later rules.
        """
        left = 1.0
        for entry in self._chains[chain]:
            if left > 0 and entry.rule.matches(packet):
                share = left * entry.rule.chance
                yield entry, share
                left -= share if entry.rule.target else 0.0


ANYWHERE = ipaddress.IPv4Network("0.0.0.0/0")
PROBABILITY_STEPS = 2**31  # resolution of probabilities in the kernel
INTERFACE = "eth0"  # of all traffic between machines

_parse_address = functools.lru_cache(maxsize=1024)(ipaddress.ip_address)
"""Cached address parser, as the same machines' addresses are matched again and again."""


@dataclass(frozen=True, slots=True)
class Packet:
    """Packet fields that rules match. Port 0 means an unknown port, such as a client's, or a
    protocol without ports.
    """

    source: str
    target: str
    protocol: str
    sport: int = 0
    dport: int = 0


@dataclass(frozen=True, slots=True)
class PortMatch:
    ranges: tuple[tuple[int, int], ...]
    inverted: bool = False

    def match(self, port: int) -> bool:
        return any(first <= port <= last for first, last in self.ranges) is not self.inverted

    def __str__(self) -> str:
        return ",".join(
            str(first) if first == last else f"{first}:{last}" for first, last in self.ranges
        )


@dataclass(frozen=True, slots=True)
class AddressMatch:
    network: ipaddress.IPv4Network = ANYWHERE
    inverted: bool = False

    def match(self, address: str) -> bool:
        return (_parse_address(address) in self.network) is not self.inverted

    def __str__(self) -> str:
        return str(self.network)


@dataclass(frozen=True, slots=True)
class NameMatch:
    """Protocol or interface of a rule, such as `-p tcp`; a plus sign at the end matches any
    suffix.
    """

    name: str
    inverted: bool = False

    def match(self, name: str) -> bool:
        wanted = name.startswith(self.name[:-1]) if self.name.endswith("+") else name == self.name
        return wanted is not self.inverted


@dataclass(frozen=True, slots=True)
class FirewallRule:
    """Rule as `iptables -A` adds it. Rules with equal options are equal, which `-D` and `-C`
    rely on.
    """

    target: str = ""
    source: AddressMatch = AddressMatch()
    destination: AddressMatch = AddressMatch()
    protocol: NameMatch | None = None
    interface: NameMatch | None = None
    out_interface: NameMatch | None = None
    sport: PortMatch | None = None
    dport: PortMatch | None = None
    multiport: bool = False
    probability: int = PROBABILITY_STEPS
    every: int = 0
    packet: int = 0
    comment: str = ""

    @property
    def chance(self) -> float:
        """Return the share of matching packets that the rule takes, by its statistic module."""
        return 1 / self.every if self.every else self.probability / PROBABILITY_STEPS

    def matches(self, packet: Packet) -> bool:
        return (
            self.source.match(packet.source)
            and self.destination.match(packet.target)
            and (self.protocol is None or self.protocol.match(packet.protocol.lower()))
            and (self.interface is None or self.interface.match(INTERFACE))
            and (self.out_interface is None or self.out_interface.match(INTERFACE))
            and (self.sport is None or self.sport.match(packet.sport))
            and (self.dport is None or self.dport.match(packet.dport))
        )

    def command(self) -> str:
        """Return the rule in the notation of `iptables -S`, without the chain."""
        is_plain = re.fullmatch(r"[\w-]*", self.comment, re.ASCII)
        comment = self.comment if is_plain else f'"{self.comment}"'
        parts = [
            _option("-s", self.source if self.source != AddressMatch() else None),
            _option("-d", self.destination if self.destination != AddressMatch() else None),
            _name_option("-i", self.interface),
            _name_option("-o", self.out_interface),
            _name_option("-p", self.protocol),
            f"-m {'multiport' if self.multiport else self._protocol()}"
            if self.sport or self.dport
            else "",
            _option("--sports" if self.multiport else "--sport", self.sport),
            _option("--dports" if self.multiport else "--dport", self.dport),
            self._statistic("--"),
            f"-m comment --comment {comment}" if comment else "",
            f"-j {self.target}" if self.target else "",
            "--reject-with icmp-port-unreachable" if self.target == "REJECT" else "",
        ]
        return " ".join(part for part in parts if part)

    def description(self) -> str:
        ports = [
            (
                f"multiport {kind}ports "
                if self.multiport
                else f"{self._protocol()} {kind[0]}pt{'s' if ':' in str(one) else ''}:"
            )
            + f"{'!' if one.inverted else ''}{one}"
            for kind, one in (("s", self.sport), ("d", self.dport))
            if one
        ]
        comment = f"/* {self.comment} */" if self.comment else ""
        reject = "reject-with icmp-port-unreachable" if self.target == "REJECT" else ""
        return " ".join(part for part in [*ports, self._statistic(""), comment, reject] if part)

    def _statistic(self, dashes: str) -> str:
        start = "-m statistic --mode" if dashes else "statistic mode"
        if self.every:
            return (
                f"{start} nth {dashes}every "
                f"{self.every}{f' {dashes}packet {self.packet}' if self.packet or dashes else ''}"
            )
        if self.probability == PROBABILITY_STEPS:
            return ""
        return f"{start} random {dashes}probability {self.probability / PROBABILITY_STEPS:.11f}"

    def _protocol(self) -> str:
        return self.protocol.name if self.protocol else ""


def _option(flag: str, value: AddressMatch | PortMatch | None) -> str:
    return f"{'! ' if value.inverted else ''}{flag} {value}" if value else ""


def _name_option(flag: str, value: NameMatch | None) -> str:
    return f"{'! ' if value.inverted else ''}{flag} {value.name}" if value else ""


NEARLY_ALL = 1 - 1e-9  # share above which a flow counts as blocked


class PacketRate(NamedTuple):
    """Rate of one kind of packets through a chain: packets per second, and bytes per packet."""

    tables: FilterTable
    chain: str
    packet: Packet
    packets: float
    size: float


class Firewalls:
    """Filter tables of all machines, created when first used, as one filter of the network."""

    def __init__(
        self, machines: Machines, network: Network, traffic: Traffic, clock: Clock
    ) -> None:
        self._machines, self._network, self._traffic, self._clock = (
            machines,
            network,
            traffic,
            clock,
        )
        self._tables: dict[Machine, FilterTable] = {}
        self._active: dict[str, FilterTable] = {}
        self._rates: list[PacketRate] = []
        self._counted_at = 0.0
        network.add_filter(self.impairment)
        network.on_change(self._update_rates)

        def machine_changed(machine: Machine) -> None:
            tables = self._tables.get(machine)
            if tables and not machine.powered:
                tables.reset()
                network.changed()

        machines.on_change(machine_changed)

    def of(self, machine: Machine) -> FilterTable:
        if machine not in self._tables:
            self._tables[machine] = FilterTable(self._count, self._network.changed)
        return self._tables[machine]

    def impairment(self, flow: Flow) -> Impairment:
        """Return the effect of the tables on a flow. A TCP connection also needs the packets in
        reply.

        Flows from or to outside the cluster pass: rules match machines' addresses.
        """
        if not self._active or OUTSIDE in (flow.source, flow.target):
            return NO_IMPAIRMENT  # rules match machines' addresses only
        if flow.source not in self._active and flow.target not in self._active:
            return NO_IMPAIRMENT
        source, target = self._machines[flow.source], self._machines[flow.target]
        forward = self._lost(
            Packet(source.address, target.address, flow.protocol, dport=flow.port), source, target
        )
        reply = 0.0
        if flow.protocol == "TCP":
            reply = self._lost(
                Packet(target.address, source.address, flow.protocol, sport=flow.port),
                target,
                source,
            )
        return (
            Impairment(blocked=max(forward, reply) > NEARLY_ALL, loss=forward)
            if forward or reply
            else NO_IMPAIRMENT
        )

    def _lost(self, packet: Packet, source: Machine, target: Machine) -> float:
        return 1 - (1 - self._dropped_share(source, "OUTPUT", packet)) * (
            1 - self._dropped_share(target, "INPUT", packet)
        )

    def _dropped_share(self, machine: Machine, chain: str, packet: Packet) -> float:
        tables = self._active.get(machine.name)
        return tables.dropped_share(chain, packet) if tables else 0.0

    def _count(self) -> None:
        now = self._clock.now()
        elapsed, self._counted_at = now - self._counted_at, now
        for rate in self._rates:
            rate.tables.count(rate.chain, rate.packet, rate.packets * elapsed, rate.size)

    def _update_rates(self) -> None:
        """Count up to now at the old rates, then compute the rates that hold from now on."""
        self._count()
        forward = (
            {
                machine: self._tables[machine]
                for machine in self._machines
                if self._tables.get(machine)
            }
            if self._tables
            else {}
        )
        self._active = {machine.name: tables for machine, tables in forward.items()}
        rates: list[PacketRate] = []
        for machine, tables in forward.items():
            for peer in (each for each in self._machines if each is not machine):
                for stream in self._traffic.between(machine, peer):
                    packet = _packet(stream)
                    rates.append(PacketRate(tables, "OUTPUT", packet, stream.packets, stream.size))
                for stream in self._traffic.between(peer, machine):
                    impairment = self._network.impairment(stream.flow, excluding=self.impairment)
                    packet, arriving = _packet(stream), 0.0
                    if not impairment.blocked:
                        dropped = self._dropped_share(peer, "OUTPUT", packet)
                        arriving = (1 - impairment.lost) * (1 - dropped)
                    packets = stream.packets * arriving
                    rates.append(PacketRate(tables, "INPUT", packet, packets, stream.size))
        self._rates = rates


def _packet(stream: TrafficStream) -> Packet:
    return Packet(
        stream.source.address, stream.target.address, stream.flow.protocol, dport=stream.flow.port
    )
