"""Plugins NodeVolumeLimits (attachable volumes per CSI driver) and VolumeRestrictions.

VolumeRestrictions keeps exclusive disks and ReadWriteOncePod claims from being used by two pods.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.indexes import claims_of, pods_by_claim
from pytest_kscen.embedded.scheduler.framework.events import (
    CSI_NODES,
    NODE,
    POD,
    VOLUME_ATTACHMENTS,
    Action,
    Interest,
    is_placed,
)
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import (
    SKIP,
    Status,
    unresolvable,
    unschedulable,
)
from pytest_kscen.embedded.scheduler.plugins.volume_binding import is_claim_of_pod
from pytest_kscen.embedded.volume_matching import class_of
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj


LIMIT_EXCEEDED = unschedulable("node(s) exceed max volume count").by("NodeVolumeLimits")
DriverByVolume = dict[str, str]
"""CSI drivers by the identifiers of volumes."""


class NodeVolumeLimits(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        informers = handle.context.informers
        self._csi_nodes = informers.of(CSI_NODES)
        self._claims = informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = informers.of(PERSISTENT_VOLUMES)
        self._classes = informers.of(STORAGE_CLASSES)
        self._attachments = informers.of(VOLUME_ATTACHMENTS).index(
            "node", lambda one: [one["spec"]["nodeName"]]
        )

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        return None if pod.spec.get("volumes") and claims_of(pod.obj) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        limits = _limits(self._csi_nodes.get(node.name))
        wanted = self._volumes_of([pod]) if limits else {}
        if not wanted:
            return None
        there = self._volumes_of(node.pods.values())
        attached: DriverByVolume = {}
        for one in self._attachments.of(node.name):
            spec = one["spec"]
            volume = self._volumes.get((spec.get("source") or {}).get("persistentVolumeName") or "")
            if (
                volume is not None
                and volume["spec"].get("csi")
                and (driver := spec.get("attacher"))
            ):
                handle = volume["spec"]["csi"].get("volumeHandle", "")
                attached[f"{driver}/{handle}"] = driver
        counts = collections.Counter({**attached, **there}.values())
        more = collections.Counter(
            driver for handle, driver in wanted.items() if handle not in there
        )
        return (
            LIMIT_EXCEEDED
            if any(
                counts[driver] + more[driver] > limits[driver]
                for driver in more
                if driver in limits
            )
            else None
        )

    def _volumes_of(self, pods: Iterable[PodInfo]) -> DriverByVolume:
        found: DriverByVolume = {}
        for pod in pods:
            for ref in claims_of(pod.obj) if pod.spec.get("volumes") else ():
                # Find the driver that attaches the claim's volume, and the volume's handle.
                claim = self._claims.objects.get(ref)
                if claim is None:
                    driver, handle = "", ""
                else:
                    volume = self._volumes.get(claim["spec"].get("volumeName") or "")
                    if volume is not None:
                        source = volume["spec"].get("csi") or {}
                        driver, handle = source.get("driver", ""), source.get("volumeHandle", "")
                    else:
                        storage_class = self._classes.get(class_of(claim))
                        driver, handle = (
                            (storage_class or {}).get("provisioner", ""),
                            f"unbound-{ref.namespace}/{ref.name}",
                        )
                if driver and handle:
                    found[f"{driver}/{handle}"] = driver
        return found

    def events(self) -> Sequence[Interest]:
        return (
            Interest(
                "CSINode",
                Action.ADD | Action.UPDATE,
                lambda _, old, new: (
                    old is None
                    or any(
                        count > _limits(old).get(driver, 0)
                        for driver, count in _limits(new).items()
                    )
                ),
            ),
            Interest(
                POD,
                Action.DELETE,
                lambda _, old, __: old is not None and is_placed(old) and bool(claims_of(old)),
            ),
            Interest("PersistentVolumeClaim", Action.ADD, is_claim_of_pod),
            Interest(
                "VolumeAttachment", Action.DELETE, lambda pod, _, __: bool(claims_of(pod.obj))
            ),
        )


def _limits(csi_node: Obj | None) -> dict[str, int]:
    drivers = ((csi_node or {}).get("spec") or {}).get("drivers") or ()
    counts = {one["name"]: (one.get("allocatable") or {}).get("count") for one in drivers}
    return {name: count for name, count in counts.items() if count is not None}


DISK_CONFLICT = unschedulable("node(s) had no available disk").by("VolumeRestrictions")
CLAIM_IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
).by("VolumeRestrictions")
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


def _both_read_only(one: Obj, other: Obj) -> bool:
    return bool(one.get("readOnly") and other.get("readOnly"))


CONFLICTS: dict[str, Callable[[Obj, Obj], bool]] = {
    "gcePersistentDisk": lambda one, other: (
        one.get("pdName") == other.get("pdName") and not _both_read_only(one, other)
    ),
    "awsElasticBlockStore": lambda one, other: one.get("volumeID") == other.get("volumeID"),
    "iscsi": lambda one, other: (
        one.get("iqn") == other.get("iqn") and not _both_read_only(one, other)
    ),
    "rbd": lambda one, other: (
        not set(one.get("monitors") or ()).isdisjoint(other.get("monitors") or ())
        and all(one.get(name, "rbd") == other.get(name, "rbd") for name in ("pool", "image"))
        and not _both_read_only(one, other)
    ),
}
"""Conditions by kind of volume under which two volumes cannot be on one node."""


@dataclass(slots=True)
class ReadWriteOncePodClaims:
    """ReadWriteOncePod claims of the pod, and how many uses by other pods there are."""

    claims: frozenset[Ref]
    used: int

    def clone(self) -> ReadWriteOncePodClaims:
        return replace(self)


class VolumeRestrictions(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        informers = handle.context.informers
        self._claims = informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._pods_by_claim = pods_by_claim(informers)

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        volumes = pod.spec.get("volumes")
        if not volumes:
            return SKIP
        alone = []
        for ref in _named_claims(pod.obj):
            claim = self._claims.objects.get(ref)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{ref.name}" not found')
            if READ_WRITE_ONCE_POD in (claim["spec"].get("accessModes") or ()):
                alone.append(ref)
        assigned = self.handle.snapshot.pod
        used = sum(
            any(assigned(user["metadata"]["uid"]) for user in self._pods_by_claim.of(ref))
            for ref in alone
        )
        found = ReadWriteOncePodClaims(frozenset(alone), used)
        if not found.used and not _restricted_disks(volumes):
            return SKIP
        state[self.name] = found
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        self._count(state, added, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        self._count(state, removed, -1)

    def _count(self, state: CycleState, other: PodInfo, sign: int) -> None:
        found: ReadWriteOncePodClaims | None = state.get(self.name)
        if found is not None:
            found.used += sign * sum(ref in found.claims for ref in _named_claims(other.obj))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        disks = _restricted_disks(pod.spec.get("volumes") or ())
        if disks and any(_disks_conflict(disks, other.obj) for other in node.pods.values()):
            return DISK_CONFLICT
        found: ReadWriteOncePodClaims | None = state.get(self.name)
        return CLAIM_IN_USE if found is not None and found.used > 0 else None

    def events(self) -> Sequence[Interest]:
        return (
            Interest(
                POD,
                Action.DELETE,
                lambda pod, old, _: (
                    old is not None
                    and old["metadata"].get("namespace", "") == pod.namespace
                    and (
                        not set(_named_claims(old)).isdisjoint(_named_claims(pod.obj))
                        or _disks_conflict(_restricted_disks(pod.spec.get("volumes") or ()), old)
                    )
                ),
            ),
            Interest(NODE, Action.ADD),
            Interest("PersistentVolumeClaim", Action.ADD, is_claim_of_pod),
        )


def _named_claims(pod: Obj) -> list[Ref]:
    namespace = pod["metadata"].get("namespace", "")
    volumes = pod["spec"].get("volumes") or ()
    return [
        Ref(namespace, one["persistentVolumeClaim"]["claimName"])
        for one in volumes
        if one.get("persistentVolumeClaim")
    ]


def _restricted_disks(volumes: Iterable[Obj]) -> list[tuple[str, Obj]]:
    return [(kind, volume[kind]) for volume in volumes for kind in CONFLICTS if volume.get(kind)]


def _disks_conflict(disks: list[tuple[str, Obj]], other: Obj) -> bool:
    theirs = _restricted_disks(other["spec"].get("volumes") or ())
    return any(
        kind == other_kind and CONFLICTS[kind](disk, taken)
        for kind, disk in disks
        for other_kind, taken in theirs
    )
