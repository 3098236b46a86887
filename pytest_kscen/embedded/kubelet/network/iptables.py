"""Simulated `iptables`: parse a call, apply it to a machine's filter table, and print the result.

Calls that the real program refuses are refused with its words. Called by the command in `hosts`.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.kubelet.network.firewall import (
    ANYWHERE,
    PROBABILITY_STEPS,
    AddressMatch,
    FirewallRule,
    NameMatch,
    PortMatch,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.kubelet.network.firewall import FilterTable, RuleEntry


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


class IptablesError(Exception): ...


@dataclass(slots=True)
class IptablesCommand:
    command: str = ""
    chain: str = ""
    number: int | None = None
    flags: str = ""
    policy: str = ""
    rule: FirewallRule = field(default_factory=FirewallRule)


def parse_command(arguments: list[str]) -> IptablesCommand:
    reader = _CommandParser(arguments)
    while reader.remaining:
        reader.parse_word()
    if not reader.call.command:
        raise IptablesError("no command specified")
    rule = reader.call.rule
    if (rule.sport or rule.dport) and (
        rule.protocol is None or rule.protocol.name not in {"tcp", "udp"}
    ):
        raise IptablesError(f'unknown option "{"--dport" if rule.dport else "--sport"}"')
    return reader.call


class _CommandParser:
    def __init__(self, arguments: list[str]) -> None:
        # Return the words with combined flags split: `-nvL` becomes `-n -v -L`.
        self.remaining = [
            part
            for word in arguments
            for part in (
                [f"-{letter}" for letter in word[1:]]
                if word[:1] == "-" and word[1:].isalpha() and word[1] != "-"
                else [word]
            )
        ]
        self.call = IptablesCommand()
        self._inverted = False

    def parse_word(self) -> None:
        word = self.remaining.pop(0)
        if word == "!":
            self._inverted = True
            return
        if word in COMMANDS:
            self._command(COMMANDS[word])
        elif word in FLAGS:
            self.call.flags += FLAGS[word]
        elif word in _OPTIONS:
            field_, read = _OPTIONS[word]
            self._set(**{field_: read(self._value(word), self._inverted)})
        elif word in _ACTIONS:
            _ACTIONS[word](self)
        else:
            raise IptablesError(f'unknown option "{word}"')
        self._inverted = False

    def match(self) -> None:
        name = self._value("-m")
        if name not in MATCHES:
            raise IptablesError(
                f"Couldn't load match `{name}':No such file or directory (simulated: "
                f"{', '.join(MATCHES)})"
            )
        self._set(**({"multiport": True} if name == "multiport" else {}))

    def mode(self) -> None:
        if (mode := self._value("--mode")) not in {"random", "nth"}:
            raise IptablesError(f"Bad mode `{mode}'")

    def jump(self) -> None:
        target = self._value("-j")
        if target not in TARGETS:
            raise IptablesError(
                f"Couldn't load target `{target}':No such file or directory (simulated: "
                f"{', '.join(TARGETS)})"
            )
        self._set(target=target)

    def table(self) -> None:
        if (table := self._value("-t")) != "filter":
            raise IptablesError(f"table {table} is not simulated (supported: filter)")

    def skip(self) -> None:
        self._value("--reject-with")

    def wait(self) -> None:
        if self.remaining and self.remaining[0].isdecimal():
            self.remaining.pop(0)

    def _value(self, option: str) -> str:
        if not self.remaining:
            raise IptablesError(f'option "{option}" requires an argument')
        return self.remaining.pop(0)

    def _command(self, command: str) -> None:
        if self.call.command:
            raise IptablesError(f"Cannot use -{command} with -{self.call.command}")
        self.call.command = command
        if self.remaining and not self.remaining[0].startswith(("-", "!")):
            self.call.chain = self.remaining.pop(0)
        elif command not in "LSFZV":
            raise IptablesError(f'option "-{command}" requires an argument')
        if command in "IDSL" and self.remaining and self.remaining[0].isdecimal():
            self.call.number = int(self.remaining.pop(0))
        if command == "P":
            self.call.policy = self._value("-P")

    def _set(self, **parts: Any) -> None:
        self.call.rule = dataclasses.replace(self.call.rule, **parts)


def _parse_network(text: str, inverted: bool) -> AddressMatch:  # noqa: FBT001
    try:
        return AddressMatch(ipaddress.IPv4Network(text, strict=False), inverted)
    except ValueError:
        raise IptablesError(f"host/network `{text}' not found") from None


def _parse_ports(text: str, inverted: bool) -> PortMatch:  # noqa: FBT001
    ranges: list[tuple[int, int]] = []
    for part in text.split(","):
        first, colon, last = part.partition(":")
        ends = (first or "0", last or str(TOP_PORT)) if colon else (first, first)
        if not all(end.isdecimal() and int(end) <= TOP_PORT for end in ends):
            raise IptablesError(f"invalid port/service `{part}' specified")
        ranges.append((int(ends[0]), int(ends[1])))
    return PortMatch(tuple(ranges), inverted)


def _parse_protocol(text: str, inverted: bool) -> NameMatch | None:  # noqa: FBT001
    if text == "all":
        return None
    if text.lower() not in PROTOCOLS:
        raise IptablesError(f'unknown protocol "{text}" specified')
    return NameMatch(PROTOCOLS[text.lower()], inverted)


def _parse_probability(text: str, _: bool) -> int:  # noqa: FBT001
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise IptablesError('statistic: value for "--probability" is out of range 0.00 to 1.00')
    return int(share * PROBABILITY_STEPS + 0.5)


def _parse_integer(text: str, _: bool) -> int:  # noqa: FBT001
    if not text.isdecimal():
        raise IptablesError(f'invalid value "{text}"')
    return int(text)


_OPTIONS: dict[str, tuple[str, Callable[[str, bool], Any]]] = {
    **dict.fromkeys(("-s", "--source", "--src"), ("source", _parse_network)),
    **dict.fromkeys(("-d", "--destination", "--dst"), ("destination", _parse_network)),
    **dict.fromkeys(("-p", "--protocol", "--proto"), ("protocol", _parse_protocol)),
    **dict.fromkeys(("-i", "--in-interface"), ("interface", NameMatch)),
    **dict.fromkeys(("-o", "--out-interface"), ("out_interface", NameMatch)),
    **dict.fromkeys(
        ("--sport", "--sports", "--source-port", "--source-ports"), ("sport", _parse_ports)
    ),
    **dict.fromkeys(
        ("--dport", "--dports", "--destination-port", "--destination-ports"),
        ("dport", _parse_ports),
    ),
    "--probability": ("probability", _parse_probability),
    "--every": ("every", _parse_integer),
    "--packet": ("packet", _parse_integer),
    "--comment": ("comment", lambda text, _: text),
}
_ACTIONS: dict[str, Callable[[_CommandParser], None]] = {
    **dict.fromkeys(("-m", "--match"), _CommandParser.match),
    **dict.fromkeys(("-j", "--jump"), _CommandParser.jump),
    **dict.fromkeys(("-t", "--table"), _CommandParser.table),
    **dict.fromkeys(("-w", "--wait", "-W", "--wait-interval"), _CommandParser.wait),
    "--mode": _CommandParser.mode,
    "--reject-with": _CommandParser.skip,
}


THOUSAND, UNITS = 1000, "KMGT"
MAX_PLAIN_COUNT = 99999  # larger counters are printed with a unit


def format_listing(tables: FilterTable, wanted: str, flags: str) -> str:
    header = "num  " if "0" in flags else ""
    if "v" in flags:
        header += "    pkts      bytes " if "x" in flags else " pkts bytes "
        header += "target     prot opt in     out     source               destination         "
    else:
        header += "target     prot opt source               destination         "
    blocks = []
    for chain, policy, entries in tables.chains():
        if wanted in {"", chain}:
            counts = " 0 packets, 0 bytes" if "v" in flags else ""
            rows = [_format_row(number, entry, flags) for number, entry in enumerate(entries, 1)]
            blocks.append(
                "\n".join([f"Chain {chain} (policy {policy}{counts})", header, *rows]) + "\n"
            )
    return "\n".join(blocks)


def format_rules(tables: FilterTable, wanted: str) -> str:
    """Return the output of `iptables -S`: the commands that would create the rules."""
    chains = [one for one in tables.chains() if wanted in {"", one[0]}]
    policies = [f"-P {chain} {policy}\n" for chain, policy, _ in chains]
    return "".join(
        [
            *policies,
            *(
                f"-A {chain} {entry.rule.command()}\n"
                for chain, _, entries in chains
                for entry in entries
            ),
        ]
    )


def _format_row(number: int, entry: RuleEntry, flags: str) -> str:
    rule = entry.rule
    row = f"{number:<4} " if "0" in flags else ""
    if "v" in flags:
        packets, bytes_ = int(entry.packets), int(entry.bytes)
        row += (
            f"{packets:>8} {bytes_:>8} "
            if "x" in flags
            else f"{_abbreviate(packets):>5} {_abbreviate(bytes_):>5} "
        )
    row += f"{rule.target:<10} {_format_name(rule.protocol, 'all'):<4} --  "
    if "v" in flags:
        row += (
            f"{_format_name(rule.interface, '*'):<6} {_format_name(rule.out_interface, '*'):<6}  "
        )
    return row + (
        f"{_format_network(rule.source, flags):<20} "
        f"{_format_network(rule.destination, flags):<20} {rule.description()}"
    ).rstrip(" ")


def _abbreviate(count: int) -> str:
    unit = ""
    for larger in UNITS:
        if count <= MAX_PLAIN_COUNT:
            break
        count, unit = (count + THOUSAND // 2) // THOUSAND, larger
    return f"{count}{unit}"


def _format_name(name: NameMatch | None, otherwise: str) -> str:
    return otherwise if name is None else f"{'!' if name.inverted else ''}{name.name}"


def _format_network(network: AddressMatch, flags: str) -> str:
    if network.network == ANYWHERE:
        return "0.0.0.0/0" if "n" in flags else "anywhere"
    return f"{'!' if network.inverted else ''}{str(network).removesuffix('/32')}"


VERSION = "iptables v1.8.9 (nf_tables)"
FORBIDDEN = (
    f"{VERSION}: Could not fetch rule set generation id: Permission denied (you must be root)\n"
)
NO_CHAIN = "iptables: No chain/target/match by that name.\n"
NO_RULE = "iptables: Bad rule (does a matching rule exist in that chain?).\n"
TOO_BIG = "iptables: Index of {} too big.\n"


class IptablesResult(NamedTuple):
    text: str = ""
    stderr: str = ""
    code: int = 0


def run_iptables(tables: FilterTable | None, arguments: list[str]) -> IptablesResult:
    """Execute one call. `tables` is None for callers that may not change any table."""
    try:
        call = parse_command(arguments)
    except IptablesError as error:
        return IptablesResult(
            "",
            f"{VERSION}: {error}\nTry `iptables -h' or 'iptables --help' for more information.\n",
            2,
        )
    if call.command == "V":
        return IptablesResult(VERSION + "\n")
    if tables is None:
        return IptablesResult("", FORBIDDEN, 4)
    if call.chain and not tables.has_chain(call.chain):
        return IptablesResult("", NO_CHAIN, 1)
    return _COMMANDS[call.command](tables, call)


def _always_done(
    change: Callable[[FilterTable, IptablesCommand], None],
) -> Callable[[FilterTable, IptablesCommand], IptablesResult]:
    def run(tables: FilterTable, call: IptablesCommand) -> IptablesResult:
        change(tables, call)
        return IptablesResult()

    return run


def _delete(tables: FilterTable, call: IptablesCommand) -> IptablesResult:
    number = tables.find(call.chain, call.rule) if call.number is None else call.number
    if tables.delete(call.chain, number):
        return IptablesResult()
    return IptablesResult("", NO_RULE if call.number is None else TOO_BIG.format("deletion"), 1)


def _policy(tables: FilterTable, call: IptablesCommand) -> IptablesResult:
    if call.policy not in {"ACCEPT", "DROP"}:
        return IptablesResult(
            "", "iptables: Bad policy name. Run `dmesg' for more information.\n", 1
        )
    tables.set_policy(call.chain, call.policy)
    return IptablesResult()


_COMMANDS: dict[str, Callable[[FilterTable, IptablesCommand], IptablesResult]] = {
    "A": _always_done(lambda tables, call: tables.append(call.chain, call.rule)),
    "I": lambda tables, call: (
        IptablesResult()
        if tables.insert(call.chain, call.rule, 1 if call.number is None else call.number)
        else IptablesResult("", TOO_BIG.format("insertion"), 1)
    ),
    "D": _delete,
    "C": lambda tables, call: (
        IptablesResult() if tables.find(call.chain, call.rule) else IptablesResult("", NO_RULE, 1)
    ),
    "L": lambda tables, call: IptablesResult(format_listing(tables, call.chain, call.flags)),
    "S": lambda tables, call: IptablesResult(format_rules(tables, call.chain)),
    "F": _always_done(lambda tables, call: tables.flush(call.chain)),
    "Z": _always_done(lambda tables, call: tables.zero(call.chain)),
    "P": _policy,
}
