"""Cluster state for scheduling: all nodes with their pods, including pods still being bound.

The event handlers update it immediately; `nodes` and the table change only at the start of an
attempt. Nodes are ordered as in kube-scheduler: round robin over zones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.scheduler.framework.node_table import NodeTable
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo
    from pytest_kscen.objects.resources import Obj

TABLE_THRESHOLD = 64  # nodes from which filtering with a table is faster


class Watcher:
    """Receiver of snapshot changes, for plugins that keep counts of their own. Node changes cover
    existing nodes only; pod changes also cover pods whose node does not exist.
    """

    def pod_added(self, pod: PodInfo, node: NodeInfo) -> None: ...

    def pod_removed(self, pod: PodInfo, node: NodeInfo) -> None: ...

    def node_changed(self, node: NodeInfo) -> None:
        """Called for a new node and for each change of its object."""

    def node_removed(self, node: NodeInfo) -> None: ...


W = TypeVar("W", bound=Watcher)


class PlacedPod(NamedTuple):
    pod: PodInfo
    node: NodeInfo


class ImageState(NamedTuple):
    """Size of an image in bytes on the first node that had it, and the names of all nodes that have
    it.
    """

    size: int
    nodes: dict[str, None]


class Snapshot:
    """Nodes by name, and assigned pods by uid. Objects in it are live: an attempt sees changes of
    pods at once, but a fixed list of nodes.
    """

    def __init__(self, large: int = TABLE_THRESHOLD) -> None:
        self.nodes: list[NodeInfo] = []
        """Nodes at the start of the attempt. Replaced, never changed in place."""
        self.table: NodeTable | None = None
        """Nodes as columns; None in a small cluster."""
        self.images: dict[str, ImageState] = {}
        """Images by name that any node has."""
        self.large = large
        self._names: dict[str, NodeInfo] = {}
        self._placed: dict[str, PlacedPod] = {}
        self._present: dict[str, NodeInfo] = {}
        self._stale = False
        self._changed: dict[str, NodeInfo] = {}
        self._loaded: dict[str, NodeInfo] = {}
        self._watchers: list[Watcher] = []
        self._shared: dict[type[Watcher], Watcher] = {}

    def watch(self, watcher: Watcher) -> None:
        """Register a watcher; it first receives all existing nodes and pods, then each change."""
        self._watchers.append(watcher)
        for node in self._present.values():
            watcher.node_changed(node)
        for placed in self._placed.values():
            watcher.pod_added(*placed)

    def shared(self, kind: type[W]) -> W:
        """Return the watcher of this class that all callers share, made and registered on first
        use.
        """
        watcher = self._shared.get(kind)
        if watcher is None:
            watcher = self._shared[kind] = kind()
            self.watch(watcher)
        return cast("W", watcher)

    @property
    def is_empty(self) -> bool:
        return not self._present

    def get(self, name: str) -> NodeInfo | None:
        return self._present.get(name)

    def refresh(self) -> None:
        """Bring the node list and the table up to date; called at the start of each attempt."""
        if self._stale:
            self._stale = False
            self.nodes = _interleave_zones(self._present.values())
            if len(self.nodes) < self.large:
                self.table = None
                for node in self.nodes:
                    node.row = -1
            else:
                if self.table is None:
                    from pytest_kscen.embedded.scheduler.framework.node_table import NodeTable

                    self.table = NodeTable()
                self.table.set_nodes(self.nodes)
        if self.table is None:
            return
        for node in self._changed.values():
            if node.row >= 0:
                self.table.write(node)
        for node in self._loaded.values():
            if node.row >= 0:
                self.table.write_load(node)
        self._changed.clear()
        self._loaded.clear()

    def update_node(self, name: str, obj: Obj | None) -> NodeInfo:
        """Set a node's object, or remove the node if it is None. Its pods stay recorded until they
        are unassigned. Watchers are called before this returns.
        """
        node = self._node_info(name)
        if obj is None:
            if self._present.pop(name, None) is not None:
                self._stale = True
                self._changed.pop(name, None)
                self._loaded.pop(name, None)
                for watcher in self._watchers:
                    watcher.node_removed(node)
            self._count_images(node, -1)
            node.set_object(None)
            self._drop_if_empty(node)
            return node
        zone, was_there = node.zone, name in self._present
        self._count_images(node, -1)
        node.set_object(obj)
        self._count_images(node, 1)
        self._present[name] = node
        if not was_there or zone != node.zone:
            self._stale = True
        self._changed[name] = node
        for watcher in self._watchers:
            watcher.node_changed(node)
        return node

    def _count_images(self, node: NodeInfo, sign: int) -> None:
        for image, size in node.images.items():
            if sign > 0:
                self.images.setdefault(image, ImageState(size, {})).nodes[node.name] = None
            elif image in self.images:
                self.images[image].nodes.pop(node.name, None)
                if not self.images[image].nodes:
                    del self.images[image]

    def _node_info(self, name: str) -> NodeInfo:
        if name not in self._names:
            self._names[name] = NodeInfo(name)
        return self._names[name]

    def _drop_if_empty(self, node: NodeInfo) -> None:
        if node.obj is None and not node.pods:
            self._names.pop(node.name, None)

    def pod(self, uid: str) -> PodInfo | None:
        """Return an assigned pod by uid, bound or being bound; None if there is none."""
        placed = self._placed.get(uid)
        return placed.pod if placed else None

    def assign_pod(self, pod: PodInfo, name: str) -> None:
        """Record a pod as being on a node, replacing an earlier record of the same uid. Used for
        bound pods, and for pods about to be bound.
        """
        self.unassign_pod(pod.uid)
        node = self._node_info(name)
        self._placed[pod.uid] = PlacedPod(pod, node)
        node.add(pod)
        self._loaded[name] = node
        for watcher in self._watchers:
            watcher.pod_added(pod, node)

    def unassign_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod's record and return the pod; None if it had none. Watchers are called before
        this returns, and an unused node is dropped.
        """
        placed = self._placed.pop(uid, None)
        if placed is None:
            return None
        pod, node = placed
        node.remove(pod)
        self._loaded[node.name] = node
        for watcher in self._watchers:
            watcher.pod_removed(pod, node)
        self._drop_if_empty(node)
        return pod

    def node_of(self, uid: str) -> str:
        placed = self._placed.get(uid)
        return placed.node.name if placed else ""


def _interleave_zones(nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Return one node of each zone in turn, zones and nodes in order of arrival, as
    kube-scheduler's node tree lists them.
    """
    zones: dict[str, list[NodeInfo]] = {}
    for node in nodes:
        zones.setdefault(node.zone, []).append(node)
    if len(zones) == 1:
        return next(iter(zones.values()))
    longest = max(map(len, zones.values()), default=0)
    return [zone[turn] for turn in range(longest) for zone in zones.values() if turn < len(zone)]
