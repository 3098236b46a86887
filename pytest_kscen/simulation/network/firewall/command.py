"""One call of `iptables`: its words, what they do to a machine's table, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.network.firewall.arguments import RefusedError, Request, request_of
from pytest_kscen.simulation.network.firewall.listing import listing, rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.simulation.network.firewall.tables import Tables

VERSION = "iptables v1.8.9 (nf_tables)"
FORBIDDEN = f"{VERSION}: Could not fetch rule set generation id: Permission denied (you must be root)\n"
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
        return Outcome("", f"{VERSION}: {error}\nTry `iptables -h' or 'iptables --help' for more information.\n", 2)
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
    done = tables.insert(request.chain, request.rule, 1 if request.number is None else request.number)
    return Outcome() if done else Outcome("", TOO_BIG.format("insertion"), 1)


def _delete(tables: Tables, request: Request) -> Outcome:
    number = tables.number_of(request.chain, request.rule) if request.number is None else request.number
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
