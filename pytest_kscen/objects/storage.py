"""The replicated storage's resources, as its users and its controllers name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
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
REPLICATED_VOLUME_ATTACHMENTS = _resource("replicatedvolumeattachments", "ReplicatedVolumeAttachment")
REPLICATED_STORAGE_CLASSES = _resource("replicatedstorageclasses", "ReplicatedStorageClass")
REPLICATED_STORAGE_POOLS = _resource("replicatedstoragepools", "ReplicatedStoragePool")

DISKFUL, ACCESS, TIE_BREAKER = "Diskful", "Access", "TieBreaker"
REPLICAS = 32  # numbers that a volume's replicas may have: <volume>-0 to <volume>-31

IO_READY, QUORUM = "IOReady", "Quorum"

FAILURES_AND_REDUNDANCY = {
    "None": (0, 0),
    "Availability": (1, 0),
    "Consistency": (0, 1),
    "ConsistencyAndAvailability": (1, 1),
}


def volume_of(part: Obj) -> str:
    """The volume that a replica or an attachment belongs to."""
    return str((part.get("spec") or {}).get("replicatedVolumeName") or "")


def copies(storage_class: Obj) -> int:
    """On so many nodes a volume of this class has its data; 1 if the class does not tell."""
    spec = storage_class.get("spec") or {}
    failures, redundancy = FAILURES_AND_REDUNDANCY.get(spec.get("replication", ""), (0, 0))
    return 1 + int(spec.get("failuresToTolerate", failures)) + int(spec.get("guaranteedMinimumDataRedundancy", redundancy))
