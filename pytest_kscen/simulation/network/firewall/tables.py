"""One machine's table: its chains of rules, what they do to packets, and how many they have seen. All is lost with its power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.simulation.network.firewall.rule import Packet, Rule

CHAINS = ("INPUT", "FORWARD", "OUTPUT")
LOSING = ("DROP", "REJECT")


@dataclass(slots=True, eq=False)
class Entry:
    """A rule in its place."""

    rule: Rule
    packets: float = 0.0
    bytes: float = 0.0


class Tables:
    """Whoever changes it says so before and after: what was counted until then was counted by the old rules."""

    def __init__(self, before: Callable[[], None] = lambda: None, after: Callable[[], None] = lambda: None) -> None:
        self._before, self._after = before, after
        self._chains: dict[str, list[Entry]] = {chain: [] for chain in CHAINS}
        self._policies = dict.fromkeys(CHAINS, "ACCEPT")

    def __bool__(self) -> bool:
        """Whether it does anything at all."""
        return any(self._chains.values()) or "DROP" in self._policies.values()

    def chains(self) -> Iterator[tuple[str, str, list[Entry]]]:
        """Each with its policy and its rules, counted up to now."""
        self._before()
        for chain, entries in self._chains.items():
            yield chain, self._policies[chain], entries

    def has(self, chain: str) -> bool:
        return chain in self._chains

    # --- changes ---

    def append(self, chain: str, rule: Rule) -> None:
        self.insert(chain, rule, len(self._chains[chain]) + 1)

    def insert(self, chain: str, rule: Rule, number: int) -> bool:
        """Whether there is such a place."""
        if not 1 <= number <= len(self._chains[chain]) + 1:
            return False
        self._before()
        self._chains[chain].insert(number - 1, Entry(rule))
        self._after()
        return True

    def number_of(self, chain: str, rule: Rule) -> int:
        """The first rule of these words, counted from 1; 0 if there is none."""
        return next((number for number, entry in enumerate(self._chains[chain], 1) if entry.rule == rule), 0)

    def delete(self, chain: str, number: int) -> bool:
        """Whether there was such a rule."""
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
        """The machine has lost its power."""
        for chain in CHAINS:
            self._chains[chain].clear()
            self._policies[chain] = "ACCEPT"

    # --- packets ---

    def lost(self, chain: str, packet: Packet) -> float:
        """The share of such packets that does not get through."""
        left, lost = 1.0, 0.0
        for entry, share in self._taken(chain, packet):
            if entry.rule.target:
                left -= share
            if entry.rule.target in LOSING:
                lost += share
        return lost + left if self._policies[chain] == "DROP" else lost

    def count(self, chain: str, packet: Packet, packets: float, size: float) -> None:
        """So many packets have come by."""
        for entry, share in self._taken(chain, packet):
            entry.packets += packets * share
            entry.bytes += packets * share * size

    def _taken(self, chain: str, packet: Packet) -> Iterator[tuple[Entry, float]]:
        """The rules that see such packets, and the share that each takes of all."""
        left = 1.0
        for entry in self._chains[chain]:
            if left > 0 and entry.rule.matches(packet):
                share = left * entry.rule.chance
                yield entry, share
                left -= share if entry.rule.target else 0.0
