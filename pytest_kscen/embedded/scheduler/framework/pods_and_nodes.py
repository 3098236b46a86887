"""Pods and nodes as plugins see them: the object, and values computed from it once.

The snapshot keeps one NodeInfo per node and one PodInfo per assigned pod; the queue keeps
QueuedPods.
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
    """Node with its pods and their summed requests. `obj` is None for a node that does not exist
    but is named by pods.
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
        """Allocatable amounts: milli-CPUs, bytes, or counts; `pods` is the maximum number of pods.
        """
        self.hard_taints: list[Obj] = []
        self.soft_taints: list[Obj] = []
        self.unschedulable = False
        self.images: dict[str, int] = {}
        """Sizes of the node's images in bytes, by each of their names."""
        self.pods: dict[str, PodInfo] = {}
        """Pods by uid, in order of arrival."""
        self.load = NodeUsage()
        """Sums over the pods: `used` (requests), `scored` (requests as scoring counts them),
        `ports`, `pods`.
        """
        self.row = -1
        """Row in the snapshot's table; -1 if there is none."""
        self.generation = 0
        """Version that grows with each change of the node or its pods."""
        if obj is not None:
            self.set_object(obj)

    def set_object(self, obj: Obj | None) -> None:
        """Replace the object and recompute the derived values. With None the values stay, as pods
        may still name the node.
        """
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
        """Object of an existing node; LookupError if only pods name it."""
        if self.obj is None:
            raise LookupError(f"node {self.name} does not exist; only pods name it")
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
        """Return a copy without a row, on which pods can be added and removed without effect on the
        snapshot.
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


T = TypeVar("T")


class PodInfo:
    """Pod with the values that scheduling reads often, whether it is assigned or queued."""

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
        """Pod as plain JSON. Shared with the cache: never change it."""
        self.spec: Obj = spec
        self.ref = Ref.of(obj)
        self.uid: str = metadata.get("uid", "")
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace", "")
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.priority: int = spec.get("priority") or 0
        self.tolerations: list[Obj] = spec.get("tolerations") or []
        self.demand: PodDemand = demand_of(obj)
        """Demand on a node: `requests`, `scored` (as scoring counts them), host `ports`."""
        self._memos: dict[str, Any] = {}

    def memo(self, name: str, make: Callable[[PodInfo], T]) -> T:
        """Return a value computed from the pod by a plugin, making it on first use:
        `pod.memo("MyPlugin", parse)`. Values last until the pod changes.
        """
        if name not in self._memos:
            self._memos[name] = make(self)
        found: T = self._memos[name]
        return found

    @property
    def nominated(self) -> str:
        """Node on which preemption is making room for this pod."""
        return (self.obj.get("status") or {}).get("nominatedNodeName") or ""

    def equals_for_node(self, obj: Obj) -> bool:
        """Return True if a newer version of the pod has the same effect on its node: equal spec,
        labels and deletion state.
        """
        old, new = self.obj["metadata"], obj["metadata"]
        return bool(
            (obj["spec"] is self.spec or obj["spec"] == self.spec)
            and new.get("labels") == old.get("labels")
            and bool(new.get("deletionTimestamp")) is bool(old.get("deletionTimestamp"))
        )

    def __repr__(self) -> str:
        return f"PodInfo({self.namespace}/{self.name})"


class Nomination(NamedTuple):
    """Result of post_filter: the node on which pods are preempted. An empty name clears the pod's
    earlier nomination.
    """

    node: str
    message: str = ""


class NominatedPods:
    """Pods nominated to nodes, by node. Filters count them as present for pods of lower or equal
    priority.
    """

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._nodes: dict[str, str] = {}
        self.preemptors: dict[str, PodInfo] = {}
        """Pods that preempt, by the uid of each victim while its deletion is under way."""
        self.expected: set[str] = set()
        """Uids of pods with a chosen node whose binding takes time."""

    def add(self, pod: PodInfo, node: str = "") -> None:
        """Record a nomination, replacing an earlier one. Without a node the one in the pod's own
        status counts; if that is empty, the pod is only removed.
        """
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

    def pods_on(self, node: str) -> list[PodInfo]:
        return list(self._by_node.get(node, {}).values())

    def node_of(self, uid: str) -> str:
        return self._nodes.get(uid, "")

    def rivals(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Return other pods nominated to the node that count as present for this pod: those of its
        priority or above.
        """
        return [
            one
            for one in self._by_node.get(node, {}).values()
            if one.uid != pod.uid and one.priority >= pod.priority
        ]

    def nodes(self) -> list[str]:
        return list(self._by_node)


@dataclass(slots=True, eq=False)
class QueuedPod:
    """Pod in the scheduling queue, with the history of its attempts; one object from its arrival
    until it is bound or deleted.
    """

    pod: PodInfo
    since: float
    """Time at which it entered the queue or was last put back, in cluster seconds."""
    sequence: int
    """Number that orders pods which arrived at the same instant."""
    attempts: int = 0
    unschedulable: int = 0
    """Number of attempts that found no node."""
    errors: int = 0
    """Number of consecutive attempts that ended with an error."""
    rejectors: set[str] = field(default_factory=set)
    """Plugins that refused the pod in its last attempt."""
    pending: set[str] = field(default_factory=set)
    """Plugins that refused it as pending: their events end its back-off."""
    gate: str = ""
    """Plugin that keeps it out of the active queue at pre_enqueue."""
    early: tuple[float, int] = (-1.0, 0)
    """Time of its last early retry during back-off, and the number of retries at that instant."""
    expires: float | None = None
    """Time at which its back-off ends."""
