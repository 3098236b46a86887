"""Plugin VolumeZone: pods run in the zone or region that their volumes are labelled with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.embedded.scheduler.framework.events import NODE, Action, Interest
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import SKIP, Status, unresolvable
from pytest_kscen.embedded.volume_matching import class_of
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Resource,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

ZONE_CONFLICT = unresolvable("node(s) had no available volume zone").by("VolumeZone")
BETA_ZONE, BETA_REGION = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
GA_LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION}
ZONE_DELIMITER = "__"  # separates several zones in one label


class ZoneRequirement(NamedTuple):
    """Label that a node must have, with the values that the volume allows."""

    label: str
    values: frozenset[str]


class VolumeZone(Plugin):
    """Filter by the zone and region labels of bound volumes; beta labels match their GA names
    too.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        informers = handle.context.informers
        self._claims = informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = informers.of(PERSISTENT_VOLUMES)
        self._classes = informers.of(STORAGE_CLASSES)

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        wanted: list[ZoneRequirement] = []
        for name in _claim_names(pod):
            found = self._wanted(Ref(pod.namespace, name))
            if isinstance(found, Status):
                return found
            wanted += found
        if not wanted:
            return SKIP
        state[self.name] = wanted
        return None

    def _wanted(self, ref: Ref) -> list[ZoneRequirement] | Status:
        """Return the label requirements of the volume behind a claim, or a refusal if claim, volume
        or class are missing. Claims that wait for their first consumer have none.
        """
        claim = self._claims.objects.get(ref)
        if claim is None:
            return _missing(PERSISTENT_VOLUME_CLAIMS, ref.name)
        name = claim["spec"].get("volumeName")
        if name:
            volume = self._volumes.get(name)
            return (
                _missing(PERSISTENT_VOLUMES, name) if volume is None else _zone_requirements(volume)
            )
        class_name = class_of(claim)
        if not class_name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = self._classes.get(class_name)
        if storage_class is None:
            return _missing(STORAGE_CLASSES, class_name)
        waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        return [] if waits else unresolvable("PersistentVolume had no name")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        labels = node.labels
        if not any(label in labels for label in LABELS):
            return None
        for label, values in state[self.name]:
            if labels.get(label, labels.get(GA_LABELS.get(label, label))) not in values:
                return ZONE_CONFLICT
        return None

    def events(self) -> Sequence[Interest]:
        return (
            Interest(
                "StorageClass",
                Action.ADD,
                lambda _, __, new: bool(
                    new and new.get("volumeBindingMode") == "WaitForFirstConsumer"
                ),
            ),
            Interest(NODE, Action.ADD | Action.NODE_LABEL),
            Interest(
                "PersistentVolumeClaim",
                Action.ADD | Action.UPDATE,
                lambda pod, _, new: (
                    new is not None
                    and new["metadata"].get("namespace") == pod.namespace
                    and new["metadata"]["name"] in _claim_names(pod)
                ),
            ),
            Interest(
                "PersistentVolume",
                Action.ADD | Action.UPDATE,
                lambda _, old, new: (
                    not (old and new) or _zone_requirements(old) != _zone_requirements(new)
                ),
            ),
        )


def _claim_names(pod: PodInfo) -> list[str]:
    volumes = pod.spec.get("volumes") or ()
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes
        if volume.get("persistentVolumeClaim")
    ]


def _missing(resource: Resource, name: str) -> Status:
    group = f".{resource.group}" if resource.group else ""
    return unresolvable(f'{resource.kind.lower()}{group} "{name}" not found')


def _zone_requirements(volume: Obj) -> list[ZoneRequirement]:
    labels = volume["metadata"].get("labels") or {}
    return [
        ZoneRequirement(label, frozenset(labels[label].split(ZONE_DELIMITER)))
        for label in LABELS
        if label in labels
    ]
