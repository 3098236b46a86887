"""Which of the places that will do is best: a table of scores from 0 to 100, each with its weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.placement.affinity import preference
from pytest_kscen.simulation.placement.taints import tolerates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.simulation.scheduler.picture import Candidate, Place

BEST = 100
SCORED = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Score:
    """One row."""

    name: str
    rate: Callable[[Candidate, Sequence[Place]], list[int]]
    weight: int
    applies: Callable[[Candidate, Sequence[Place]], bool] = lambda _, __: True


def _least_allocated(pod: Candidate, places: Sequence[Place]) -> list[int]:
    return [_free(pod, place) for place in places]


def _free(pod: Candidate, place: Place) -> int:
    """How much is left with this pod on it, on average of the resources."""
    total = count = 0
    for name in SCORED:
        capacity = place.allocatable.get(name, 0)
        if capacity:
            wanted = place.load.scored.get(name, 0) + pod.demand.scored[name]
            total += max(0, capacity - wanted) * BEST // capacity
            count += 1
    return total // count if count else 0


def _preferred(pod: Candidate, places: Sequence[Place]) -> list[int]:
    return _scaled([preference(pod.pod, place.node) if place.node else 0 for place in places])


def _tolerated(pod: Candidate, places: Sequence[Place]) -> list[int]:
    soft = [sum(not any(tolerates(one, taint) for one in pod.tolerations) for taint in place.soft_taints) for place in places]
    return _turned(soft)


def _spread(pod: Candidate, places: Sequence[Place]) -> list[int]:
    return _turned([place.families.get(pod.family, 0) for place in places])


def _scaled(values: list[int]) -> list[int]:
    most = max(values)
    return [value * BEST // most for value in values] if most else values


def _turned(values: list[int]) -> list[int]:
    """Fewer is better."""
    most = max(values)
    return [BEST - value * BEST // most for value in values] if most else [BEST] * len(values)


def _has_preferences(pod: Candidate, _: Sequence[Place]) -> bool:
    affinity = (pod.pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return bool(affinity.get("preferredDuringSchedulingIgnoredDuringExecution"))


SCORES = (
    Score("NodeResourcesFit", _least_allocated, 1),
    Score("PodTopologySpread", _spread, 2, lambda pod, _: bool(pod.family)),
    Score("NodeAffinity", _preferred, 2, _has_preferences),
    Score("TaintToleration", _tolerated, 3, lambda _, places: any(place.soft_taints for place in places)),
)


def best(pod: Candidate, places: Sequence[Place], chance: Stream) -> Place:
    """The best place; among equals, chance decides."""
    if len(places) == 1:
        return places[0]
    totals = [0] * len(places)
    for row in SCORES:
        if row.applies(pod, places):
            for number, score in enumerate(row.rate(pod, places)):
                totals[number] += row.weight * score
    most = max(totals)
    equals = [place for place, total in zip(places, totals, strict=True) if total == most]
    return equals[0] if len(equals) == 1 else chance.choice(equals)
