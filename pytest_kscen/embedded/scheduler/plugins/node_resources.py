"""Plugins NodeResourcesFit and NodeResourcesBalancedAllocation.

Fit filters by requests and scores by a strategy; BalancedAllocation prefers nodes whose resources
are used evenly.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kscen.embedded.pod_resources import allocatable_of, demand_of
from pytest_kscen.embedded.scheduler.framework.events import NODE, POD, Action, Interest, is_placed
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import SKIP, Code, Status
from pytest_kscen.embedded.scheduler.plugins.score_formulas import (
    MAX_SCORE,
    NATIVE_RESOURCES,
    resource_shares_many,
    resource_weights,
)
from pytest_kscen.embedded.scheduler.plugins.score_formulas import resource_shares as shares
from pytest_kscen.embedded.scheduler.plugins.score_formulas import scored_requests as wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Mask, NodeTable, Rows, Scores
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.embedded.scheduler.plugins.score_formulas import (
        ResourceShare,
        ResourceShareColumns,
    )
    from pytest_kscen.objects.resources import Obj


MAX_SHAPE_SCORE = 10  # a shape's scores go from 0 to 10


class ScoringStrategy(Protocol):
    """Scoring strategy of NodeResourcesFit: the score of one node, or of many as columns."""

    def one(self, shares: Sequence[ResourceShare]) -> int: ...

    def many(self, shares: Sequence[ResourceShareColumns]) -> Scores: ...


class LeastAllocated:
    """Strategy that prefers nodes with more unrequested capacity: the weighted mean of the free
    shares, from 0 to 100.
    """

    def one(self, shares: Sequence[ResourceShare]) -> int:
        total = weights = 0
        for taken, requested, capacity, weight in shares:
            left = capacity - taken - requested
            total += weight * (left * MAX_SCORE // capacity if left > 0 else 0)
            weights += weight
        return total // weights if weights else 0

    def many(self, shares: Sequence[ResourceShareColumns]) -> Scores:
        import numpy as np

        return _weighted_average(
            [
                (np.maximum(capacity - taken - requested, 0) * MAX_SCORE, capacity, weight)
                for taken, requested, capacity, weight in shares
            ]
        )


class MostAllocated:
    """Strategy that prefers nodes with less unrequested capacity: the weighted mean of the
    requested shares, from 0 to 100.
    """

    def one(self, shares: Sequence[ResourceShare]) -> int:
        total = weights = 0
        for taken, requested, capacity, weight in shares:
            total += weight * (min(taken + requested, capacity) * MAX_SCORE // capacity)
            weights += weight
        return total // weights if weights else 0

    def many(self, shares: Sequence[ResourceShareColumns]) -> Scores:
        import numpy as np

        return _weighted_average(
            [
                (np.minimum(taken + requested, capacity) * MAX_SCORE, capacity, weight)
                for taken, requested, capacity, weight in shares
            ]
        )


def _weighted_average(parts: Sequence[tuple[Scores, Scores, int]]) -> Scores:
    """Return weighted averages of numerator over capacity; resources that a node has none of are
    left out.
    """
    import numpy as np

    total = weights = np.zeros(1, np.int64)
    for numerator, capacity, weight in parts:
        present = capacity > 0
        total = total + weight * np.where(present, numerator // np.maximum(capacity, 1), 0)
        weights = weights + weight * present
    return np.where(weights > 0, total // np.maximum(weights, 1), 0)


class RequestedToCapacityRatio:
    """Strategy by a user's shape: a line through points of utilization (percent) and score."""

    def __init__(self, points: Sequence[Obj]) -> None:
        shape = [
            (point["utilization"], point["score"] * (MAX_SCORE // MAX_SHAPE_SCORE))
            for point in points
        ]
        self._scores = [_interpolate(shape, utilisation) for utilisation in range(101)]

    def one(self, shares: Sequence[ResourceShare]) -> int:
        total = weights = 0
        for taken, requested, capacity, weight in shares:
            wanted = taken + requested
            score = self._scores[100 if wanted > capacity else wanted * 100 // capacity]
            if score > 0:
                total += score * weight
                weights += weight
        return int(total / weights + 0.5) if weights else 0

    def many(self, shares: Sequence[ResourceShareColumns]) -> Scores:
        import numpy as np

        scores = np.array(self._scores, np.int64)
        total = weights = np.zeros(1, np.int64)
        for taken, requested, capacity, weight in shares:
            utilisation = np.minimum(taken + requested, capacity) * 100 // np.maximum(capacity, 1)
            score = np.where(capacity > 0, scores[utilisation], 0)
            total = total + weight * score
            weights = weights + weight * (score > 0)
        return np.where(weights > 0, (total / np.maximum(weights, 1) + 0.5).astype(np.int64), 0)


def _interpolate(shape: Sequence[tuple[int, int]], utilisation: int) -> int:
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


def make_strategy(settings: Obj) -> ScoringStrategy:
    match settings.get("type", "LeastAllocated"):
        case "MostAllocated":
            return MostAllocated()
        case "RequestedToCapacityRatio":
            return RequestedToCapacityRatio(
                (settings.get("requestedToCapacityRatio") or {}).get("shape") or ()
            )
        case _:
            return LeastAllocated()


class NodeResourcesFit(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        settings = args.get("scoringStrategy") or {}
        self._strategy = make_strategy(settings)
        self._resources = resource_weights(settings.get("resources"))
        self._ignored = frozenset(args.get("ignoredResources") or ())
        self._ignored_groups = frozenset(args.get("ignoredResourceGroups") or ())
        self._left_to_extenders = frozenset(args.get("ignoredByScheduler") or ())

    def _requests(self, pod: PodInfo) -> list[tuple[str, int]]:
        return [
            (name, requested)
            for name, requested in pod.demand.requests.items()
            if requested and not self._is_ignored(name)
        ]

    def _is_ignored(self, name: str) -> bool:
        if name in NATIVE_RESOURCES:
            return False
        return (
            name in self._ignored
            or name in self._left_to_extenders
            or name.partition("/")[0] in self._ignored_groups
        )

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        capacity, used = node.allocatable, node.load.used
        reasons: list[str] | None = None
        exceeds_capacity = False
        if node.load.pods + 1 > capacity.get("pods", 0):
            reasons = ["Too many pods"]
        for name, requested in pod.demand.requests.items():
            present = capacity.get(name, 0)
            if requested and requested > present - used.get(name, 0) and not self._is_ignored(name):
                reasons = [*(reasons or ()), f"Insufficient {name}"]
                exceeds_capacity = exceeds_capacity or requested > present
        return (
            None
            if reasons is None
            else _insufficient(tuple(reasons), exceeds_capacity=exceeds_capacity)
        )

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> Mask | None:
        wrong: Mask = table.pods[rows] + 1 > table.pod_capacity[rows]
        for name, requested in self._requests(pod):
            amount = table.amount(name)
            wrong |= amount.allocatable[rows] - amount.used[rows] < requested
        return wrong

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        state[self.name] = wanted(pod, self._resources, assumed=True)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return self._strategy.one(shares(node, state[self.name]))

    def score_many(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        return self._strategy.many(resource_shares_many(table, rows, state[self.name])) + 0 * rows

    def events(self) -> Sequence[Interest]:
        return (
            Interest(POD, Action.DELETE | Action.POD_SCALE_DOWN, _frees),
            Interest(NODE, Action.ADD | Action.NODE_ALLOCATABLE, self._became_large_enough),
        )

    def _became_large_enough(self, pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        """Return True if the empty node could run the pod, and has more of a requested resource
        than before.
        """
        if new is None:
            return False
        now, before = allocatable_of(new), allocatable_of(old) if old else {}
        needed = self._requests(pod)
        if now.get("pods", 0) < 1 or any(
            now.get(name, 0) < requested for name, requested in needed
        ):
            return False
        return old is None or any(
            now.get(name, 0) > before.get(name, 0)
            for name in ("pods", *(name for name, _ in needed))
        )


@functools.lru_cache(maxsize=1024)
def _insufficient(reasons: tuple[str, ...], *, exceeds_capacity: bool) -> Status:
    return Status(
        Code.UNRESOLVABLE if exceeds_capacity else Code.UNSCHEDULABLE, reasons, "NodeResourcesFit"
    )


def _frees(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    """Return True if an assigned pod is deleted, or requests less of a resource of this pod."""
    if old is None:
        return False
    if new is None:
        return is_placed(old)
    if new["metadata"]["uid"] == pod.uid:
        return True
    before, now = demand_of(old).requests, demand_of(new).requests
    return bool(new["spec"].get("nodeName")) and any(
        before.get(name, 0) > now.get(name, 0) for name in pod.demand.requests
    )


HALF_SCORE = MAX_SCORE // 2


class NodeResourcesBalancedAllocation(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = resource_weights(args.get("resources"))

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        """Skip pods without requests: they do not change the balance."""
        state[self.name] = wanted(pod, self._resources, assumed=False)
        return None if any(one.requested for one in state[self.name]) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        before, after = [], []
        for taken, requested, capacity, _ in shares(node, state[self.name]):
            before.append(taken / capacity if taken < capacity else 1.0)
            after.append((taken + requested) / capacity if taken + requested < capacity else 1.0)
        return HALF_SCORE + (HALF_SCORE + _balance(after) - _balance(before)) // 2

    def score_many(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        found = resource_shares_many(table, rows, state[self.name])
        return (
            HALF_SCORE
            + (
                HALF_SCORE
                + _balance_many(found, rows, with_pod=True)
                - _balance_many(found, rows, with_pod=False)
            )
            // 2
        )

    def events(self) -> Sequence[Interest]:
        return ()


def _balance(fractions: list[float]) -> int:
    """Return 100 minus the standard deviation of the used fractions, as a whole number."""
    deviation = 0.0
    if len(fractions) == 2:  # noqa: PLR2004  # the usual two resources
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:  # noqa: PLR2004
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(
            sum((one - mean) * (one - mean) for one in fractions) / len(fractions)
        )
    return int((1 - deviation) * float(MAX_SCORE))


def _balance_many(found: Sequence[ResourceShareColumns], rows: Rows, *, with_pod: bool) -> Scores:
    import numpy as np

    fractions, present = [], []
    for taken, requested, capacity, _ in found:
        total = taken + requested if with_pod else taken
        fractions.append(np.minimum(total / np.maximum(capacity, 1), 1.0))
        present.append(capacity > 0)
    if len(found) == 2 and present[0].all() and present[1].all():  # noqa: PLR2004
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        deviation = _deviation(fractions, present, len(rows))
    scores: Scores = ((1 - deviation) * float(MAX_SCORE)).astype(np.int64)
    return scores


def _deviation(fractions: list[Any], present: list[Any], size: int) -> Any:
    """Return the standard deviation per node where nodes lack a resource or more than two count."""
    import numpy as np

    count = sum(present, np.zeros(size, np.int64))
    total = sum(
        (np.where(here, one, 0.0) for one, here in zip(fractions, present, strict=True)),
        np.zeros(size),
    )
    mean = total / np.maximum(count, 1)
    squares = np.zeros(size)
    high, low = np.zeros(size), np.ones(size)
    for one, here in zip(fractions, present, strict=True):
        squares = squares + np.where(here, (one - mean) * (one - mean), 0.0)
        high, low = (
            np.where(here, np.maximum(high, one), high),
            np.where(here, np.minimum(low, one), low),
        )
    many = np.sqrt(squares / np.maximum(count, 1))
    return np.where(count > 2, many, np.where(count == 2, (high - low) / 2, 0.0))  # noqa: PLR2004
