"""One rule: which packets it matches, with what chance, what becomes of them, and how it is written."""

from __future__ import annotations

import functools
import ipaddress
import re
from dataclasses import dataclass

ANYWHERE = ipaddress.IPv4Network("0.0.0.0/0")
GRAINS = 2**31  # the kernel keeps a probability in this many steps
INTERFACE = "eth0"  # by which all packets between machines come and go

_read = functools.lru_cache(maxsize=1024)(ipaddress.ip_address)
"""The same machines' addresses are matched again and again."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A kind of packets. Port 0 is one that nobody knows, as of a client, or none."""

    source: str
    target: str
    protocol: str
    sport: int = 0
    dport: int = 0


@dataclass(frozen=True, slots=True)
class Ports:
    """`--dport 7000:7999`, or several."""

    ranges: tuple[tuple[int, int], ...]
    turned: bool = False

    def match(self, port: int) -> bool:
        return any(first <= port <= last for first, last in self.ranges) is not self.turned

    def __str__(self) -> str:
        return ",".join(str(first) if first == last else f"{first}:{last}" for first, last in self.ranges)


@dataclass(frozen=True, slots=True)
class Network:
    """`-s 10.0.0.0/8`."""

    network: ipaddress.IPv4Network = ANYWHERE
    turned: bool = False

    def match(self, address: str) -> bool:
        return (_read(address) in self.network) is not self.turned

    def __str__(self) -> str:
        return str(self.network)


@dataclass(frozen=True, slots=True)
class Name:
    """`-p tcp`, `-i eth0`; a plus at its end stands for any letters."""

    name: str
    turned: bool = False

    def match(self, name: str) -> bool:
        wanted = name.startswith(self.name[:-1]) if self.name.endswith("+") else name == self.name
        return wanted is not self.turned


@dataclass(frozen=True, slots=True)
class Rule:
    """What `iptables -A` adds. Two of the same words are equal."""

    target: str = ""
    source: Network = Network()
    destination: Network = Network()
    protocol: Name | None = None
    interface: Name | None = None
    out_interface: Name | None = None
    sport: Ports | None = None
    dport: Ports | None = None
    multiport: bool = False
    probability: int = GRAINS
    every: int = 0
    packet: int = 0
    comment: str = ""

    @property
    def chance(self) -> float:
        """The share of the packets that it matches which it takes."""
        return 1 / self.every if self.every else self.probability / GRAINS

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

    def words(self) -> str:
        """As `iptables -S` says it, without the chain."""
        parts = [
            _option("-s", self.source if self.source != Network() else None),
            _option("-d", self.destination if self.destination != Network() else None),
            _named("-i", self.interface),
            _named("-o", self.out_interface),
            _named("-p", self.protocol),
            f"-m {'multiport' if self.multiport else self._protocol()}" if self.sport or self.dport else "",
            _option("--sports" if self.multiport else "--sport", self.sport),
            _option("--dports" if self.multiport else "--dport", self.dport),
            self._statistic("--"),
            f"-m comment --comment {_quoted(self.comment)}" if self.comment else "",
            f"-j {self.target}" if self.target else "",
            "--reject-with icmp-port-unreachable" if self.target == "REJECT" else "",
        ]
        return " ".join(part for part in parts if part)

    def remarks(self) -> str:
        """What `iptables -L` says at a line's end."""
        ports = [
            (f"multiport {kind}ports " if self.multiport else f"{self._protocol()} {kind[0]}pt{'s' if ':' in str(one) else ''}:")
            + f"{'!' if one.turned else ''}{one}"
            for kind, one in (("s", self.sport), ("d", self.dport))
            if one
        ]
        comment = f"/* {self.comment} */" if self.comment else ""
        reject = "reject-with icmp-port-unreachable" if self.target == "REJECT" else ""
        return " ".join(part for part in [*ports, self._statistic(""), comment, reject] if part)

    def _statistic(self, dashes: str) -> str:
        start = "-m statistic --mode" if dashes else "statistic mode"
        if self.every:
            return f"{start} nth {dashes}every {self.every}{f' {dashes}packet {self.packet}' if self.packet or dashes else ''}"
        if self.probability == GRAINS:
            return ""
        return f"{start} random {dashes}probability {self.probability / GRAINS:.11f}"

    def _protocol(self) -> str:
        return self.protocol.name if self.protocol else ""


def _option(flag: str, value: Network | Ports | None) -> str:
    return f"{'! ' if value.turned else ''}{flag} {value}" if value else ""


def _named(flag: str, value: Name | None) -> str:
    return f"{'! ' if value.turned else ''}{flag} {value.name}" if value else ""


def _quoted(comment: str) -> str:
    return comment if re.fullmatch(r"[\w-]+", comment, re.ASCII) else f'"{comment}"'
