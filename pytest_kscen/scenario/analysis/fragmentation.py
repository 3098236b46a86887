"""How much of the cluster's free room is of no use, because it lies in pieces that are too small.

The fragmentation of a resource for a set of pods, of which each asks for some of it: take one of them by chance; the part
of the free room that lies on nodes where it does not fit, on the average. A pod fits on a node if the node has enough free
of all that the pod asks for, the resource in question or another; taints, affinity and the like are not looked at. The
typical pods are all that the scenario ever has; the pending ones those that have no node at the end of the step. With no
such pod, or no free room, nothing is fragmented. The measure for typical pods is that of "Beware of Fragmentation"
(USENIX ATC 2023).

Amounts are whole units, thousandths for CPU, requests rounded up and free room down: as the scheduler counts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_kscen.objects.quantities import MILLI, NANO
from pytest_kscen.scenario.analysis.replay import Scene, scenes, steps
from pytest_kscen.scenario.analysis.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from pytest_kscen.scenario.analysis.amounts import Amounts
    from pytest_kscen.scenario.models import TimelineEvent

    Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

Shape = tuple[tuple[str, int], ...]
"""What a pod asks for."""


def fragmentation(events: Iterable[TimelineEvent], resource: str, *, pending: bool = False) -> Series:
    """For the typical pod, or for those that are pending."""
    events = list(events)
    typical = _workload(events, resource)
    if not typical:
        return Series({step: 0.0 for step, _ in steps(events)})
    pieces = _Pieces(list(typical), resource)
    found = {}
    for step, scene in steps(events):
        for node in scene.touched:
            pieces.look_at(scene, node)
        found[step] = pieces.useless(_waiting(scene, resource) if pending else typical)
    return Series(found)


def _workload(events: Iterable[TimelineEvent], resource: str) -> Counter[Shape]:
    """How many pods of each shape the scenario has; a pod that changes its shape has been both."""
    found: Counter[Shape] = Counter()
    known: dict[tuple[str, str, str], Shape] = {}
    for event, scene in scenes(events):
        made = event.create or event.patch
        if not made or not made.result or made.result.get("kind") != "Pod":
            continue
        metadata = made.result["metadata"]
        name = (metadata.get("namespace") or "default", metadata["name"])
        wants = scene.wants.get(name) or {}
        shape, life = _shape(wants), (*name, metadata.get("uid") or "")
        if wants.get(resource) and (event.create or known.get(life) != shape):
            known[life] = shape
            found[shape] += 1
    return found


def _waiting(scene: Scene, resource: str) -> Counter[Shape]:
    return Counter(_shape(wants) for name in scene.pending if (wants := scene.wants[name]).get(resource))


def _shape(wants: Amounts) -> Shape:
    return tuple(sorted(wants.items()))


class _Pieces:
    """Counts along, for each shape, the free room of nodes where it does not fit."""

    def __init__(self, shapes: list[Shape], resource: str) -> None:
        import numpy as np

        self._np = np
        self._resource = resource
        self._names = sorted({name for shape in shapes for name, _ in shape})
        self._places = {shape: place for place, shape in enumerate(shapes)}
        wants = [[-(-dict(shape).get(name, 0) // _unit(name)) for name in self._names] for shape in shapes]
        self._wants: Ints = np.array(wants, dtype=np.int64)
        self._useless: Ints = np.zeros(len(shapes), dtype=np.int64)
        self._free = 0
        self._seen: dict[str, tuple[int, Ints]] = {}

    def look_at(self, scene: Scene, node: str) -> None:
        if node in self._seen:
            free, lost = self._seen.pop(node)
            self._free -= free
            self._useless -= lost
        if node in scene.nodes:
            free = max(scene.free(node, self._resource) // _unit(self._resource), 0)
            room = self._np.array([scene.free(node, name) // _unit(name) for name in self._names], dtype=self._np.int64)
            useless: Ints = self._np.where((self._wants > self._np.maximum(room, 0)).any(axis=1), free, 0)
            self._seen[node] = free, useless
            self._free += free
            self._useless += useless

    def useless(self, pods: Counter[Shape]) -> float:
        """The part of the free room, on the average over these pods."""
        if not pods or not self._free:
            return 0.0
        lost = sum(int(self._useless[self._places[shape]]) * count for shape, count in pods.items())
        return lost / (pods.total() * self._free)


def _unit(resource: str) -> int:
    return MILLI if resource == "cpu" else NANO
