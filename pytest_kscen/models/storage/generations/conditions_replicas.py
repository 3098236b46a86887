"""Agents' reports of the first generation: the kernel's state as its tool prints it, and
conditions.

Called by the generation. Unchanged parts stay the same objects, so that comparing them is quick.
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
        holds=False, reason="Synchronizing", message="a resync is in progress"
    ),
    DiskState.OUTDATED: ConditionValue(
        holds=False, reason="Outdated", message="other replicas have newer data"
    ),
    DiskState.CONSISTENT: ConditionValue(
        holds=False, reason="Consistent", message="other replicas may have newer data"
    ),
    DiskState.DISKLESS: ConditionValue(holds=False, reason="DiskLost", message="the disk is gone"),
    DiskState.UNKNOWN: ConditionValue(holds=False, reason="UnknownDiskState"),
}
HAS_DATA = ConditionValue(holds=True, reason="DataInitialized")
NO_DISK = ConditionValue(holds=True, reason="Diskless", message="there is no disk to keep in sync")
# constants, because looking up enumeration members is slow
PRIMARY, UP_TO_DATE = Role.PRIMARY, DiskState.UP_TO_DATE
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
    if not is_diskful:
        initialized = NO_NEED
    elif replica.initialized or status.disk_state is UP_TO_DATE:
        initialized = HAS_DATA
    else:
        initialized = NO_DATA
    return {
        "BackingVolumeCreated": BACKING[is_diskful],
        "ConfigurationAdjusted": ADJUSTED,
        "DataInitialized": initialized,
        "InQuorum": QUORUM[status.quorum],
        "InSync": IN_SYNC[status.disk_state] if is_diskful else NO_DISK,
        "Attached": ATTACHED[status.role is PRIMARY],
    }


def has_begun(obj: Obj, initialized: Obj | None) -> bool:
    """Return True if a replica once had what its type needs, by its condition DataInitialized. A
    replica that was diskless when it reported has no data.
    """
    return initialized is not None and bool(
        obj["spec"]["type"] != DISKFUL or initialized["reason"] == HAS_DATA.reason
    )


def sync_progress(status: ResourceStatus) -> str:
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
    """Return the old object if it equals the new one, so that later comparisons are quick."""
    return old if old is not None and old == new else new


def kernel(replica: VolumeReplica, report: AgentReport, before: Obj) -> Obj:
    """Return a resource as `drbdsetup status` prints it, reusing equal parts of the previous
    one.
    """
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
    addresses = {node: other.address for node, other in report.replicas_by_node.items()}
    connections = [
        reuse_equal(
            _connection(node, one, config.peers.get(node), report.address, addresses.get(node)),
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


@lru_cache(maxsize=1024)
def _connection(
    node: str,
    connection: PeerConnection,
    peer: PeerConfig | None,
    here: ReplicaAddress,
    there: ReplicaAddress | None,
) -> Obj:
    """Return one connection's entry, one object for all reports that are equal."""
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
