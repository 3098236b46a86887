"""Allocation, spread and fragmentation of the cluster, by major step."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_kscen.objects.quantities import MILLI, NANO
from pytest_kscen.scenario.analysis.replay import ClusterState, scenes, steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from pytest_kscen.scenario.analysis.replay import Amounts
    from pytest_kscen.scenario.models import TimelineEvent

    Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Series:
    """Values by major step, at the steps in which they changed.

    A series with an end has no value from that step on.
    """

    by_step: dict[int, float]
    ended: int | None = None

    def at(self, *, step: int) -> float:
        """Return the value at the end of this step; a step without events keeps the previous
        value.
        """
        if self.ended is not None and step >= self.ended:
            raise LookupError(
                f"nothing is known of step {step}: it had gone by the end of step {self.ended}"
            )
        place = bisect.bisect_right(self._steps, step)
        if not place:
            raise LookupError(
                f"nothing is known of step {step}: the first is {min(self._steps, default='none')}"
            )
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
        return sum(self.by_step.values()) / len(self.by_step) if self.by_step else 0.0


def filled(series: Series, steps: Iterable[int]) -> list[float | None]:
    """Return the series' value at each of these steps, None where it has none."""
    found: list[float | None] = []
    for step in steps:
        try:
            found.append(series.at(step=step))
        except LookupError:
            found.append(None)
    return found


DECIMALS = 9  # what differs beyond is the processor's affair


@dataclass(frozen=True)
class UtilizationSpread:
    """Spread of the nodes' utilisation by major step, over the nodes that have the resource; each
    value is a share of the node's capacity.
    """

    deviation: Series
    """Standard deviation over the nodes."""
    least: Series
    most: Series
    range: Series
    """Difference between the highest and the lowest utilisation."""


def allocation(events: Iterable[TimelineEvent], resource: str) -> Series:
    """Return the requests of placed pods as a share of the capacity of all nodes, by major step; 0
    without nodes.
    """
    counted: dict[str, tuple[int, int]] = {}
    requested = allocatable = 0
    found = {}
    for step, scene in steps(events):
        for node in scene.touched:
            old, new = counted.get(node, (0, 0)), _of(scene, node, resource)
            requested, allocatable = requested + new[0] - old[0], allocatable + new[1] - old[1]
            counted[node] = new
        found[step] = _share(requested, allocatable)
    return Series(found)


def utilisation(events: Iterable[TimelineEvent], resource: str) -> dict[str, Series]:
    """Return the same share for each node while it exists, at the steps in which it changed."""
    found: dict[str, dict[int, float]] = {}
    ended: dict[str, int] = {}
    for step, scene in steps(events):
        for node in scene.touched:
            if node in scene.nodes:
                found.setdefault(node, {})[step] = _share(*_of(scene, node, resource))
                ended.pop(node, None)
            elif node in found:
                ended.setdefault(node, step)
    return {node: Series(by_step, ended.get(node)) for node, by_step in found.items()}


def spread(events: Iterable[TimelineEvent], resource: str) -> UtilizationSpread:
    """Return the spread of utilisation over the nodes that have the resource, with zeros for steps
    without such a node.
    """
    column = _Column()
    columns: dict[str, dict[int, float]] = {
        name: {} for name in ("deviation", "least", "most", "range")
    }
    for step, scene in steps(events):
        for node in scene.touched:
            requested, allocatable = _of(scene, node, resource)
            column.put(node, requested / allocatable if allocatable else math.nan)
        values = column.values
        least, most = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        columns["deviation"][step] = round(float(values.std()), DECIMALS) if len(values) else 0.0
        columns["least"][step], columns["most"][step], columns["range"][step] = (
            least,
            most,
            most - least,
        )
    return UtilizationSpread(**{name: Series(by_step) for name, by_step in columns.items()})


class _Column:
    """Column with one value for each node, NaN for none: an array, so that statistics of thousands
    of nodes are fast.
    """

    def __init__(self) -> None:
        import numpy as np

        self._np = np
        self._values: Values = np.full(16, np.nan)
        self._places: dict[str, int] = {}

    @property
    def values(self) -> Values:
        found: Values = self._values[~self._np.isnan(self._values)]
        return found

    def put(self, node: str, value: float) -> None:
        place = self._places.setdefault(node, len(self._places))
        if place == len(self._values):
            self._values = self._np.concatenate([self._values, self._np.full(place, self._np.nan)])
        self._values[place] = value


