"""How much of the cluster is promised to pods, step by step: of all nodes together, and of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.quantities import nanos
from pytest_kscen.scenario.analysis.replay import scenes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.analysis.replay import Scene
    from pytest_kscen.scenario.models import TimelineEvent

PODS = "pods"


@dataclass(frozen=True)
class Series:
    """A value for each major step."""

    by_step: dict[int, float]

    def at(self, *, step: int) -> float:
        """At the end of this step; a step in which nothing happened is as the one before."""
        before = [each for each in self.by_step if each <= step]
        if not before:
            raise LookupError(f"nothing is known of step {step}: the first is {min(self.by_step, default='none')}")
        return self.by_step[max(before)]

    @property
    def last(self) -> float:
        return self.by_step[max(self.by_step)]


def allocation(events: Iterable[TimelineEvent], resource: str) -> Series:
    """What pods on nodes ask for, as a part of what the nodes have."""
    return Series({step: _share(promised, room) for step, promised, room in _by_step(events, resource)})


def utilisation(events: Iterable[TimelineEvent], resource: str) -> dict[str, Series]:
    """The same for each node, for as long as it is there."""
    found: dict[str, dict[int, float]] = {}
    for event, scene in scenes(events):
        promised = _promised(scene, resource)
        for name, node in scene.nodes.items():
            found.setdefault(name, {})[event.step.major] = _share(promised.get(name, 0), _room(node, resource))
    return {name: Series(by_step) for name, by_step in found.items()}


def _by_step(events: Iterable[TimelineEvent], resource: str) -> list[tuple[int, int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for event, scene in scenes(events):
        promised = _promised(scene, resource)
        room = sum(_room(node, resource) for node in scene.nodes.values())
        found[event.step.major] = sum(amount for node, amount in promised.items() if node in scene.nodes), room
    return [(step, *amounts) for step, amounts in found.items()]


def _promised(scene: Scene, resource: str) -> dict[str, int]:
    """By node, in nano-units."""
    found: dict[str, int] = {}
    for name, node in scene.placed.items():
        if name in scene.pods:
            found[node] = found.get(node, 0) + wanted(scene.pods[name], resource)
    return found


def wanted(pod: Obj, resource: str) -> int:
    """What a pod asks for, in nano-units: its containers together, or its greediest init container, and its overhead."""
    if resource == PODS:
        return nanos(1)
    spec = pod["spec"]
    together = sum(_request(each, resource) for each in spec.get("containers") or ())
    first = aside = 0
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == "Always":  # a sidecar, which stays
            aside += _request(each, resource)
            first = max(first, aside)
        else:
            first = max(first, aside + _request(each, resource))
    return max(together + aside, first) + nanos((spec.get("overhead") or {}).get(resource, 0))


def _request(container: Obj, resource: str) -> int:
    return nanos(((container.get("resources") or {}).get("requests") or {}).get(resource, 0))


def _room(node: Obj, resource: str) -> int:
    return nanos(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))


def _share(promised: int, room: int) -> float:
    return promised / room if room else 0.0
