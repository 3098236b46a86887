"""From the words of an `iptables` call to what is asked for. What real ones refuse is refused in their words."""

from __future__ import annotations

import dataclasses
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.simulation.network.firewall.rule import GRAINS, Name, Network, Ports, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = {
    "-A": "A", "--append": "A", "-I": "I", "--insert": "I", "-D": "D", "--delete": "D", "-C": "C", "--check": "C",
    "-L": "L", "--list": "L", "-S": "S", "--list-rules": "S", "-F": "F", "--flush": "F", "-Z": "Z", "--zero": "Z",
    "-P": "P", "--policy": "P", "-V": "V", "--version": "V",
}  # fmt: skip
FLAGS = {"-n": "n", "--numeric": "n", "-v": "v", "--verbose": "v", "-x": "x", "--exact": "x", "--line-numbers": "0"}
MATCHES = ("comment", "statistic", "tcp", "udp", "icmp", "multiport")
TARGETS = ("ACCEPT", "DROP", "REJECT")
PROTOCOLS = {"tcp": "tcp", "udp": "udp", "icmp": "icmp", "6": "tcp", "17": "udp", "1": "icmp"}
TOP_PORT = 65535


class RefusedError(Exception):
    """Words that iptables does not take."""


@dataclass(slots=True)
class Request:
    """One call."""

    command: str = ""
    chain: str = ""
    number: int | None = None
    flags: str = ""
    policy: str = ""
    rule: Rule = field(default_factory=Rule)


def request_of(words: list[str]) -> Request:
    reader = _Reader(words)
    while reader.left:
        reader.take_one()
    if not reader.request.command:
        raise RefusedError("no command specified")
    rule = reader.request.rule
    if (rule.sport or rule.dport) and (rule.protocol is None or rule.protocol.name not in {"tcp", "udp"}):
        raise RefusedError(f'unknown option "{"--dport" if rule.dport else "--sport"}"')
    return reader.request


class _Reader:
    def __init__(self, words: list[str]) -> None:
        self.left = _spread(words)
        self.request = Request()
        self._turned = False

    def take_one(self) -> None:
        word = self.left.pop(0)
        if word == "!":
            self._turned = True
            return
        if word in COMMANDS:
            self._command(COMMANDS[word])
        elif word in FLAGS:
            self.request.flags += FLAGS[word]
        elif word in _OPTIONS:
            field_, read = _OPTIONS[word]
            self._set(**{field_: read(self._value(word), self._turned)})
        elif word in _OTHERS:
            _OTHERS[word](self)
        else:
            raise RefusedError(f'unknown option "{word}"')
        self._turned = False

    def _command(self, command: str) -> None:
        if self.request.command:
            raise RefusedError(f"Cannot use -{command} with -{self.request.command}")
        self.request.command = command
        if self.left and not self.left[0].startswith(("-", "!")):
            self.request.chain = self.left.pop(0)
        elif command not in "LSFZV":
            raise RefusedError(f'option "-{command}" requires an argument')
        if command in "IDSL" and self.left and self.left[0].isdecimal():
            self.request.number = int(self.left.pop(0))
        if command == "P":
            self.request.policy = self._value("-P")

    def match(self) -> None:
        name = self._value("-m")
        if name not in MATCHES:
            raise RefusedError(f"Couldn't load match `{name}':No such file or directory (simulated are {', '.join(MATCHES)})")
        self._set(**({"multiport": True} if name == "multiport" else {}))

    def mode(self) -> None:
        if (mode := self._value("--mode")) not in {"random", "nth"}:
            raise RefusedError(f"Bad mode `{mode}'")

    def jump(self) -> None:
        target = self._value("-j")
        if target not in TARGETS:
            raise RefusedError(f"Couldn't load target `{target}':No such file or directory (simulated are {', '.join(TARGETS)})")
        self._set(target=target)

    def table(self) -> None:
        if (table := self._value("-t")) != "filter":
            raise RefusedError(f"the table {table} is not simulated here (filter is)")

    def skip(self) -> None:
        self._value("--reject-with")

    def wait(self) -> None:
        if self.left and self.left[0].isdecimal():
            self.left.pop(0)

    def _value(self, option: str) -> str:
        if not self.left:
            raise RefusedError(f'option "{option}" requires an argument')
        return self.left.pop(0)

    def _set(self, **parts: Any) -> None:
        self.request.rule = dataclasses.replace(self.request.rule, **parts)


def _spread(words: list[str]) -> list[str]:
    """`-nvL` is `-n -v -L`."""
    return [
        part
        for word in words
        for part in ([f"-{letter}" for letter in word[1:]] if word[:1] == "-" and word[1:].isalpha() and word[1] != "-" else [word])
    ]


def _network(text: str, turned: bool) -> Network:  # noqa: FBT001  # what stands before the option
    try:
        return Network(ipaddress.IPv4Network(text, strict=False), turned)
    except ValueError:
        raise RefusedError(f"host/network `{text}' not found") from None


def _ports(text: str, turned: bool) -> Ports:  # noqa: FBT001
    return Ports(tuple(_range(part) for part in text.split(",")), turned)


def _range(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    ends = (first or "0", last or str(TOP_PORT)) if colon else (first, first)
    if not all(end.isdecimal() and int(end) <= TOP_PORT for end in ends):
        raise RefusedError(f"invalid port/service `{text}' specified")
    return int(ends[0]), int(ends[1])


def _protocol(text: str, turned: bool) -> Name | None:  # noqa: FBT001
    if text == "all":
        return None
    if text.lower() not in PROTOCOLS:
        raise RefusedError(f'unknown protocol "{text}" specified')
    return Name(PROTOCOLS[text.lower()], turned)


def _probability(text: str, _: bool) -> int:  # noqa: FBT001
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise RefusedError('statistic: value for "--probability" is out of range 0.00 to 1.00')
    return int(share * GRAINS + 0.5)


def _whole(text: str, _: bool) -> int:  # noqa: FBT001
    if not text.isdecimal():
        raise RefusedError(f'invalid value "{text}"')
    return int(text)


_OPTIONS: dict[str, tuple[str, Callable[[str, bool], Any]]] = {
    **dict.fromkeys(("-s", "--source", "--src"), ("source", _network)),
    **dict.fromkeys(("-d", "--destination", "--dst"), ("destination", _network)),
    **dict.fromkeys(("-p", "--protocol", "--proto"), ("protocol", _protocol)),
    **dict.fromkeys(("-i", "--in-interface"), ("interface", Name)),
    **dict.fromkeys(("-o", "--out-interface"), ("out_interface", Name)),
    **dict.fromkeys(("--sport", "--sports", "--source-port", "--source-ports"), ("sport", _ports)),
    **dict.fromkeys(("--dport", "--dports", "--destination-port", "--destination-ports"), ("dport", _ports)),
    "--probability": ("probability", _probability),
    "--every": ("every", _whole),
    "--packet": ("packet", _whole),
    "--comment": ("comment", lambda text, _: text),
}
_OTHERS: dict[str, Callable[[_Reader], None]] = {
    **dict.fromkeys(("-m", "--match"), _Reader.match),
    **dict.fromkeys(("-j", "--jump"), _Reader.jump),
    **dict.fromkeys(("-t", "--table"), _Reader.table),
    **dict.fromkeys(("-w", "--wait", "-W", "--wait-interval"), _Reader.wait),
    "--mode": _Reader.mode,
    "--reject-with": _Reader.skip,
}
