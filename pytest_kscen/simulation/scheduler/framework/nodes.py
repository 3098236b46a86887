"""A node as plugins see it: the object, the pods that are on it or on their way, and what they take together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.placement.load import Load, allocatable_of
from pytest_kscen.simulation.placement.taints import HARD, taints_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.placement.amounts import Amounts
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


class NodeInfo:
    """One node; or one that is not there, with pods that still say they are on it (`obj` is None)."""

    __slots__ = (
        "allocatable", "generation", "hard_taints", "images", "labels", "load", "name", "obj", "pods", "row", "soft_taints",
        "unschedulable",
    )  # fmt: skip

    def __init__(self, name: str, obj: Obj | None = None) -> None:
        self.name = name
        self.obj: Obj | None = None
        self.labels: Mapping[str, str] = {}
        self.allocatable: Amounts = {}
        """What it has to give: thousandths of a CPU, bytes, pieces; `pods` is how many may be on it."""
        self.hard_taints: list[Obj] = []
        self.soft_taints: list[Obj] = []
        self.unschedulable = False
        self.images: dict[str, int] = {}
        """The sizes of the images that are there, by every name that they have."""
        self.pods: dict[str, PodInfo] = {}
        """By uid, in the order in which they came."""
        self.load = Load()
        """The sums: `used` (what they request), `scored` (what scoring takes them for), `ports`, `pods`."""
        self.row = -1
        """Its row in the snapshot's table, if there is one."""
        self.generation = 0
        """Grows with every change, of the node or its pods."""
        if obj is not None:
            self.show(obj)

    def show(self, obj: Obj | None) -> None:
        """The node as it is now."""
        self.obj = obj
        self.generation += 1
        if obj is None:
            return
        taints = taints_of(obj)
        self.labels = obj["metadata"].get("labels") or {}
        self.allocatable = allocatable_of(obj)
        self.hard_taints = [taint for taint in taints if taint["effect"] in HARD]
        self.soft_taints = [taint for taint in taints if taint["effect"] == "PreferNoSchedule"]
        self.unschedulable = bool((obj.get("spec") or {}).get("unschedulable"))
        images = (obj.get("status") or {}).get("images") or ()
        self.images = {name: image.get("sizeBytes", 0) for image in images for name in image.get("names") or ()}

    @property
    def node(self) -> Obj:
        """The object of a node that is there."""
        if self.obj is None:
            raise LookupError(f"there is no node {self.name}, only pods that say they are on it")
        return self.obj

    @property
    def zone(self) -> str:
        region, zone = self.labels.get(REGION, ""), self.labels.get(ZONE, "")
        return f"{region}:{zone}" if region or zone else ""

    def add(self, pod: PodInfo) -> None:
        self.pods[pod.uid] = pod
        self.load.add(pod.demand)
        self.generation += 1

    def remove(self, pod: PodInfo) -> None:
        del self.pods[pod.uid]
        self.load.remove(pod.demand)
        self.generation += 1

    def copy(self) -> NodeInfo:
        """One to try things on: pods may be added and removed, nobody else sees it. It has no row."""
        other = NodeInfo(self.name)
        for name in ("obj", "labels", "allocatable", "hard_taints", "soft_taints", "unschedulable", "images", "generation"):
            setattr(other, name, getattr(self, name))
        other.pods = dict(self.pods)
        other.load = Load(dict(self.load.used), dict(self.load.scored), dict(self.load.ports), self.load.pods)
        return other

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"
