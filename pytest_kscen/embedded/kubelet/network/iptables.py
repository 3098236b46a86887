"""One call of `iptables`: its words, what they do to a machine's table, and what it says."""

from __future__ import annotations

import dataclasses
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.kubelet.network.firewall import (
    ANYWHERE,
    GRAINS,
    AddressRange,
    Name,
    Ports,
    Rule,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.kubelet.network.firewall import Entry, Tables


COMMANDS = {
    "-A": "A", "--append": "A", "-I": "I", "--insert": "I", "-D": "D", "--delete": "D", "-C": "C",
    "--check": "C",
    "-L": "L", "--list": "L", "-S": "S", "--list-rules": "S", "-F": "F", "--flush": "F", "-Z": "Z",
    "--zero": "Z",
    "-P": "P", "--policy": "P", "-V": "V", "--version": "V",
}  # fmt: skip
FLAGS = {
    "-n": "n",
    "--numeric": "n",
    "-v": "v",
    "--verbose": "v",
    "-x": "x",
    "--exact": "x",
    "--line-numbers": "0",
}
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
    if (rule.sport or rule.dport) and (
        rule.protocol is None or rule.protocol.name not in {"tcp", "udp"}
    ):
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
            raise RefusedError(
                f"Couldn't load match `{name}':No such file or directory (simulated are "
                f"{', '.join(MATCHES)})"
            )
        self._set(**({"multiport": True} if name == "multiport" else {}))

    def mode(self) -> None:
        if (mode := self._value("--mode")) not in {"random", "nth"}:
            raise RefusedError(f"Bad mode `{mode}'")

    def jump(self) -> None:
        target = self._value("-j")
        if target not in TARGETS:
            raise RefusedError(
                f"Couldn't load target `{target}':No such file or directory (simulated "
                f"are {', '.join(TARGETS)})"
            )
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
        for part in (
            [f"-{letter}" for letter in word[1:]]
            if word[:1] == "-" and word[1:].isalpha() and word[1] != "-"
            else [word]
        )
    ]


# what stands before the option
def _network(text: str, turned: bool) -> AddressRange:  # noqa: FBT001
    try:
        return AddressRange(ipaddress.IPv4Network(text, strict=False), turned)
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
    **dict.fromkeys(
        ("--dport", "--dports", "--destination-port", "--destination-ports"), ("dport", _ports)
    ),
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


THOUSAND, UNITS = 1000, "KMGT"
LARGEST = 99999  # that is printed as it is


def listing(tables: Tables, wanted: str, flags: str) -> str:
    """With -n, -v, -x and --line-numbers."""
    blocks = []
    for chain, policy, entries in tables.chains():
        if wanted in {"", chain}:
            counts = " 0 packets, 0 bytes" if "v" in flags else ""
            rows = [_row(number, entry, flags) for number, entry in enumerate(entries, 1)]
            blocks.append(
                "\n".join([f"Chain {chain} (policy {policy}{counts})", _head(flags), *rows]) + "\n"
            )
    return "\n".join(blocks)


def rules(tables: Tables, wanted: str) -> str:
    """As words that would make them."""
    chains = [one for one in tables.chains() if wanted in {"", one[0]}]
    policies = [f"-P {chain} {policy}\n" for chain, policy, _ in chains]
    return "".join(
        [
            *policies,
            *(
                f"-A {chain} {entry.rule.words()}\n"
                for chain, _, entries in chains
                for entry in entries
            ),
        ]
    )


def _head(flags: str) -> str:
    number = "num  " if "0" in flags else ""
    if "v" not in flags:
        return f"{number}target     prot opt source               destination         "
    counts = "    pkts      bytes " if "x" in flags else " pkts bytes "
    return (
        f"{number}{counts}target     prot opt in     out     source               destination "
        "        "
    )


def _row(number: int, entry: Entry, flags: str) -> str:
    rule = entry.rule
    row = f"{number:<4} " if "0" in flags else ""
    if "v" in flags:
        row += _counts(entry, flags)
    row += f"{rule.target:<10} {_name(rule.protocol, 'all'):<4} --  "
    if "v" in flags:
        row += f"{_name(rule.interface, '*'):<6} {_name(rule.out_interface, '*'):<6}  "
    return row + (
        f"{_shown_network(rule.source, flags):<20} "
        f"{_shown_network(rule.destination, flags):<20} {rule.remarks()}"
    ).rstrip(" ")


