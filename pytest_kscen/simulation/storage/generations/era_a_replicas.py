"""What an agent tells of a replica: the kernel's state as the kernel's tool prints it, and conditions read from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.storage import DISKFUL
from pytest_kscen.simulation.storage.controller.view import Finding
from pytest_kscen.simulation.storage.drbd import Disk, Replication, Role, State

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.view import Replica
    from pytest_kscen.simulation.storage.drbd import Connection, Status
    from pytest_kscen.simulation.storage.generations.generation import Report

IN_SYNC = {
    Disk.UP_TO_DATE: Finding(holds=True, reason="InSync"),
    Disk.INCONSISTENT: Finding(holds=False, reason="Synchronizing", message="its data is being written"),
    Disk.OUTDATED: Finding(holds=False, reason="Outdated", message="others have written since"),
    Disk.CONSISTENT: Finding(holds=False, reason="Consistent", message="others may have written since"),
    Disk.DISKLESS: Finding(holds=False, reason="DiskLost", message="the disk is gone"),
    Disk.UNKNOWN: Finding(holds=False, reason="UnknownDiskState"),
}
HAS_DATA = Finding(holds=True, reason="DataInitialized")
NO_DISK = Finding(holds=True, reason="Diskless", message="there is no disk to keep in sync")


def findings_of(replica: Replica, report: Report) -> dict[str, Finding]:
    status = report.status
    if status is None:
        return {}
    return {
        "BackingVolumeCreated": _either(True, "BackingVolumeReady" if replica.is_diskful else "NotNeeded", ""),
        "ConfigurationAdjusted": _either(True, "ConfigurationAdjusted", ""),
        "DataInitialized": _initialized(replica, status),
        "InQuorum": _either(status.quorum, "InQuorum", "QuorumLost"),
        "InSync": IN_SYNC[status.disk_state] if replica.is_diskful else NO_DISK,
        "Attached": _either(status.role == Role.PRIMARY, "Attached", "Detached"),
    }


def _either(holds: bool, yes: str, no: str) -> Finding:  # noqa: FBT001  # the answer comes first
    return Finding(holds=holds, reason=yes if holds else no)


def has_begun(obj: Obj, initialized: Obj | None) -> bool:
    """Whether it has once had what its type asks for, by the condition that says so: what had no disk when it told has no data."""
    return initialized is not None and bool(obj["spec"]["type"] != DISKFUL or initialized["reason"] == HAS_DATA.reason)


def _initialized(replica: Replica, status: Status) -> Finding:
    if not replica.is_diskful:
        return Finding(holds=True, reason="NotNeeded", message="there is no disk to have data on")
    if replica.initialized or status.disk_state == Disk.UP_TO_DATE:
        return HAS_DATA
    return Finding(holds=False, reason="WaitingForData", message="it has never been up to date")


def progress(status: Status) -> str:
    """How much of the data is there."""
    if status.disk_state == Disk.UP_TO_DATE:
        return "100%"
    targets = (one for one in status.connections.values() if one.replication == Replication.SYNC_TARGET)
    target = next(targets, None)
    return f"{target.percent_in_sync:.2f}%" if target else status.disk_state.value


def kernel(replica: Replica, report: Report) -> Obj:
    """One resource as `drbdsetup status` prints it."""
    status, config = report.status, report.orders.config
    if status is None or config is None:
        return {}
    waits = status.suspended and not status.quorum
    device = {
        "volume": 0,
        "minor": report.orders.minor,
        "diskState": status.disk_state.value,
        "client": not replica.is_diskful,
        "open": status.role == Role.PRIMARY,
        "quorum": status.quorum,
        "size": status.size // 1024,
    }
    return {
        "name": replica.obj["spec"]["replicatedVolumeName"],
        "nodeId": config.node_id,
        "role": status.role.value,
        "suspended": status.suspended,
        "suspendedUser": False,
        "suspendedNoData": status.suspended and not waits,
        "suspendedFencing": False,
        "suspendedQuorum": waits,
        "forceIOFailures": False,
        "writeOrdering": "flush",
        "devices": [device],
        "connections": [_connection(report, node, one) for node, one in sorted(status.connections.items())],
    }


def _connection(report: Report, node: str, connection: Connection) -> Obj:
    config = report.orders.config
    peer = config.peers.get(node) if config else None
    other = report.names.get(node)
    here, there = report.address, other.address if other else None
    syncs = connection.replication in (Replication.SYNC_SOURCE, Replication.SYNC_TARGET)
    peer_device = {
        "volume": 0,
        "replicationState": connection.replication.value,
        "peerDiskState": connection.peer_disk.value,
        "peerClient": bool(peer and not peer.diskful),
        "resyncSuspended": "no",
        "outOfSync": connection.out_of_sync // 1024,
        "percentInSync": f"{connection.percent_in_sync:.2f}",
        "hasSyncDetails": syncs,
        "hasOnlineVerifyDetails": False,
    }
    path = {
        "thisHost": {"address": here.ipv4, "port": here.port, "family": "ipv4"},
        "remoteHost": {"address": there.ipv4 if there else "", "port": peer.port if peer else 0, "family": "ipv4"},
        "established": connection.state == State.CONNECTED,
    }
    return {
        "peerNodeId": peer.node_id if peer else 0,
        "name": node,
        "connectionState": connection.state.value,
        "congested": False,
        "peerRole": connection.peer_role.value,
        "tls": False,
        "paths": [path],
        "peerDevices": [peer_device],
    }
