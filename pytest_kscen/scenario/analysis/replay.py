"""State of the cluster after each event of a timeline, with exact amounts of resources in nano-
units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.objects.quantities import NANO, nanos

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.models import PodRef, TimelineEvent


PODS = "pods"
FIRST = ("cpu", "memory")
OVER = ("Succeeded", "Failed")

Amounts = dict[str, int]


def requests_of(pod: Obj) -> Amounts:
    """Return a pod's requests: its containers together or its largest init container, plus
    overhead; nothing once it has finished.
    """
    if (pod.get("status") or {}).get("phase") in OVER:
        return {}
    spec = pod["spec"]
    together: Amounts = {}
    for each in spec.get("containers") or ():
        _add(together, _requests(each))
    first: Amounts = {}
    aside: Amounts = {}
    for each in spec.get("initContainers") or ():
        if each.get("restartPolicy") == "Always":  # a sidecar, which stays
            _add(aside, _requests(each))
            _raise(first, aside)
        else:
            _raise(first, _sum(aside, _requests(each)))
    found = _sum(together, aside)
    _raise(found, first)
    _add(found, _read(spec.get("overhead")))
    return {PODS: NANO, **{name: amount for name, amount in found.items() if amount}}


def allocatable_of(node: Obj) -> Amounts:
    return _read((node.get("status") or {}).get("allocatable"))


def in_order(resources: Iterable[str]) -> list[str]:
    """Return the resources in the order of reports: CPU and memory first, the number of pods last,
    others by name.
    """
    return sorted(resources, key=lambda name: (name not in FIRST, name == PODS, name))


def _requests(container: Obj) -> Amounts:
    return _read((container.get("resources") or {}).get("requests"))


def _read(quantities: Obj | None) -> Amounts:
    return {name: nanos(quantity) for name, quantity in (quantities or {}).items()}


def _add(target: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        target[name] = target.get(name, 0) + amount


def _raise(target: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        target[name] = max(target.get(name, 0), amount)


def _sum(one: Amounts, other: Amounts) -> Amounts:
    found = dict(one)
    _add(found, other)
    return found


Name = tuple[str, str]
"""Namespace and name of a pod."""


@dataclass
class ClusterState:
    """State of the cluster at one moment of the timeline. Amounts are in nano-units."""

    nodes: dict[str, Obj] = field(default_factory=dict)
    pods: dict[Name, Obj] = field(default_factory=dict)
    placed: dict[Name, str] = field(default_factory=dict)
    """Nodes of the placed pods."""
    pending: dict[Name, Obj] = field(default_factory=dict)
    """Pods without a node."""
    requests: dict[Name, Amounts] = field(default_factory=dict)
    """Requests of each pod."""
    allocatable: dict[str, Amounts] = field(default_factory=dict)
    """Allocatable amounts of each node."""
    requested: dict[str, Amounts] = field(default_factory=dict)
    """Sum of the requests of the pods on each node."""
    touched: dict[str, None] = field(default_factory=dict)
    """Nodes whose amounts or pods have changed since `touched` was last emptied."""

    def free(self, node: str, resource: str) -> int:
        """Return the amount that is left of a resource; negative if the node is overcommitted."""
        return self.allocatable[node].get(resource, 0) - self.requested.get(node, {}).get(
            resource, 0
        )

    def apply(self, event: TimelineEvent) -> None:
        made = event.create or event.patch
        if made and made.result:
            obj = made.result
            is_new = event.create is not None
            metadata = obj["metadata"]
            if obj.get("kind") == "Node":
                self.nodes[metadata["name"]], self.allocatable[metadata["name"]] = (
                    obj,
                    allocatable_of(obj),
                )
                self.touched[metadata["name"]] = None
            elif obj.get("kind") == "Pod":
                name = (metadata.get("namespace") or "default", metadata["name"])
                if is_new:
                    self._forget_pod(name)
                # A terminating pod that was removed is not added again.
                if name in self.pods or not metadata.get("deletionTimestamp"):
                    node = obj["spec"].get("nodeName") or self.placed.get(name, "")
                    self._leave(name)
                    self.pods[name], self.requests[name] = obj, requests_of(obj)
                    self.pending[name] = obj
                    if node:
                        self._place(name, node)
        elif event.delete:
            self._forget(*target_of(event.delete.operation))
        elif event.pod_scheduled:
            self._place(name_of(event.pod_scheduled.pod), event.pod_scheduled.bound_to)
        elif event.pod_unscheduled:
            self._forget_pod(name_of(event.pod_unscheduled.pod))

    def _place(self, name: Name, node: str) -> None:
        self._leave(name)
        self.pending.pop(name, None)
        self.placed[name] = node
        self._count(name, node, 1)

    def _leave(self, name: Name) -> None:
        if (node := self.placed.pop(name, None)) is not None:
            self._count(name, node, -1)

    def _count(self, name: Name, node: str, sign: int) -> None:
        requested = self.requested.setdefault(node, {})
        for resource, amount in self.requests.get(name, {}).items():
            requested[resource] = requested.get(resource, 0) + sign * amount
        self.touched[node] = None

    def _forget(self, kind: str, name: Name) -> None:
        if kind == "Node" and name[1] in self.nodes:
            del self.nodes[name[1]], self.allocatable[name[1]]
            self.touched[name[1]] = None
        elif kind == "Pod":
            self._forget_pod(name)

    def _forget_pod(self, name: Name) -> None:
        self._leave(name)
        for kept in (self.pods, self.requests, self.pending):
            kept.pop(name, None)


def scenes(events: Iterable[TimelineEvent]) -> Iterator[tuple[TimelineEvent, ClusterState]]:
    """Yield each event with the cluster after it; the scene is one object that is updated."""
    scene = ClusterState()
    for event in events:
        scene.apply(event)
        yield event, scene


def steps(events: Iterable[TimelineEvent]) -> Iterator[tuple[int, ClusterState]]:
    """Yield each major step with the cluster at its end; `touched` has the nodes that changed
    in it.
    """
    step, scene = None, ClusterState()
    for event in events:
        if step is not None and event.step.major != step:
            yield step, scene
            scene.touched.clear()
        step = event.step.major
        scene.apply(event)
    if step is not None:
        yield step, scene


def name_of(pod: PodRef) -> Name:
    return pod.namespace or "default", pod.name


def target_of(operation: Obj) -> tuple[str, Name]:
    """Return kind, and namespace and name, of the object that an operation deletes or patches."""
    metadata = operation["objectMeta"]
    return operation["typeMeta"]["kind"], (metadata.get("namespace") or "default", metadata["name"])
