"""Nodes on which the pod makes the use of the resources more even are better."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import SKIP, Status
from pytest_kscen.simulation.scheduler.plugins.scaling import BEST
from pytest_kscen.simulation.scheduler.plugins.shares import shares, shares_many, wanted, weighed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.events import Interest
    from pytest_kscen.simulation.scheduler.framework.handle import Handle
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.table import Rows, Scores, Table
    from pytest_kscen.simulation.scheduler.plugins.shares import ShareMany

HALF = BEST // 2


class NodeResourcesBalancedAllocation(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = weighed(args.get("resources"))

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """A pod that asks for nothing changes no balance."""
        state[self.name] = wanted(pod, self._resources, assumed=False)
        return None if any(one.asked for one in state[self.name]) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        before, after = [], []
        for taken, asked, capacity, _ in shares(node, state[self.name]):
            before.append(taken / capacity if taken < capacity else 1.0)
            after.append((taken + asked) / capacity if taken + asked < capacity else 1.0)
        return HALF + (HALF + _evenness(after) - _evenness(before)) // 2

    def score_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Scores:
        found = shares_many(table, rows, state[self.name])
        return HALF + (HALF + _evenness_many(found, rows, with_pod=True) - _evenness_many(found, rows, with_pod=False)) // 2

    def events(self) -> Sequence[Interest]:
        return ()


def _evenness(fractions: list[float]) -> int:
    """100 less the standard deviation, cut to a whole number."""
    deviation = 0.0
    if len(fractions) == 2:  # noqa: PLR2004  # the usual two resources
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:  # noqa: PLR2004
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((one - mean) * (one - mean) for one in fractions) / len(fractions))
    return int((1 - deviation) * float(BEST))


def _evenness_many(found: Sequence[ShareMany], rows: Rows, *, with_pod: bool) -> Scores:
    import numpy as np

    fractions, there = [], []
    for taken, asked, capacity, _ in found:
        total = taken + asked if with_pod else taken
        fractions.append(np.minimum(total / np.maximum(capacity, 1), 1.0))
        there.append(capacity > 0)
    if len(found) == 2 and there[0].all() and there[1].all():  # noqa: PLR2004
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        deviation = _deviation(fractions, there, len(rows))
    scores: Scores = ((1 - deviation) * float(BEST)).astype(np.int64)
    return scores


def _deviation(fractions: list[Any], there: list[Any], size: int) -> Any:
    """Where nodes lack one resource or another, or there are more than two."""
    import numpy as np

    count = sum(there, np.zeros(size, np.int64))
    total = sum((np.where(here, one, 0.0) for one, here in zip(fractions, there, strict=True)), np.zeros(size))
    mean = total / np.maximum(count, 1)
    squares = np.zeros(size)
    high, low = np.zeros(size), np.ones(size)
    for one, here in zip(fractions, there, strict=True):
        squares = squares + np.where(here, (one - mean) * (one - mean), 0.0)
        high, low = np.where(here, np.maximum(high, one), high), np.where(here, np.minimum(low, one), low)
    many = np.sqrt(squares / np.maximum(count, 1))
    return np.where(count > 2, many, np.where(count == 2, (high - low) / 2, 0.0))  # noqa: PLR2004