def _of(scene: ClusterState, node: str, resource: str) -> tuple[int, int]:
    """Return requested and available amounts of a node; zeros for a node that is absent."""
    if node not in scene.nodes:
        return 0, 0
    return scene.requested.get(node, {}).get(resource, 0), scene.allocatable[node].get(resource, 0)


def _share(requested: int, allocatable: int) -> float:
    return requested / allocatable if allocatable else 0.0


Shape = tuple[tuple[str, int], ...]
"""Requests of a pod, as sorted pairs of resource and amount."""


def fragmentation(
    events: Iterable[TimelineEvent], resource: str, *, pending: bool = False
) -> Series:
    """Return the fragmentation by major step, for the typical pod or for pending pods.

    Fragmentation is the expected share of the free room on nodes where one of these pods, drawn at
    random, does not fit. A pod fits if the node has enough free of everything that it requests;
    taints and affinity are not considered. Typical pods are all of the scenario that request the
    resource; pending ones have no node at the end of the step. Without such pods, or without free
    room, it is 0. The measure for typical pods is that of "Beware of Fragmentation" (USENIX ATC
    2023). Amounts are whole units, thousandths for CPU, requests rounded up and room down.
    """
    events = list(events)
    typical = _workload(events, resource)
    if not typical:
        return Series({step: 0.0 for step, _ in steps(events)})
    capacities = _UnusableCapacity(list(typical), resource)
    found = {}
    for step, scene in steps(events):
        for node in scene.touched:
            capacities.update(scene, node)
        shapes = typical
        if pending:
            waiting = (scene.requests[name] for name in scene.pending)
            shapes = Counter(_shape(each) for each in waiting if each.get(resource))
        found[step] = capacities.unusable(shapes)
    return Series(found)


def _workload(events: Iterable[TimelineEvent], resource: str) -> Counter[Shape]:
    """Count the pods of each shape; a pod that changes its shape counts twice."""
    found: Counter[Shape] = Counter()
    known: dict[tuple[str, str, str], Shape] = {}
    for event, scene in scenes(events):
        made = event.create or event.patch
        if not made or not made.result or made.result.get("kind") != "Pod":
            continue
        metadata = made.result["metadata"]
        name = (metadata.get("namespace") or "default", metadata["name"])
        requests = scene.requests.get(name) or {}
        shape, life = _shape(requests), (*name, metadata.get("uid") or "")
        if requests.get(resource) and (event.create or known.get(life) != shape):
            known[life] = shape
            found[shape] += 1
    return found


def _shape(requests: Amounts) -> Shape:
    return tuple(sorted(requests.items()))


class _UnusableCapacity:
    """Counts along, for each shape, the free room of nodes where it does not fit."""

    def __init__(self, shapes: list[Shape], resource: str) -> None:
        import numpy as np

        self._np = np
        self._resource = resource
        self._names = sorted({name for shape in shapes for name, _ in shape})
        self._places = {shape: place for place, shape in enumerate(shapes)}
        requests = [
            [-(-dict(shape).get(name, 0) // _unit(name)) for name in self._names]
            for shape in shapes
        ]
        self._requests: Ints = np.array(requests, dtype=np.int64)
        self._unusable_by_shape: Ints = np.zeros(len(shapes), dtype=np.int64)
        self._free = 0
        self._seen: dict[str, tuple[int, Ints]] = {}

    def update(self, scene: ClusterState, node: str) -> None:
        if node in self._seen:
            free, lost = self._seen.pop(node)
            self._free -= free
            self._unusable_by_shape -= lost
        if node in scene.nodes:
            free = max(scene.free(node, self._resource) // _unit(self._resource), 0)
            allocatable = self._np.array(
                [scene.free(node, name) // _unit(name) for name in self._names],
                dtype=self._np.int64,
            )
            unusable: Ints = self._np.where(
                (self._requests > self._np.maximum(allocatable, 0)).any(axis=1), free, 0
            )
            self._seen[node] = free, unusable
            self._free += free
            self._unusable_by_shape += unusable

    def unusable(self, pods: Counter[Shape]) -> float:
        """Return the share of the free room that is useless, as the mean over these pods."""
        if not pods or not self._free:
            return 0.0
        lost = sum(
            int(self._unusable_by_shape[self._places[shape]]) * count
            for shape, count in pods.items()
        )
        return lost / (pods.total() * self._free)


def _unit(resource: str) -> int:
    return MILLI if resource == "cpu" else NANO
