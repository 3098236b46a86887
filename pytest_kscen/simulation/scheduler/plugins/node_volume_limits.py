"""How many volumes of a CSI driver a node can have attached: what its CSINode says."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from pytest_kscen.simulation.pictures import claims_of
from pytest_kscen.simulation.scheduler.framework.events import POD, Action, Interest
from pytest_kscen.simulation.scheduler.framework.kinds import CSI_NODES, VOLUME_ATTACHMENTS
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import SKIP, Status, unschedulable
from pytest_kscen.simulation.volumes.matching import class_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.handle import Handle
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

FULL = unschedulable("node(s) exceed max volume count").by("NodeVolumeLimits")
Volumes = dict[str, str]
"""Drivers by what identifies a volume."""


class NodeVolumeLimits(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        informers = handle.bench.informers
        self._csi_nodes = informers.of(CSI_NODES)
        self._claims = informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = informers.of(PERSISTENT_VOLUMES)
        self._classes = informers.of(STORAGE_CLASSES)
        self._attachments = informers.of(VOLUME_ATTACHMENTS).index("node", lambda one: [one["spec"]["nodeName"]])

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        return None if pod.spec.get("volumes") and claims_of(pod.obj) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        limits = _limits(self._csi_nodes.get(node.name))
        wanted = self._of([pod]) if limits else {}
        if not wanted:
            return None
        there = self._of(node.pods.values())
        attached = {**self._attached(node.name), **there}
        counts = collections.Counter(attached.values())
        more = collections.Counter(driver for volume, driver in wanted.items() if volume not in there)
        return FULL if any(counts[driver] + more[driver] > limits[driver] for driver in more if driver in limits) else None

    def _of(self, pods: Iterable[PodInfo]) -> Volumes:
        found: Volumes = {}
        for pod in pods:
            for ref in claims_of(pod.obj) if pod.spec.get("volumes") else ():
                driver, handle = self._driver(ref)
                if driver and handle:
                    found[f"{driver}/{handle}"] = driver
        return found

    def _driver(self, ref: Ref) -> tuple[str, str]:
        """Who attaches the volume behind a claim, and what he calls it."""
        claim = self._claims.objects.get(ref)
        if claim is None:
            return "", ""
        volume = self._volumes.get(claim["spec"].get("volumeName") or "")
        if volume is not None:
            source = volume["spec"].get("csi") or {}
            return source.get("driver", ""), source.get("volumeHandle", "")
        storage_class = self._classes.get(class_of(claim))
        return (storage_class or {}).get("provisioner", ""), f"unbound-{ref.namespace}/{ref.name}"

    def _attached(self, node: str) -> Volumes:
        found: Volumes = {}
        for one in self._attachments.of(node):
            spec = one["spec"]
            volume = self._volumes.get((spec.get("source") or {}).get("persistentVolumeName") or "")
            if volume is not None and volume["spec"].get("csi") and spec.get("attacher"):
                found[f"{spec['attacher']}/{volume['spec']['csi'].get('volumeHandle', '')}"] = spec["attacher"]
        return found

    def events(self) -> Sequence[Interest]:
        return (
            Interest("CSINode", Action.ADD | Action.UPDATE, _takes_more),
            Interest(POD, Action.DELETE, lambda _, old, __: old is not None and _was_placed(old) and bool(claims_of(old))),
            Interest("PersistentVolumeClaim", Action.ADD, _is_its_claim),
            Interest("VolumeAttachment", Action.DELETE, lambda pod, _, __: bool(claims_of(pod.obj))),
        )


def _limits(csi_node: Obj | None) -> dict[str, int]:
    drivers = ((csi_node or {}).get("spec") or {}).get("drivers") or ()
    counts = {one["name"]: (one.get("allocatable") or {}).get("count") for one in drivers}
    return {name: count for name, count in counts.items() if count is not None}


def _takes_more(_: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    before, now = _limits(old), _limits(new)
    return old is None or any(count > before.get(name, 0) for name, count in now.items())


def _was_placed(pod: Obj) -> bool:
    return bool(pod["spec"].get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName"))


def _is_its_claim(pod: PodInfo, _: Obj | None, new: Obj | None) -> bool:
    return new is not None and Ref.of(new) in claims_of(pod.obj)
