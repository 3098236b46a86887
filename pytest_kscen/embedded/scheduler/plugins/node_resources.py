"""What the pod asks for must be left on the node; which nodes are better is a matter of
strategy.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kscen.embedded.pod_resources import allocatable_of, demand_of
from pytest_kscen.embedded.scheduler.framework.events import NODE, POD, Action, Interest
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import SKIP, Code, Status
from pytest_kscen.embedded.scheduler.plugins.score_formulas import (
    BEST,
    NATIVE,
    shares,
    shares_many,
    wanted,
    weighed,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Scores, Table, Truths
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.embedded.scheduler.plugins.score_formulas import Share, ShareMany
    from pytest_kscen.objects.resources import Obj


# By which rule NodeResourcesFit prefers nodes: the emptiest, the fullest, or a shape of one's
# own.


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
            [
                (np.maximum(capacity - taken - asked, 0) * BEST, capacity, weight)
                for taken, asked, capacity, weight in shares
            ]
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
            [
                (np.minimum(taken + asked, capacity) * BEST, capacity, weight)
                for taken, asked, capacity, weight in shares
            ]
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
            return RequestedToCapacityRatio(
                (settings.get("requestedToCapacityRatio") or {}).get("shape") or ()
            )
        case _:
            return LeastAllocated()


class NodeResourcesFit(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        settings = args.get("scoringStrategy") or {}
        self._strategy = strategy_of(settings)
        self._resources = weighed(settings.get("resources"))
        self._ignored = frozenset(args.get("ignoredResources") or ())
        self._ignored_groups = frozenset(args.get("ignoredResourceGroups") or ())
        self._left_to_extenders = frozenset(args.get("ignoredByScheduler") or ())

    def _needed(self, pod: PodInfo) -> list[tuple[str, int]]:
        """What the pod asks for and somebody has to look after."""
        return [
            (name, asked)
            for name, asked in pod.demand.requests.items()
            if asked and not self._is_ignored(name)
        ]

    def _is_ignored(self, name: str) -> bool:
        if name in NATIVE:
            return False
        return (
            name in self._ignored
            or name in self._left_to_extenders
            or name.partition("/")[0] in self._ignored_groups
        )

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        capacity, used = node.allocatable, node.load.used
        lacking: list[str] | None = None
        hopeless = False
        if node.load.pods + 1 > capacity.get("pods", 0):
            lacking = ["Too many pods"]
        for name, asked in pod.demand.requests.items():
            there = capacity.get(name, 0)
            if asked and asked > there - used.get(name, 0) and not self._is_ignored(name):
                lacking = [*(lacking or ()), f"Insufficient {name}"]
                hopeless = hopeless or asked > there
        return None if lacking is None else _refusal(tuple(lacking), hopeless=hopeless)

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: Table, rows: Rows
    ) -> Truths | None:
        wrong: Truths = table.pods[rows] + 1 > table.room[rows]
        for name, asked in self._needed(pod):
            amount = table.amount(name)
            wrong |= amount.allocatable[rows] - amount.used[rows] < asked
        return wrong

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        state[self.name] = wanted(pod, self._resources, assumed=True)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return self._strategy.one(shares(node, state[self.name]))

    def score_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Scores:
        return self._strategy.many(shares_many(table, rows, state[self.name])) + 0 * rows

    def events(self) -> Sequence[Interest]:
        return (
            Interest(POD, Action.DELETE | Action.POD_SCALE_DOWN, _frees),
            Interest(NODE, Action.ADD | Action.NODE_ALLOCATABLE, self._offers),
        )

    def _offers(self, pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        """Whether the node has room for the pod if it were empty, and more than it had of
        something that is wanted.
        """
        if new is None:
            return False
        now, before = allocatable_of(new), allocatable_of(old) if old else {}
        needed = self._needed(pod)
        if now.get("pods", 0) < 1 or any(now.get(name, 0) < asked for name, asked in needed):
            return False
        return old is None or any(
            now.get(name, 0) > before.get(name, 0)
            for name in ("pods", *(name for name, _ in needed))
        )


@functools.lru_cache(maxsize=1024)
def _refusal(lacking: tuple[str, ...], *, hopeless: bool) -> Status:
    return Status(
        Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE, lacking, "NodeResourcesFit"
    )


def _frees(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    """A pod that had a node is gone, or asks for less of what this one wants."""
    if old is None:
        return False
    if new is None:
        return bool(
            old["spec"].get("nodeName") or (old.get("status") or {}).get("nominatedNodeName")
        )
    if new["metadata"]["uid"] == pod.uid:
        return True
    before, now = demand_of(old).requests, demand_of(new).requests
    return bool(new["spec"].get("nodeName")) and any(
        before.get(name, 0) > now.get(name, 0) for name in pod.demand.requests
    )


# Nodes on which the pod makes the use of the resources more even are better.


HALF = BEST // 2


class NodeResourcesBalancedAllocation(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = weighed(args.get("resources"))

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
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
        return (
            HALF
            + (
                HALF
                + _evenness_many(found, rows, with_pod=True)
                - _evenness_many(found, rows, with_pod=False)
            )
            // 2
        )

    def events(self) -> Sequence[Interest]:
        return ()


def _evenness(fractions: list[float]) -> int:
    """100 less the standard deviation, cut to a whole number."""
    deviation = 0.0
    if len(fractions) == 2:  # noqa: PLR2004  # the usual two resources
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:  # noqa: PLR2004
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(
            sum((one - mean) * (one - mean) for one in fractions) / len(fractions)
        )
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
    total = sum(
        (np.where(here, one, 0.0) for one, here in zip(fractions, there, strict=True)),
        np.zeros(size),
    )
    mean = total / np.maximum(count, 1)
    squares = np.zeros(size)
    high, low = np.zeros(size), np.ones(size)
    for one, here in zip(fractions, there, strict=True):
        squares = squares + np.where(here, (one - mean) * (one - mean), 0.0)
        high, low = (
            np.where(here, np.maximum(high, one), high),
            np.where(here, np.minimum(low, one), low),
        )
    many = np.sqrt(squares / np.maximum(count, 1))
    return np.where(count > 2, many, np.where(count == 2, (high - low) / 2, 0.0))  # noqa: PLR2004
