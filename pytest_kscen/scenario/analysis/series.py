"""A value for each major step."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Series:
    """The steps in which it was told, in their order. What has an end is not there any more from that step on."""

    by_step: dict[int, float]
    ended: int | None = None

    def at(self, *, step: int) -> float:
        """At the end of this step; a step in which nothing happened is as the one before."""
        if self.ended is not None and step >= self.ended:
            raise LookupError(f"nothing is known of step {step}: it had gone by the end of step {self.ended}")
        place = bisect.bisect_right(self._steps, step)
        if not place:
            raise LookupError(f"nothing is known of step {step}: the first is {min(self._steps, default='none')}")
        return self.by_step[self._steps[place - 1]]

    @cached_property
    def _steps(self) -> list[int]:
        return list(self.by_step)

    @property
    def last(self) -> float:
        return self.by_step[self._steps[-1]] if self._steps else 0.0

    @property
    def most(self) -> float:
        return max(self.by_step.values(), default=0.0)

    @property
    def mean(self) -> float:
        """Of the steps that are told."""
        return sum(self.by_step.values()) / len(self.by_step) if self.by_step else 0.0


def filled(series: Series, steps: Iterable[int]) -> list[float | None]:
    """Its value at each of these steps; None where it has none."""
    found: list[float | None] = []
    for step in steps:
        try:
            found.append(series.at(step=step))
        except LookupError:
            found.append(None)
    return found
