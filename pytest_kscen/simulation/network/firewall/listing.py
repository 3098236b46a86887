"""What `iptables -L` and `-S` print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.network.firewall.rule import ANYWHERE

if TYPE_CHECKING:
    from pytest_kscen.simulation.network.firewall.rule import Name, Network
    from pytest_kscen.simulation.network.firewall.tables import Entry, Tables

THOUSAND, UNITS = 1000, "KMGT"
LARGEST = 99999  # that is printed as it is


def listing(tables: Tables, wanted: str, flags: str) -> str:
    """With -n, -v, -x and --line-numbers."""
    blocks = []
    for chain, policy, entries in tables.chains():
        if wanted in {"", chain}:
            counts = " 0 packets, 0 bytes" if "v" in flags else ""
            rows = [_row(number, entry, flags) for number, entry in enumerate(entries, 1)]
            blocks.append("\n".join([f"Chain {chain} (policy {policy}{counts})", _head(flags), *rows]) + "\n")
    return "\n".join(blocks)


def rules(tables: Tables, wanted: str) -> str:
    """As words that would make them."""
    chains = [one for one in tables.chains() if wanted in {"", one[0]}]
    policies = [f"-P {chain} {policy}\n" for chain, policy, _ in chains]
    return "".join([*policies, *(f"-A {chain} {entry.rule.words()}\n" for chain, _, entries in chains for entry in entries)])


def _head(flags: str) -> str:
    number = "num  " if "0" in flags else ""
    if "v" not in flags:
        return f"{number}target     prot opt source               destination         "
    counts = "    pkts      bytes " if "x" in flags else " pkts bytes "
    return f"{number}{counts}target     prot opt in     out     source               destination         "


def _row(number: int, entry: Entry, flags: str) -> str:
    rule = entry.rule
    row = f"{number:<4} " if "0" in flags else ""
    if "v" in flags:
        row += _counts(entry, flags)
    row += f"{rule.target:<10} {_name(rule.protocol, 'all'):<4} --  "
    if "v" in flags:
        row += f"{_name(rule.interface, '*'):<6} {_name(rule.out_interface, '*'):<6}  "
    return row + f"{_network(rule.source, flags):<20} {_network(rule.destination, flags):<20} {rule.remarks()}".rstrip(" ")


def _counts(entry: Entry, flags: str) -> str:
    packets, bytes_ = int(entry.packets), int(entry.bytes)
    return f"{packets:>8} {bytes_:>8} " if "x" in flags else f"{_short(packets):>5} {_short(bytes_):>5} "


def _short(count: int) -> str:
    unit = ""
    for larger in UNITS:
        if count <= LARGEST:
            break
        count, unit = (count + THOUSAND // 2) // THOUSAND, larger
    return f"{count}{unit}"


def _name(name: Name | None, otherwise: str) -> str:
    return otherwise if name is None else f"{'!' if name.turned else ''}{name.name}"


def _network(network: Network, flags: str) -> str:
    if network.network == ANYWHERE:
        return "0.0.0.0/0" if "n" in flags else "anywhere"
    return f"{'!' if network.turned else ''}{str(network).removesuffix('/32')}"
