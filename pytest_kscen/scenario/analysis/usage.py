"""How much of the cluster is promised to pods, step by step: of all nodes together, of each, and how evenly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.scenario.analysis.replay import steps
from pytest_kscen.scenario.analysis.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from pytest_kscen.scenario.analysis.replay import Scene
    from pytest_kscen.scenario.models import TimelineEvent

    Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

DECIMALS = 9  # what differs beyond is the processor's affair


@dataclass(frozen=True)
class Spread:
    """How the utilisation of nodes is spread, by major step."""

    deviation: Series
    """The standard deviation over the nodes."""
    least: Series
    most: Series
    range: Series
    """The most utilised node's less the least utilised one's."""


def allocation(events: Iterable[TimelineEvent], resource: str) -> Series:
    """What pods on nodes ask for, as a part of what the nodes have."""
    counted: dict[str, tuple[int, int]] = {}
    promised = room = 0
    found = {}
    for step, scene in steps(events):
        for node in scene.touched:
            old, new = counted.get(node, (0, 0)), _of(scene, node, resource)
            promised, room = promised + new[0] - old[0], room + new[1] - old[1]
            counted[node] = new
        found[step] = _share(promised, room)
    return Series(found)


def utilisation(events: Iterable[TimelineEvent], resource: str) -> dict[str, Series]:
    """The same for each node, for as long as it is there: told at the steps in which it changed."""
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


def spread(events: Iterable[TimelineEvent], resource: str) -> Spread:
    """Over the nodes that have the resource at all."""
    column = _Column()
    told: dict[str, dict[int, float]] = {name: {} for name in ("deviation", "least", "most", "range")}
    for step, scene in steps(events):
        for node in scene.touched:
            promised, room = _of(scene, node, resource)
            column.put(node, promised / room if room else math.nan)
        values = column.values
        least, most = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        told["deviation"][step] = round(float(values.std()), DECIMALS) if len(values) else 0.0
        told["least"][step], told["most"][step], told["range"][step] = least, most, most - least
    return Spread(**{name: Series(by_step) for name, by_step in told.items()})


class _Column:
    """A value for each node, close together."""

    def __init__(self) -> None:
        import numpy as np

        self._np = np
        self._values: Values = np.full(16, np.nan)
        self._places: dict[str, int] = {}

    @property
    def values(self) -> Values:
        """Of the nodes that have one."""
        found: Values = self._values[~self._np.isnan(self._values)]
        return found

    def put(self, node: str, value: float) -> None:
        """NaN for none."""
        place = self._places.setdefault(node, len(self._places))
        if place == len(self._values):
            self._values = self._np.concatenate([self._values, self._np.full(place, self._np.nan)])
        self._values[place] = value


def _of(scene: Scene, node: str, resource: str) -> tuple[int, int]:
    """What is promised of a node, and what it has; nothing of one that is not there."""
    if node not in scene.nodes:
        return 0, 0
    return scene.promised.get(node, {}).get(resource, 0), scene.room[node].get(resource, 0)


def _share(promised: int, room: int) -> float:
    return promised / room if room else 0.0
