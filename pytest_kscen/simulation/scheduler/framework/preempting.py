"""Pods for which room is being made: where, and who counts as being there already."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo


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
        return [one for one in self._by_node.get(node, {}).values() if one.uid != pod.uid and one.priority >= pod.priority]

    def nodes(self) -> list[str]:
        return list(self._by_node)