def _counts(entry: Entry, flags: str) -> str:
    packets, bytes_ = int(entry.packets), int(entry.bytes)
    return (
        f"{packets:>8} {bytes_:>8} "
        if "x" in flags
        else f"{_short(packets):>5} {_short(bytes_):>5} "
    )


def _short(count: int) -> str:
    unit = ""
    for larger in UNITS:
        if count <= LARGEST:
            break
        count, unit = (count + THOUSAND // 2) // THOUSAND, larger
    return f"{count}{unit}"


def _name(name: Name | None, otherwise: str) -> str:
    return otherwise if name is None else f"{'!' if name.turned else ''}{name.name}"


def _shown_network(network: AddressRange, flags: str) -> str:
    if network.network == ANYWHERE:
        return "0.0.0.0/0" if "n" in flags else "anywhere"
    return f"{'!' if network.turned else ''}{str(network).removesuffix('/32')}"


VERSION = "iptables v1.8.9 (nf_tables)"
FORBIDDEN = (
    f"{VERSION}: Could not fetch rule set generation id: Permission denied (you must be root)\n"
)
NO_CHAIN = "iptables: No chain/target/match by that name.\n"
NO_RULE = "iptables: Bad rule (does a matching rule exist in that chain?).\n"
TOO_BIG = "iptables: Index of {} too big.\n"


class Outcome(NamedTuple):
    """What it prints, what it complains of, and its exit code."""

    text: str = ""
    complaint: str = ""
    code: int = 0


def run(tables: Tables | None, words: list[str]) -> Outcome:
    """Without a table, the caller may not touch any."""
    try:
        request = request_of(words)
    except RefusedError as error:
        return Outcome(
            "",
            f"{VERSION}: {error}\nTry `iptables -h' or 'iptables --help' for more information.\n",
            2,
        )
    if request.command == "V":
        return Outcome(VERSION + "\n")
    if tables is None:
        return Outcome("", FORBIDDEN, 4)
    if request.chain and not tables.has(request.chain):
        return Outcome("", NO_CHAIN, 1)
    return _COMMANDS[request.command](tables, request)


def _append(tables: Tables, request: Request) -> Outcome:
    tables.append(request.chain, request.rule)
    return Outcome()


def _insert(tables: Tables, request: Request) -> Outcome:
    done = tables.insert(
        request.chain, request.rule, 1 if request.number is None else request.number
    )
    return Outcome() if done else Outcome("", TOO_BIG.format("insertion"), 1)


def _delete(tables: Tables, request: Request) -> Outcome:
    number = (
        tables.number_of(request.chain, request.rule) if request.number is None else request.number
    )
    if tables.delete(request.chain, number):
        return Outcome()
    return Outcome("", NO_RULE if request.number is None else TOO_BIG.format("deletion"), 1)


def _check(tables: Tables, request: Request) -> Outcome:
    return Outcome() if tables.number_of(request.chain, request.rule) else Outcome("", NO_RULE, 1)


def _list(tables: Tables, request: Request) -> Outcome:
    return Outcome(listing(tables, request.chain, request.flags))


def _rules(tables: Tables, request: Request) -> Outcome:
    return Outcome(rules(tables, request.chain))


def _flush(tables: Tables, request: Request) -> Outcome:
    tables.flush(request.chain)
    return Outcome()


def _zero(tables: Tables, request: Request) -> Outcome:
    tables.zero(request.chain)
    return Outcome()


def _policy(tables: Tables, request: Request) -> Outcome:
    if request.policy not in {"ACCEPT", "DROP"}:
        return Outcome("", "iptables: Bad policy name. Run `dmesg' for more information.\n", 1)
    tables.set_policy(request.chain, request.policy)
    return Outcome()


_COMMANDS: dict[str, Callable[[Tables, Request], Outcome]] = {
    "A": _append,
    "I": _insert,
    "D": _delete,
    "C": _check,
    "L": _list,
    "S": _rules,
    "F": _flush,
    "Z": _zero,
    "P": _policy,
}
