"""The cluster as it was after each event of a timeline: its nodes, its pods, and which pod was on which node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.models import PodRef, TimelineEvent

Name = tuple[str, str]


@dataclass
class Scene:
    """One moment."""

    nodes: dict[str, Obj] = field(default_factory=dict)
    pods: dict[Name, Obj] = field(default_factory=dict)
    placed: dict[Name, str] = field(default_factory=dict)

    def see(self, event: TimelineEvent) -> None:
        made = event.create or event.patch
        if made and made.result:
            self._show(made.result)
        elif event.delete:
            target = event.delete.operation
            metadata = target["objectMeta"]
            self._forget(target["typeMeta"]["kind"], (metadata.get("namespace", "default"), metadata["name"]))
        elif event.pod_scheduled:
            self.placed[_name(event.pod_scheduled.pod)] = event.pod_scheduled.bound_to
        elif event.pod_unscheduled:
            self._forget("Pod", _name(event.pod_unscheduled.pod))

    def _show(self, obj: Obj) -> None:
        metadata = obj["metadata"]
        if obj.get("kind") == "Node":
            self.nodes[metadata["name"]] = obj
        elif obj.get("kind") == "Pod":
            name = (metadata.get("namespace", "default"), metadata["name"])
            self.pods[name] = obj
            if node := obj["spec"].get("nodeName"):
                self.placed[name] = node

    def _forget(self, kind: str, name: Name) -> None:
        if kind == "Node":
            self.nodes.pop(name[1], None)
        elif kind == "Pod":
            self.pods.pop(name, None)
            self.placed.pop(name, None)


def scenes(events: Iterable[TimelineEvent]) -> Iterator[tuple[TimelineEvent, Scene]]:
    """Each event with the cluster after it; the scene is one and the same, and goes on."""
    scene = Scene()
    for event in events:
        scene.see(event)
        yield event, scene


def _name(pod: PodRef) -> Name:
    return pod.namespace or "default", pod.name
