"""Vocabulary of the replicated storage: resources, labels, and the health that volumes publish.

Shared by the harness, its checks and the simulated storage. Each generation of the storage
publishes health elsewhere, and promises other things. A missing condition means nothing: it does
not exist yet, or does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.extensions import Registry
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.objects.resources import Obj


GROUP = "storage.deckhouse.io"
VERSION = "v1alpha1"
NAMESPACE = "d8-sds-replicated-volume"
NODE_LABEL = "storage.deckhouse.io/sds-replicated-volume-node"
AGENT_LABEL, CONTROLLER_LABEL = "app=agent", "app=controller"


def _resource(plural: str, kind: str) -> Resource:
    return Resource(GROUP, VERSION, plural, kind, namespaced=False)


REPLICATED_VOLUMES = _resource("replicatedvolumes", "ReplicatedVolume")
REPLICATED_VOLUME_REPLICAS = _resource("replicatedvolumereplicas", "ReplicatedVolumeReplica")
REPLICATED_VOLUME_ATTACHMENTS = _resource(
    "replicatedvolumeattachments", "ReplicatedVolumeAttachment"
)
REPLICATED_STORAGE_CLASSES = _resource("replicatedstorageclasses", "ReplicatedStorageClass")
REPLICATED_STORAGE_POOLS = _resource("replicatedstoragepools", "ReplicatedStoragePool")

DISKFUL, ACCESS, TIE_BREAKER = "Diskful", "Access", "TieBreaker"
REPLICAS = 32  # numbers of a volume's replicas: <volume>-0 to <volume>-31

IO_READY, QUORUM = "IOReady", "Quorum"

FAILURES_AND_REDUNDANCY = {
    "None": (0, 0),
    "Availability": (1, 0),
    "Consistency": (0, 1),
    "ConsistencyAndAvailability": (1, 1),
}


def volume_of(part: Obj) -> str:
    return str((part.get("spec") or {}).get("replicatedVolumeName") or "")


def copies(storage_class: Obj) -> int:
    """Return the number of nodes with data of a volume of this class; 1 if the class gives
    none.
    """
    spec = storage_class.get("spec") or {}
    failures, redundancy = FAILURES_AND_REDUNDANCY.get(spec.get("replication", ""), (0, 0))
    return (
        1
        + int(spec.get("failuresToTolerate", failures))
        + int(spec.get("guaranteedMinimumDataRedundancy", redundancy))
    )


READY = "Ready"
QUORUM_MET, IO_WORKS = "QuorumMet", "IOWorks"
IN_SYNC, BACKING_VOLUME_UP_TO_DATE = "InSync", "BackingVolumeUpToDate"


class Observed(NamedTuple):
    """Condition as it was observed. Its status is True, False or Unknown, in Kubernetes'
    spelling.
    """

    status: str
    reason: str = ""
    message: str = ""

    @property
    def holds(self) -> bool:
        return self.status == "True"


@dataclass(frozen=True, slots=True)
class HealthSource:
    """Place where a generation of the storage publishes a volume's health, and the conditions that
    are watched there.
    """

    name: str
    conditions: tuple[str, ...]
    find: Callable[[Obj, str], Observed | None]
    up_to_date: str
    """Condition of a replica with a disk that is True once it has all of the data."""
    has_layout: bool = False
    """True if volumes publish an effective layout in their status, as the generations after the
    first do.
    """

    def read(self, volume: Obj | None) -> dict[str, Observed]:
        """Return the published conditions, by name; unpublished ones are left out."""
        found = {name: self.find(volume, name) for name in self.conditions} if volume else {}
        return {name: observed for name, observed in found.items() if observed}

    def is_ready(self, volume: Obj | None) -> bool:
        seen = self.read(volume)
        return all(name in seen and seen[name].holds for name in self.conditions)

    def is_up_to_date(self, replica: Obj) -> bool:
        """Return True if a replica with a disk has all of the volume's data."""
        return is_true(replica, self.up_to_date)


def observed_condition(volume: Obj, name: str) -> Observed | None:
    """Return a condition in a volume's status, as it was observed; None if it is not there."""
    found = condition(volume, name)
    return (
        Observed(found["status"], found.get("reason", ""), found.get("message", ""))
        if found
        else None
    )


class _Level(NamedTuple):
    """Number in status.effectiveLayout that is a condition: below zero it is False, and gives the
    deficit.
    """

    field: str
    enough: str
    missing: str


_LEVELS: Mapping[str, _Level] = {
    QUORUM_MET: _Level("failuresToTolerate", "QuorumMet", "QuorumLost"),
    IO_WORKS: _Level("guaranteedMinimumDataRedundancy", "IOWorks", "InsufficientUpToDateReplicas"),
}


def _computed(volume: Obj, name: str) -> Observed | None:
    """Return a condition computed from the effective layout.

    A number that is missing makes it Unknown as soon as the volume has voters; before, there is no
    condition.
    """
    layout = (volume.get("status") or {}).get("effectiveLayout") or {}
    level, message = _LEVELS[name], layout.get("message", "")
    number = layout.get(level.field)
    if number is not None:
        enough = number >= 0
        return Observed(str(enough), level.enough if enough else level.missing, message)
    return Observed("Unknown", "StatusUnknown", message) if layout.get("totalVoters") else None


HEALTH_SOURCES: Registry[HealthSource] = Registry(
    "health_sources",
    "health source",
    facts={},
    built_in=(
        HealthSource("conditions", (IO_READY, QUORUM), observed_condition, IN_SYNC),
        HealthSource(
            "effectiveLayout",
            (QUORUM_MET, IO_WORKS),
            _computed,
            BACKING_VOLUME_UP_TO_DATE,
            has_layout=True,
        ),
        HealthSource(
            "ready", (READY,), observed_condition, BACKING_VOLUME_UP_TO_DATE, has_layout=True
        ),
    ),
)
DEFAULT_HEALTH = HEALTH_SOURCES["conditions"]
