"""A model of DRBD: the kernels' replication between the machines of a cluster.

Nothing of Kubernetes and nothing of the storage's objects may be imported here. From the bottom up:

  states       configurations, reported states and the quorum rules; pure
  timers       timers on the event loop, and the model's parameters
  replicas     one node's part of a resource, and the writes that it misses
  connections  one connection between two nodes; mesh: all connections of a resource
  kernel       resyncs, and what all resources share; resource: one resource on all its nodes
  drbd         the commands that agents give, and the notification of changes
"""

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
