"""How fast nodes may be emptied: slower, or not at all, where many have fallen silent, for then the network is to blame."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

RATE, REDUCED_RATE = 0.1, 0.01  # nodes per second
LARGE = 50  # nodes; a smaller zone that is partially disrupted is left alone
UNHEALTHY, AT_LEAST = 0.55, 3  # of its nodes, and so many


class State(Enum):
    """A zone's."""

    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_of(node: Obj) -> str:
    labels = node["metadata"].get("labels") or {}
    return f"{labels.get('topology.kubernetes.io/region', '')}:{labels.get('topology.kubernetes.io/zone', '')}"


def state_of(ready: int, unready: int) -> State:
    if not ready and unready:
        return State.FULL
    if unready >= AT_LEAST and unready / (ready + unready) >= UNHEALTHY:
        return State.PARTIAL
    return State.NORMAL


def rate_of(state: State, nodes: int, *, all_full: bool) -> float:
    if state is State.FULL:
        return 0.0 if all_full else RATE
    if state is State.PARTIAL:
        return REDUCED_RATE if nodes > LARGE else 0.0
    return RATE


@dataclass(slots=True)
class Limiter:
    """One token at most."""

    rate: float = RATE
    tokens: float = 1.0
    since: float = 0.0

    def set(self, rate: float, now: float) -> None:
        """A new rate begins with a token, unless the old one had none left."""
        if rate != self.rate:
            had_one = self.rate <= 0 or self._fill(now) >= 1
            self.rate, self.tokens, self.since = rate, 1.0 if had_one else 0.0, now

    def take(self, now: float) -> bool:
        if self.rate <= 0 or self._fill(now) < 1:
            return False
        self.tokens -= 1
        return True

    def _fill(self, now: float) -> float:
        self.tokens = min(1.0, self.tokens + (now - self.since) * self.rate)
        self.since = now
        return self.tokens
