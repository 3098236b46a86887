"""By which rule NodeResourcesFit prefers nodes: the emptiest, the fullest, or a shape of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_kscen.simulation.scheduler.plugins.scaling import BEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.table import Scores
    from pytest_kscen.simulation.scheduler.plugins.shares import Share, ShareMany

STEP = 10  # a shape's scores go from 0 to 10


class Strategy(Protocol):
    def one(self, shares: Sequence[Share]) -> int: ...

    def many(self, shares: Sequence[ShareMany]) -> Scores: ...


class LeastAllocated:
    """The more is left, the better."""

    def one(self, shares: Sequence[Share]) -> int:
        total = weights = 0
        for taken, asked, capacity, weight in shares:
            left = capacity - taken - asked
            total += weight * (left * BEST // capacity if left > 0 else 0)
            weights += weight
        return total // weights if weights else 0

    def many(self, shares: Sequence[ShareMany]) -> Scores:
        import numpy as np

        return _averaged(
            [(np.maximum(capacity - taken - asked, 0) * BEST, capacity, weight) for taken, asked, capacity, weight in shares]
        )


class MostAllocated:
    """The less is left, the better."""

    def one(self, shares: Sequence[Share]) -> int:
        total = weights = 0
        for taken, asked, capacity, weight in shares:
            total += weight * (min(taken + asked, capacity) * BEST // capacity)
            weights += weight
        return total // weights if weights else 0

    def many(self, shares: Sequence[ShareMany]) -> Scores:
        import numpy as np

        return _averaged(
            [(np.minimum(taken + asked, capacity) * BEST, capacity, weight) for taken, asked, capacity, weight in shares]
        )


def _averaged(parts: Sequence[tuple[Scores, Scores, int]]) -> Scores:
    """Numerators over capacities, weighed; resources that a node has none of do not count there."""
    import numpy as np

    total = weights = np.zeros(1, np.int64)
    for numerator, capacity, weight in parts:
        there = capacity > 0
        total = total + weight * np.where(there, numerator // np.maximum(capacity, 1), 0)
        weights = weights + weight * there
    return np.where(weights > 0, total // np.maximum(weights, 1), 0)


class RequestedToCapacityRatio:
    """A line through given points: how good which utilisation is."""

    def __init__(self, points: Sequence[Obj]) -> None:
        shape = [(point["utilization"], point["score"] * (BEST // STEP)) for point in points]
        self._scores = [_on_line(shape, utilisation) for utilisation in range(101)]

    def one(self, shares: Sequence[Share]) -> int:
        total = weights = 0
        for taken, asked, capacity, weight in shares:
            wanted = taken + asked
            score = self._scores[100 if wanted > capacity else wanted * 100 // capacity]
            if score > 0:
                total += score * weight
                weights += weight
        return int(total / weights + 0.5) if weights else 0

    def many(self, shares: Sequence[ShareMany]) -> Scores:
        import numpy as np

        scores = np.array(self._scores, np.int64)
        total = weights = np.zeros(1, np.int64)
        for taken, asked, capacity, weight in shares:
            utilisation = np.minimum(taken + asked, capacity) * 100 // np.maximum(capacity, 1)
            score = np.where(capacity > 0, scores[utilisation], 0)
            total = total + weight * score
            weights = weights + weight * (score > 0)
        return np.where(weights > 0, (total / np.maximum(weights, 1) + 0.5).astype(np.int64), 0)


def _on_line(shape: Sequence[tuple[int, int]], utilisation: int) -> int:
    before: tuple[int, int] | None = None
    for here, score in shape:
        if utilisation <= here:
            if before is None:
                return score
            rise = (score - before[1]) * (utilisation - before[0])
            run = here - before[0]
            return before[1] + (rise // run if rise >= 0 else -(-rise // run))
        before = (here, score)
    return shape[-1][1]


def strategy_of(settings: Obj) -> Strategy:
    """By the plugin's `scoringStrategy`."""
    match settings.get("type", "LeastAllocated"):
        case "MostAllocated":
            return MostAllocated()
        case "RequestedToCapacityRatio":
            return RequestedToCapacityRatio((settings.get("requestedToCapacityRatio") or {}).get("shape") or ())
        case _:
            return LeastAllocated()
