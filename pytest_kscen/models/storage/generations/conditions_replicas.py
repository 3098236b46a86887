"""What an agent tells of a replica: the kernel's state as the kernel's tool prints it, and
conditions read from it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.models.storage.drbd import ConnectionState, DiskState, ReplicationState, Role
from pytest_kscen.models.storage.volume_view import ConditionValue
from pytest_kscen.objects.storage import DISKFUL

if TYPE_CHECKING:
    from pytest_kscen.models.storage.drbd import PeerConfig, PeerConnection, ResourceStatus
    from pytest_kscen.models.storage.generations.generation import AgentReport
    from pytest_kscen.models.storage.volume_view import ReplicaAddress, VolumeReplica
    from pytest_kscen.objects.resources import Obj

T = TypeVar("T")

IN_SYNC = {
    DiskState.UP_TO_DATE: ConditionValue(holds=True, reason="InSync"),
    DiskState.INCONSISTENT: ConditionValue(
        holds=False, reason="Synchronizing", message="its data is being written"
    ),
    DiskState.OUTDATED: ConditionValue(
        holds=False, reason="Outdated", message="others have written since"
    ),
    DiskState.CONSISTENT: ConditionValue(
        holds=False, reason="Consistent", message="others may have written since"
    ),
    DiskState.DISKLESS: ConditionValue(holds=False, reason="DiskLost", message="the disk is gone"),
    DiskState.UNKNOWN: ConditionValue(holds=False, reason="UnknownDiskState"),
}
HAS_DATA = ConditionValue(holds=True, reason="DataInitialized")
NO_DISK = ConditionValue(holds=True, reason="Diskless", message="there is no disk to keep in sync")
PRIMARY, UP_TO_DATE = (
    Role.PRIMARY,
    DiskState.UP_TO_DATE,
)  # an enumeration takes its time to find them
CONNECTED, SYNCING = (
    ConnectionState.CONNECTED,
    (ReplicationState.SYNC_SOURCE, ReplicationState.SYNC_TARGET),
)
NO_NEED = ConditionValue(holds=True, reason="NotNeeded", message="there is no disk to have data on")
NO_DATA = ConditionValue(
    holds=False, reason="WaitingForData", message="it has never been up to date"
)
BACKING = {
    False: ConditionValue(holds=True, reason="NotNeeded"),
    True: ConditionValue(holds=True, reason="BackingVolumeReady"),
}
ADJUSTED = ConditionValue(holds=True, reason="ConfigurationAdjusted")
QUORUM = {
    False: ConditionValue(holds=False, reason="QuorumLost"),
    True: ConditionValue(holds=True, reason="InQuorum"),
}
ATTACHED = {
    False: ConditionValue(holds=False, reason="Detached"),
    True: ConditionValue(holds=True, reason="Attached"),
}


def agent_conditions(replica: VolumeReplica, report: AgentReport) -> dict[str, ConditionValue]:
    status = report.status
    if status is None:
        return {}
    is_diskful = replica.is_diskful
    return {
        "BackingVolumeCreated": BACKING[is_diskful],
        "ConfigurationAdjusted": ADJUSTED,
        "DataInitialized": _initialized(replica, status) if is_diskful else NO_NEED,
        "InQuorum": QUORUM[status.quorum],
        "InSync": IN_SYNC[status.disk_state] if is_diskful else NO_DISK,
        "Attached": ATTACHED[status.role is PRIMARY],
    }


def has_begun(obj: Obj, initialized: Obj | None) -> bool:
    """Whether it has once had what its type asks for, by the condition that says so: what had no
    disk when it told has no data.
    """
    return initialized is not None and bool(
        obj["spec"]["type"] != DISKFUL or initialized["reason"] == HAS_DATA.reason
    )


def _initialized(replica: VolumeReplica, status: ResourceStatus) -> ConditionValue:
    return HAS_DATA if replica.initialized or status.disk_state is UP_TO_DATE else NO_DATA


def sync_progress(status: ResourceStatus) -> str:
    """How much of the data is there."""
    if status.disk_state == UP_TO_DATE:
        return "100%"
    targets = (
        one
        for one in status.connections.values()
        if one.replication == ReplicationState.SYNC_TARGET
    )
    target = next(targets, None)
    return f"{target.percent_in_sync:.2f}%" if target else status.disk_state.value


def reuse_equal(new: T, old: T | None) -> T:
    """What is told again is the same object, which nobody judges or compares again."""
    return old if old is not None and old == new else new


def kernel(replica: VolumeReplica, report: AgentReport, before: Obj) -> Obj:
    """One resource as `drbdsetup status` prints it, beside what it printed before."""
    status, config = report.status, report.orders.config
    if status is None or config is None:
        return {}
    waits = status.suspended and not status.quorum
    device = {
        "volume": 0,
        "minor": report.orders.minor,
        "diskState": str(status.disk_state),
        "client": not replica.is_diskful,
        "open": status.role is PRIMARY,
        "quorum": status.quorum,
        "size": status.size // 1024,
    }
    known = {one["name"]: one for one in before.get("connections", ())}
    connections = [
        reuse_equal(
            _connection(
                node, one, config.peers.get(node), report.address, _address_of(report, node)
            ),
            known.get(node),
        )
        for node, one in sorted(status.connections.items())
    ]
    resource = {
        "name": replica.obj["spec"]["replicatedVolumeName"],
        "nodeId": config.node_id,
        "role": str(status.role),
        "suspended": status.suspended,
        "suspendedUser": False,
        "suspendedNoData": status.suspended and not waits,
        "suspendedFencing": False,
        "suspendedQuorum": waits,
        "forceIOFailures": False,
        "writeOrdering": "flush",
        "devices": reuse_equal([device], before.get("devices")),
        "connections": reuse_equal(connections, before.get("connections")),
    }
    return reuse_equal(resource, before)


def _address_of(report: AgentReport, node: str) -> ReplicaAddress | None:
    other = report.names.get(node)
    return other.address if other else None


@lru_cache(maxsize=1024)
def _connection(
    node: str,
    connection: PeerConnection,
    peer: PeerConfig | None,
    here: ReplicaAddress,
    there: ReplicaAddress | None,
) -> Obj:
    """The same for all who tell of it."""
    state, peer_role, peer_disk, replication, percent, out_of_sync = connection
    peer_device = {
        "volume": 0,
        "replicationState": str(replication),
        "peerDiskState": str(peer_disk),
        "peerClient": bool(peer and not peer.diskful),
        "resyncSuspended": "no",
        "outOfSync": out_of_sync // 1024,
        "percentInSync": f"{percent:.2f}",
        "hasSyncDetails": replication in SYNCING,
        "hasOnlineVerifyDetails": False,
    }
    path = {
        "thisHost": {"address": here.ipv4, "port": here.port, "family": "ipv4"},
        "remoteHost": {
            "address": there.ipv4 if there else "",
            "port": peer.port if peer else 0,
            "family": "ipv4",
        },
        "established": state is CONNECTED,
    }
    return {
        "peerNodeId": peer.node_id if peer else 0,
        "name": node,
        "connectionState": str(state),
        "congested": False,
        "peerRole": str(peer_role),
        "tls": False,
        "paths": [path],
        "peerDevices": [peer_device],
    }
