"""How incidents with an effect were recovered from: a time says little without those that have none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.checks.incidents import IncidentRecord


@dataclass(frozen=True, slots=True)
class Recoveries:
    """Each incident that had an effect is in one of these."""

    times: list[float]
    overtaken: int
    unrecovered: int
    gone: int
    mingled: int
    unseen: int
    """Nobody waited for it, or it was on to the end."""

    @classmethod
    def of(cls, incidents: Iterable[IncidentRecord]) -> Recoveries:
        effective = [one for one in incidents if one.had_effect]
        times = [one.recovery for one in effective if one.recovery is not None]
        overtaken = sum(bool(one.overtaken) for one in effective)
        unrecovered = sum(bool(one.unrecovered) for one in effective)
        gone = sum(bool(one.gone) for one in effective)
        mingled = sum(bool(one.mingled) for one in effective)
        unseen = len(effective) - len(times) - overtaken - unrecovered - gone - mingled
        return cls(times, overtaken, unrecovered, gone, mingled, unseen)

    @property
    def longest(self) -> float:
        return max(self.times)

    def without_a_time(self) -> Iterator[str]:
        counts = {
            "overtaken": self.overtaken,
            "not recovered": self.unrecovered,
            "shook what went before it was well": self.gone,
            "mingled with what others left": self.mingled,
            "not waited for": self.unseen,
        }
        yield from (f"{count} {word}" for word, count in counts.items() if count)
