"""The kernels' replication between a cluster's machines. Nothing of Kubernetes or of the storage's
objects may enter here.

From below: `words`, `figures`, `quorum` and `weather` are pure; `links`, `replicas`, `writes` and
`resync` are the state of one thing each; `mesh` and `accord` are a resource's, a `volume` is both;
`drbd` takes the commands, `news` tells."""

from pytest_kscen.models.storage.drbd.drbd import Drbd
from pytest_kscen.models.storage.drbd.states import (
    ConnectionState,
    DiskState,
    DrbdRefused,
    PeerConfig,
    PeerConnection,
    QuorumRule,
    ReplicationState,
    ResourceConfig,
    ResourceStatus,
    Role,
)

__all__ = [
    "ConnectionState",
    "DiskState",
    "Drbd",
    "DrbdRefused",
    "PeerConfig",
    "PeerConnection",
    "QuorumRule",
    "ReplicationState",
    "ResourceConfig",
    "ResourceStatus",
    "Role",
]
