"""The cluster as the scheduler sees it: every node with what it has promised, pods on their way there included."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.placement.demand import demand_of
from pytest_kscen.simulation.placement.load import Load, allocatable_of
from pytest_kscen.simulation.placement.taints import HARD, taints_of
from pytest_kscen.simulation.scheduler.volumes import NO_CLAIMS

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.placement.amounts import Amounts
    from pytest_kscen.simulation.placement.demand import Demand
    from pytest_kscen.simulation.scheduler.volumes import PodClaims


@dataclass(slots=True, eq=False)
class Candidate:
    """A pod that looks for a node."""

    pod: Obj
    demand: Demand
    tolerations: list[Obj]
    family: str
    claims: PodClaims = NO_CLAIMS

    @classmethod
    def of(cls, pod: Obj) -> Candidate:
        return cls(pod, demand_of(pod), pod["spec"].get("tolerations") or [], family_of(pod))


@dataclass(slots=True, eq=False)
class Place:
    """One node; or one that is not there, with pods that still say they are on it."""

    name: str
    node: Obj | None = None
    allocatable: Amounts = field(default_factory=dict)
    hard_taints: list[Obj] = field(default_factory=list)
    soft_taints: list[Obj] = field(default_factory=list)
    is_closed: bool = False
    load: Load = field(default_factory=Load)
    families: dict[str, int] = field(default_factory=dict)

    def show(self, node: Obj | None) -> bool:
        """The node as it is now; whether something has changed that matters to pods."""
        old, self.node = self.node, node
        if node is None:
            return False
        if old is not None and all(_part(old, name) == _part(node, name) for name in ("spec", "labels", "allocatable")):
            return False
        taints = taints_of(node)
        self.allocatable = allocatable_of(node)
        self.hard_taints = [taint for taint in taints if taint["effect"] in HARD]
        self.soft_taints = [taint for taint in taints if taint["effect"] == "PreferNoSchedule"]
        self.is_closed = bool((node.get("spec") or {}).get("unschedulable"))
        return True


class Placed(NamedTuple):
    """Where a pod is, or is going to be."""

    node: str
    demand: Demand
    family: str


class Picture:
    """All places by their names, and all pods that are on them."""

    def __init__(self) -> None:
        self.nodes: list[Place] = []
        """The places whose node is there, in the order in which they came."""
        self._places: dict[str, Place] = {}
        self._placed: dict[str, Placed] = {}

    def at(self, name: str) -> Place:
        if name not in self._places:
            self._places[name] = Place(name)
        return self._places[name]

    def see_node(self, name: str, node: Obj | None) -> Place | None:
        """The place, if pods that found none should look at it again."""
        place = self.at(name)
        if place.node is None and node is not None:
            self.nodes.append(place)
        elif node is None and place.node is not None:
            self.nodes.remove(place)
        changed = place.show(node)
        self._tidy(place)
        return place if changed else None

    def put(self, pod: Obj, node: str, candidate: Candidate | None = None) -> None:
        """The pod is on this node, or will be."""
        uid = pod["metadata"]["uid"]
        if uid in self._placed:
            if self._placed[uid].node == node:
                return
            self.take(uid)
        candidate = candidate or Candidate.of(pod)
        self._placed[uid] = Placed(node, candidate.demand, candidate.family)
        place = self.at(node)
        place.load.add(candidate.demand)
        place.families[candidate.family] = place.families.get(candidate.family, 0) + 1

    def take(self, uid: str) -> Place | None:
        """The pod is there no longer."""
        placed = self._placed.pop(uid, None)
        if placed is None:
            return None
        place = self._places[placed.node]
        place.load.remove(placed.demand)
        place.families[placed.family] -= 1
        if not place.families[placed.family]:
            del place.families[placed.family]
        self._tidy(place)
        return place

    def _tidy(self, place: Place) -> None:
        if place.node is None and not place.load.pods:
            del self._places[place.name]

    def knows(self, uid: str) -> bool:
        return uid in self._placed


def family_of(pod: Obj) -> str:
    """Who made the pod: its siblings are better spread."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def _part(node: Obj, name: str) -> object:
    if name == "labels":
        return node["metadata"].get("labels")
    return (node.get("status") or {}).get(name) if name == "allocatable" else node.get(name)
