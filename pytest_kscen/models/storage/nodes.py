"""Nodes as the storage sees them: which may hold replicas, which are ready, and whose agent works.

Kept from the caches of nodes and of agents' pods; read by the controller and by placement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import NODES, PODS
from pytest_kscen.objects.storage import NAMESPACE, NODE_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj

NODE_NOT_READY, AGENT_NOT_READY, AGENT_POD_MISSING = (
    "NodeNotReady",
    "AgentNotReady",
    "AgentPodMissing",
)
ZONE_LABEL = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class StorageNode:
    """Node with its zone and its ability to hold replicas, as one immutable value."""

    name: str
    zone: str = ""
    takes_replicas: bool = False
    problem: str = NODE_NOT_READY
    """Reason why the state of replicas there is unknown; empty if the node's agent works."""


class StorageNodes:
    """Nodes of the cluster, by name. Listeners are called with the name of a node that changed."""

    def __init__(self, informers: Informers) -> None:
        self.hosts: dict[str, StorageNode] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._nodes = informers.of(NODES)
        self._pods = informers.of(PODS)
        self._agents = self._pods.index("storage's agents", _agent_on)
        self._nodes.on_change(lambda new, old: self._update((new or old or {})["metadata"]["name"]))

        def pod_changed(new: Obj | None, old: Obj | None) -> None:
            now, before = _agent_on(new) if new else [], _agent_on(old) if old else []
            for node in now if now == before else [*now, *before]:
                self._update(node)

        self._pods.on_change(pod_changed)

    def on_change(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    async def synced(self) -> None:
        await self._nodes.synced()
        await self._pods.synced()

    def host(self, name: str) -> StorageNode:
        return self.hosts.get(name) or StorageNode(name)

    def _update(self, name: str) -> None:
        node = self._nodes.get(name)
        host = None
        if node:
            labels, agents = node["metadata"].get("labels") or {}, self._agents.of(name)
            if not is_true(node, "Ready"):
                problem = NODE_NOT_READY
            elif not agents:
                problem = AGENT_POD_MISSING
            else:
                problem = "" if any(is_true(pod, "Ready") for pod in agents) else AGENT_NOT_READY
            host = StorageNode(name, labels.get(ZONE_LABEL, ""), NODE_LABEL in labels, problem)
        if host != self.hosts.get(name):
            self.hosts.pop(name, None)
            if host:
                self.hosts[name] = host
            for listener in self._listeners:
                listener(name)


def _agent_on(pod: Obj) -> list[str]:
    metadata = pod["metadata"]
    if (
        metadata.get("namespace") != NAMESPACE
        or (metadata.get("labels") or {}).get("app") != "agent"
    ):
        return []
    node = pod["spec"].get("nodeName")
    return [node] if node else []
