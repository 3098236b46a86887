"""The cluster as the scheduler sees it: every node with its pods, those included that are on their
way there.

It follows the pictures of nodes and pods at once. The order of the nodes is the real scheduler's:
zones take turns. Whoever counts pods or nodes for himself watches, and hears of each change once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.scheduler.framework.node_table import Table
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import PodInfo
    from pytest_kscen.objects.resources import Obj

LARGE = 64  # nodes from which on a table of all nodes is quicker than one node after the other


class Watcher:
    """Hears of changes.

    Nodes are told of only while they are there; pods of nodes that are not, are as well.
    """

    def pod_added(self, pod: PodInfo, node: NodeInfo) -> None: ...

    def pod_removed(self, pod: PodInfo, node: NodeInfo) -> None: ...

    def node_changed(self, node: NodeInfo) -> None:
        """It has come, or its object has changed."""

    def node_removed(self, node: NodeInfo) -> None: ...


W = TypeVar("W", bound=Watcher)


class Placed(NamedTuple):
    pod: PodInfo
    node: NodeInfo


class Image(NamedTuple):
    """Its size on the first node that had it, and the nodes that have it."""

    size: int
    nodes: dict[str, None]


class Snapshot:
    """All nodes by name, and all pods that are on them."""

    def __init__(self, large: int = LARGE) -> None:
        self.nodes: list[NodeInfo] = []
        """Those that are there, as of the beginning of the attempt.

        Never changed, only replaced.
        """
        self.table: Table | None = None
        """The same nodes as columns, in a large cluster."""
        self.images: dict[str, Image] = {}
        """By name, those that any node has."""
        self.large = large
        self._names: dict[str, NodeInfo] = {}
        self._placed: dict[str, Placed] = {}
        self._present: dict[str, NodeInfo] = {}
        self._stale = False
        self._changed: dict[str, NodeInfo] = {}
        self._loaded: dict[str, NodeInfo] = {}
        self._watchers: list[Watcher] = []
        self._shared: dict[type[Watcher], Watcher] = {}

    def watch(self, watcher: Watcher) -> None:
        """Tell this watcher of every change, beginning with what is there."""
        self._watchers.append(watcher)
        for node in self._present.values():
            watcher.node_changed(node)
        for placed in self._placed.values():
            watcher.pod_added(*placed)

    def shared(self, kind: type[W]) -> W:
        """The one watcher of this kind that all who ask share; it watches from the first time
        on.
        """
        watcher = self._shared.get(kind)
        if watcher is None:
            watcher = self._shared[kind] = kind()
            self.watch(watcher)
        return cast("W", watcher)

    @property
    def is_empty(self) -> bool:
        """Whether no node is there at this moment."""
        return not self._present

    def get(self, name: str) -> NodeInfo | None:
        """A node that is there."""
        return self._present.get(name)

    def refresh(self) -> None:
        """An attempt begins: bring what is computed of all nodes up to date."""
        if self._stale:
            self._stale = False
            self.nodes = _in_turns(self._present.values())
            self._choose_table()
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

    def _choose_table(self) -> None:
        if len(self.nodes) < self.large:
            self.table = None
            for node in self.nodes:
                node.row = -1
            return
        if self.table is None:
            from pytest_kscen.embedded.scheduler.framework.node_table import Table

            self.table = Table()
        self.table.arrange(self.nodes)

    # --- nodes ---

    def see_node(self, name: str, obj: Obj | None) -> NodeInfo:
        """The node as it is now."""
        node = self._at(name)
        if obj is None:
            self._remove_node(node)
            return node
        zone, was_there = node.zone, name in self._present
        self._count_images(node, -1)
        node.show(obj)
        self._count_images(node, 1)
        self._present[name] = node
        if not was_there or zone != node.zone:
            self._stale = True
        self._changed[name] = node
        for watcher in self._watchers:
            watcher.node_changed(node)
        return node

    def _remove_node(self, node: NodeInfo) -> None:
        if self._present.pop(node.name, None) is not None:
            self._stale = True
            self._changed.pop(node.name, None)
            self._loaded.pop(node.name, None)
            for watcher in self._watchers:
                watcher.node_removed(node)
        self._count_images(node, -1)
        node.show(None)
        self._tidy(node)

    def _count_images(self, node: NodeInfo, sign: int) -> None:
        for image, size in node.images.items():
            if sign > 0:
                self.images.setdefault(image, Image(size, {})).nodes[node.name] = None
            elif image in self.images:
                self.images[image].nodes.pop(node.name, None)
                if not self.images[image].nodes:
                    del self.images[image]

    def _at(self, name: str) -> NodeInfo:
        if name not in self._names:
            self._names[name] = NodeInfo(name)
        return self._names[name]

    def _tidy(self, node: NodeInfo) -> None:
        if node.obj is None and not node.pods:
            self._names.pop(node.name, None)

    # --- pods ---

    def pod(self, uid: str) -> PodInfo | None:
        """A pod that is on a node, or on its way."""
        placed = self._placed.get(uid)
        return placed.pod if placed else None

    def put(self, pod: PodInfo, name: str) -> None:
        """The pod is on this node, or will be."""
        self.take(pod.uid)
        node = self._at(name)
        self._placed[pod.uid] = Placed(pod, node)
        node.add(pod)
        self._loaded[name] = node
        for watcher in self._watchers:
            watcher.pod_added(pod, node)

    def take(self, uid: str) -> PodInfo | None:
        """The pod is there no longer."""
        placed = self._placed.pop(uid, None)
        if placed is None:
            return None
        pod, node = placed
        node.remove(pod)
        self._loaded[node.name] = node
        for watcher in self._watchers:
            watcher.pod_removed(pod, node)
        self._tidy(node)
        return pod

    def node_of(self, uid: str) -> str:
        """Where the pod is."""
        placed = self._placed.get(uid)
        return placed.node.name if placed else ""


def _in_turns(nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """One node of each zone after the other, zones and nodes in the order in which they came."""
    zones: dict[str, list[NodeInfo]] = {}
    for node in nodes:
        zones.setdefault(node.zone, []).append(node)
    if len(zones) == 1:
        return next(iter(zones.values()))
    longest = max(map(len, zones.values()), default=0)
    return [zone[turn] for turn in range(longest) for zone in zones.values() if turn < len(zone)]
