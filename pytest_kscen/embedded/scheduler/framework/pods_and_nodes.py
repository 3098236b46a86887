"""A node as plugins see it: the object, the pods that are on it or on their way, and what they
take together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pytest_kscen.embedded.node_matching import HARD_EFFECTS, taints_of
from pytest_kscen.embedded.pod_resources import NodeUsage, allocatable_of, demand_of
from pytest_kscen.kube.cache import Ref

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.embedded.pod_resources import Amounts, PodDemand
    from pytest_kscen.objects.resources import Obj


REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


class NodeInfo:
    """One node; or one that is not there, with pods that still say they are on it (`obj` is
    None).
    """

    __slots__ = (
        "allocatable", "generation", "hard_taints", "images", "labels", "load", "name", "obj",
        "pods", "row", "soft_taints",
        "unschedulable",
    )  # fmt: skip

    def __init__(self, name: str, obj: Obj | None = None) -> None:
        self.name = name
        self.obj: Obj | None = None
        self.labels: Mapping[str, str] = {}
        self.allocatable: Amounts = {}
        """What it has to give: thousandths of a CPU, bytes, pieces; `pods` is how many may be on
        it.
        """
        self.hard_taints: list[Obj] = []
        self.soft_taints: list[Obj] = []
        self.unschedulable = False
        self.images: dict[str, int] = {}
        """The sizes of the images that are there, by every name that they have."""
        self.pods: dict[str, PodInfo] = {}
        """By uid, in the order in which they came."""
        self.load = NodeUsage()
        """The sums: `used` (what they request), `scored` (what scoring takes them for), `ports`,
        `pods`.
        """
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
        self.hard_taints = [taint for taint in taints if taint["effect"] in HARD_EFFECTS]
        self.soft_taints = [taint for taint in taints if taint["effect"] == "PreferNoSchedule"]
        self.unschedulable = bool((obj.get("spec") or {}).get("unschedulable"))
        images = (obj.get("status") or {}).get("images") or ()
        self.images = {
            name: image.get("sizeBytes", 0) for image in images for name in image.get("names") or ()
        }

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
        """One to try things on: pods may be added and removed, nobody else sees it.

        It has no row.
        """
        other = NodeInfo(self.name)
        for name in (
            "obj",
            "labels",
            "allocatable",
            "hard_taints",
            "soft_taints",
            "unschedulable",
            "images",
            "generation",
        ):
            setattr(other, name, getattr(self, name))
        other.pods = dict(self.pods)
        other.load = NodeUsage(
            dict(self.load.used), dict(self.load.scored), dict(self.load.ports), self.load.pods
        )
        return other

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"


# A pod as plugins see it: the object, and what is computed of it once.


T = TypeVar("T")


class PodInfo:
    """A pod, on a node or looking for one."""

    __slots__ = (
        "_memos",
        "demand",
        "labels",
        "name",
        "namespace",
        "obj",
        "priority",
        "ref",
        "spec",
        "tolerations",
        "uid",
    )

    def __init__(self, obj: Obj) -> None:
        metadata, spec = obj["metadata"], obj["spec"]
        self.obj = obj
        """The pod itself, plain JSON. It is shared: never change it."""
        self.spec: Obj = spec
        self.ref = Ref.of(obj)
        self.uid: str = metadata.get("uid", "")
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace", "")
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.priority: int = spec.get("priority") or 0
        self.tolerations: list[Obj] = spec.get("tolerations") or []
        self.demand: PodDemand = demand_of(obj)
        """What it asks of a node: `requests`, what scoring takes it for (`scored`), `ports` of
        the host.
        """
        self._memos: dict[str, Any] = {}

    def memo(self, name: str, make: Callable[[PodInfo], T]) -> T:
        """What a plugin reads out of this pod, computed once: `pod.memo("MyPlugin", parse)`."""
        if name not in self._memos:
            self._memos[name] = make(self)
        found: T = self._memos[name]
        return found

    @property
    def nominated(self) -> str:
        """The node where others were sent away for this pod."""
        return (self.obj.get("status") or {}).get("nominatedNodeName") or ""

    def same_for_nodes(self, obj: Obj) -> bool:
        """Whether nothing of this newer object matters to the node that the pod is on."""
        old, new = self.obj["metadata"], obj["metadata"]
        return bool(
            (obj["spec"] is self.spec or obj["spec"] == self.spec)
            and new.get("labels") == old.get("labels")
            and bool(new.get("deletionTimestamp")) is bool(old.get("deletionTimestamp"))
        )

    def __repr__(self) -> str:
        return f"PodInfo({self.namespace}/{self.name})"


# Pods for which room is being made: where, and who counts as being there already.


class Nomination(NamedTuple):
    """The node where room is being made; no name: none any more."""

    node: str
    message: str = ""


class Nominated:
    """The pods that have a nominated node, by node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._nodes: dict[str, str] = {}
        self.preemptors: dict[str, PodInfo] = {}
        """By the uid of a pod that is just being sent away: for whom."""
        self.expected: set[str] = set()
        """Uids of pods that have a node to which they are to be bound, but not at once."""

    def add(self, pod: PodInfo, node: str = "") -> None:
        """Under this node, or the one in the pod's own status."""
        self.remove(pod.uid)
        if node := node or pod.nominated:
            self._nodes[pod.uid] = node
            self._by_node.setdefault(node, {})[pod.uid] = pod

    def remove(self, uid: str) -> None:
        node = self._nodes.pop(uid, None)
        if node is not None:
            del self._by_node[node][uid]
            if not self._by_node[node]:
                del self._by_node[node]

    def on(self, node: str) -> list[PodInfo]:
        return list(self._by_node.get(node, {}).values())

    def node_of(self, uid: str) -> str:
        return self._nodes.get(uid, "")

    def rivals(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Those that count as being on the node for this pod: others of its priority or above."""
        return [
            one
            for one in self._by_node.get(node, {}).values()
            if one.uid != pod.uid and one.priority >= pod.priority
        ]

    def nodes(self) -> list[str]:
        return list(self._by_node)


# A pod in the scheduler's queue, and what the queue knows of it.


@dataclass(slots=True, eq=False)
class QueuedPod:
    """One pod that needs a node."""

    pod: PodInfo
    since: float
    """When it came into the queue, or was last put back."""
    turn: int
    """Its number among those that came at the same instant."""
    attempts: int = 0
    unschedulable: int = 0
    """How many attempts ended with no node."""
    errors: int = 0
    """How many in a row ended with an error."""
    rejectors: set[str] = field(default_factory=set)
    """The plugins that turned it down."""
    pending: set[str] = field(default_factory=set)
    """Those of them that will say when they are ready."""
    gate: str = ""
    """The plugin that does not even let it be looked at."""
    early: tuple[float, int] = (-1.0, 0)
    """When it was last taken although it backed off, and how often at that instant."""
    expires: float | None = None
    """When its back-off ends."""
