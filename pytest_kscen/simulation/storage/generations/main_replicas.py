"""What is said of a replica beside the datamesh: its agent's report, and the controller's word on how it stands. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.quantities import canonical
from pytest_kscen.objects.storage import DISKFUL
from pytest_kscen.simulation.storage.controller.view import Finding
from pytest_kscen.simulation.storage.drbd import Disk, Role, State
from pytest_kscen.simulation.storage.generations.generation import with_findings
from pytest_kscen.simulation.storage.workloads import VOLUME_GROUP

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.view import Replica, View
    from pytest_kscen.simulation.storage.drbd import Connection, Status
    from pytest_kscen.simulation.storage.generations.generation import Report

NETWORK = "Internal"
BEGAN = "initialQuorumReachedAt"


def connected(status: Obj) -> tuple[str, ...]:
    """The peers that a replica says it is connected with."""
    return tuple(peer["name"] for peer in status.get("peers") or () if peer.get("connectionState") == State.CONNECTED)


def has_begun(obj: Obj) -> bool:
    """Whether it has once had quorum and what its type asks for: what had no disk when it told has no data."""
    status = obj.get("status") or {}
    return BEGAN in status and (obj["spec"]["type"] != DISKFUL or status.get("type") == DISKFUL)


# --- the agent's ---


def reported(replica: Replica, report: Report, now: str) -> Obj:
    status, kernel = replica.obj.get("status") or {}, report.status
    address = {"ipv4": report.address.ipv4, "port": report.address.port}
    status = {**status, "addresses": [{"systemNetworkName": NETWORK, "address": address}]}
    if kernel is None or report.orders.config is None:
        return status
    if not replica.initialized:
        status.pop(BEGAN, None)
        if kernel.quorum and _has_data(replica, kernel):
            status[BEGAN] = now
    status.pop("attachment", None)
    status.pop("backingVolume", None)
    if kernel.role == Role.PRIMARY:
        device = f"/dev/drbd/by-res/{replica.obj['spec']['replicatedVolumeName']}/0"
        status["attachment"] = {"devicePath": device, "inUse": True, "ioSuspended": kernel.suspended}
    if replica.is_diskful:
        status["backingVolume"] = {
            "lvmVolumeGroupName": VOLUME_GROUP.format(node=replica.node),
            "size": canonical(str(kernel.size)),
            "state": kernel.disk_state.value,
        }
    findings = _findings(replica, report, kernel)
    return {
        **status,
        "type": "Diskful" if replica.is_diskful else "Diskless",
        "size": canonical(str(kernel.size)),
        "quorum": kernel.quorum,
        "quorumSummary": _summary(report, kernel),
        "peers": [_peer(report, node, one) for node, one in sorted(kernel.connections.items()) if node in report.names],
        "datameshRevision": report.orders.revision,
        "datameshRevisionObservedByAgent": report.orders.revision,
        "conditions": with_findings(replica.obj, findings, now),
    }


def _has_data(replica: Replica, kernel: Status) -> bool:
    return not replica.is_diskful or kernel.disk_state == Disk.UP_TO_DATE


def _findings(replica: Replica, report: Report, kernel: Status) -> dict[str, Finding]:
    links = list(kernel.connections.values())
    linked = sum(one.state == State.CONNECTED for one in links)
    words = f"connected with {linked} of {len(links)} peers"
    is_primary = kernel.role == Role.PRIMARY
    findings = {
        "Configured": Finding(not report.refusal, "ConfigurationFailed" if report.refusal else "Configured", report.refusal),
        "FullyConnected": Finding(linked == len(links), "FullyConnected" if linked == len(links) else "PartiallyConnected", words),
        "Attached": Finding(is_primary, "Attached" if is_primary else "Detached"),
    }
    if replica.is_diskful:
        fresh = kernel.disk_state == Disk.UP_TO_DATE
        findings["BackingVolumeReady"] = Finding(True, "Ready")
        findings["BackingVolumeUpToDate"] = Finding(fresh, "UpToDate" if fresh else kernel.disk_state.value)
    return findings


def _summary(report: Report, kernel: Status) -> Obj:
    config = report.orders.config
    linked = [(node, one) for node, one in kernel.connections.items() if one.state == State.CONNECTED]
    types = [report.names[node].type for node, _ in linked if node in report.names]
    return {
        "connectedDiskfulPeers": types.count(DISKFUL),
        "connectedTieBreakerPeers": types.count("TieBreaker"),
        "connectedUpToDatePeers": sum(one.peer_disk == Disk.UP_TO_DATE for _, one in linked),
        **({"quorum": config.quorum, "quorumMinimumRedundancy": config.quorum_minimum_redundancy} if config else {}),
    }


def _peer(report: Report, node: str, connection: Connection) -> Obj:
    other = report.names[node]
    return {
        "name": other.name,
        "type": other.type,
        "attached": connection.peer_role == Role.PRIMARY,
        "connectionState": connection.state.value,
        "connectionEstablishedOn": [NETWORK] if connection.state == State.CONNECTED else [],
        "replicationState": connection.replication.value,
        "backingVolumeState": connection.peer_disk.value,
    }


# --- the controller's ---


def standing_of(view: View, replica: Replica) -> tuple[str, str, dict[str, Finding]]:
    """Phase, message and conditions: the first row that fits."""
    host, status = view.host(replica), replica.obj.get("status") or {}
    lost = [other.name for other in view.mesh if other is not replica and other.name not in replica.linked]
    rows = (
        (replica.leaving, "Terminating", "it is being removed"),
        (not replica.node, "Pending", "no node that may hold it is free"),
        (bool(host.trouble), "AgentNotReady", f"nobody speaks for {replica.node}: {host.trouble}"),
        (not replica.address, "Provisioning", "its node makes room for it"),
        (not replica.actual_type, "WaitingForDatamesh", "it is not a member yet"),
        ("quorum" not in status, "Configuring", "its kernel is being told"),
        (replica.is_diskful and not replica.up_to_date and replica.in_quorum, "Synchronizing", "its data is being written"),
        (not replica.in_quorum, "Critical", "its kernel has no quorum"),
        (len(lost) > 1, "Degraded", f"not connected with {', '.join(lost)}"),
        (len(lost) == 1, "PartiallyDegraded", f"not connected with {', '.join(lost)}"),
    )
    phase, words = next(((phase, words) for fits, phase, words in rows if fits), ("Healthy", ""))
    ready = Finding(
        replica.io_ready.holds, "Ready" if replica.io_ready.holds else replica.io_ready.reason, replica.io_ready.message
    )
    return phase, words, {"Ready": ready}
