"""How often a node may be tried again, and after how long: a template may say so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.durations import seconds_of_text

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.trees import Node, Tree

LONGEST = 24 * 3600.0
"""Seconds that nobody waits longer than."""


@dataclass(frozen=True, slots=True)
class Retry:
    """What a template says of it."""

    limit: int = 0
    first: float = 0.0
    """Seconds before the second attempt."""
    factor: float = 1.0
    longest: float = LONGEST

    @classmethod
    def of(cls, body: Obj) -> Retry:
        """ValueError if it cannot be kept to."""
        backoff = body.get("backoff") or {}
        factor = backoff.get("factor", 1)
        if not (isinstance(factor, int | float) and 1 <= factor < math.inf):
            raise ValueError(f"the back-off's factor is {factor!r}: it has to be a number, 1 or more")
        first = seconds_of_text(backoff["duration"]) if "duration" in backoff else 0.0
        longest = seconds_of_text(backoff["maxDuration"]) if "maxDuration" in backoff else LONGEST
        return cls(int(body.get("limit", 0)), first, float(min(factor, LONGEST)), min(longest, LONGEST))

    def delay_before(self, attempt: int) -> float:
        """Seconds, counting from the end of the one before."""
        try:
            delay = self.first * self.factor ** (attempt - 2)
        except OverflowError:
            delay = self.longest
        return min(delay, self.longest)


def may_retry(tree: Tree, node: Node) -> bool:
    """Whether a node that fails by its own fault has another attempt: what is left of it, or below it, would be there twice."""
    is_left = not node.is_called_off and node.attempt <= node.template.retry.limit
    return is_left and not any(each.has_left for each in tree.below(node))
