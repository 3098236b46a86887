"""Statuses of replicas in the later generations: agents' reports, and phases with conditions.

Called by the generation; the replica's object and the kernel's status are all that is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.models.storage.drbd import ConnectionState, DiskState, Role
from pytest_kscen.models.storage.generations.datamesh import NETWORK
from pytest_kscen.models.storage.generations.generation import with_conditions
from pytest_kscen.models.storage.manifests import VOLUME_GROUP
from pytest_kscen.models.storage.volume_view import ConditionValue
from pytest_kscen.objects.quantities import canonical
from pytest_kscen.objects.storage import DISKFUL

if TYPE_CHECKING:
    from pytest_kscen.models.storage.drbd import ResourceStatus
    from pytest_kscen.models.storage.generations.generation import AgentReport
    from pytest_kscen.models.storage.volume_view import VolumeReplica, VolumeView
    from pytest_kscen.objects.resources import Obj

INITIAL_QUORUM_FIELD = "initialQuorumReachedAt"


def connected_peers(status: Obj) -> tuple[str, ...]:
    return tuple(
        peer["name"]
        for peer in status.get("peers") or ()
        if peer.get("connectionState") == ConnectionState.CONNECTED
    )


def has_begun(obj: Obj) -> bool:
    """Return True if a replica once had quorum and what its type needs. A replica that was diskless
    when it reported has no data.
    """
    status = obj.get("status") or {}
    return INITIAL_QUORUM_FIELD in status and (
        obj["spec"]["type"] != DISKFUL or status.get("type") == DISKFUL
    )


def agent_status(replica: VolumeReplica, report: AgentReport, now: str) -> Obj:
    status, kernel = replica.obj.get("status") or {}, report.status
    address = {"ipv4": report.address.ipv4, "port": report.address.port}
    status = {**status, "addresses": [{"systemNetworkName": NETWORK, "address": address}]}
    if kernel is None or report.orders.config is None:
        return status
    if not replica.initialized:
        status.pop(INITIAL_QUORUM_FIELD, None)
        if kernel.quorum and (not replica.is_diskful or kernel.disk_state == DiskState.UP_TO_DATE):
            status[INITIAL_QUORUM_FIELD] = now
    status.pop("attachment", None)
    status.pop("backingVolume", None)
    if kernel.role == Role.PRIMARY:
        device = f"/dev/drbd/by-res/{replica.obj['spec']['replicatedVolumeName']}/0"
        status["attachment"] = {
            "devicePath": device,
            "inUse": True,
            "ioSuspended": kernel.suspended,
        }
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
        "peers": [
            {
                "name": other.name,
                "type": other.type,
                "attached": link.peer_role == Role.PRIMARY,
                "connectionState": link.state.value,
                "connectionEstablishedOn": [NETWORK]
                if link.state == ConnectionState.CONNECTED
                else [],
                "replicationState": link.replication.value,
                "backingVolumeState": link.peer_disk.value,
            }
            for node, link in sorted(kernel.connections.items())
            if (other := report.replicas_by_node.get(node))
        ],
        "datameshRevision": report.orders.revision,
        "datameshRevisionObservedByAgent": report.orders.revision,
        "conditions": with_conditions(replica.obj, findings, now),
    }


def _findings(
    replica: VolumeReplica, report: AgentReport, kernel: ResourceStatus
) -> dict[str, ConditionValue]:
    links = list(kernel.connections.values())
    linked = sum(one.state == ConnectionState.CONNECTED for one in links)
    message = f"connected with {linked} of {len(links)} peers"
    is_primary = kernel.role == Role.PRIMARY
    findings = {
        "Configured": ConditionValue(
            not report.refusal,
            "ConfigurationFailed" if report.refusal else "Configured",
            report.refusal,
        ),
        "FullyConnected": ConditionValue(
            linked == len(links),
            "FullyConnected" if linked == len(links) else "PartiallyConnected",
            message,
        ),
        "Attached": ConditionValue(is_primary, "Attached" if is_primary else "Detached"),
    }
    if replica.is_diskful:
        fresh = kernel.disk_state == DiskState.UP_TO_DATE
        findings["BackingVolumeReady"] = ConditionValue(True, "Ready")
        findings["BackingVolumeUpToDate"] = ConditionValue(
            fresh, "UpToDate" if fresh else kernel.disk_state.value
        )
    return findings


def _summary(report: AgentReport, kernel: ResourceStatus) -> Obj:
    config = report.orders.config
    linked = [
        (node, one)
        for node, one in kernel.connections.items()
        if one.state == ConnectionState.CONNECTED
    ]
    others = report.replicas_by_node
    types = [others[node].type for node, _ in linked if node in others]
    return {
        "connectedDiskfulPeers": types.count(DISKFUL),
        "connectedTieBreakerPeers": types.count("TieBreaker"),
        "connectedUpToDatePeers": sum(one.peer_disk == DiskState.UP_TO_DATE for _, one in linked),
        **(
            {"quorum": config.quorum, "quorumMinimumRedundancy": config.quorum_minimum_redundancy}
            if config
            else {}
        ),
    }


def replica_state(
    view: VolumeView, replica: VolumeReplica
) -> tuple[str, str, dict[str, ConditionValue]]:
    """Return phase, message and conditions of a replica, by the first row that applies."""
    host, status = view.host(replica), replica.obj.get("status") or {}
    lost = [
        other.name
        for other in view.members
        if other is not replica and other.name not in replica.linked
    ]
    rows = (
        (replica.deleting, "Terminating", "it is being removed"),
        (not replica.node, "Pending", "no node that may hold it is free"),
        (
            bool(host.problem),
            "AgentNotReady",
            f"the agent on {replica.node} does not report: {host.problem}",
        ),
        (not replica.address, "Provisioning", "its node has not assigned an address yet"),
        (not replica.actual_type, "WaitingForDatamesh", "it is not a member yet"),
        ("quorum" not in status, "Configuring", "its kernel is being configured"),
        (
            replica.is_diskful and not replica.up_to_date and replica.in_quorum,
            "Synchronizing",
            "a resync is in progress",
        ),
        (not replica.in_quorum, "Critical", "its kernel has no quorum"),
        (len(lost) > 1, "Degraded", f"not connected with {', '.join(lost)}"),
        (len(lost) == 1, "PartiallyDegraded", f"not connected with {', '.join(lost)}"),
    )
    phase, message = next(
        ((phase, message) for fits, phase, message in rows if fits), ("Healthy", "")
    )
    ready = ConditionValue(
        replica.io_ready.holds,
        "Ready" if replica.io_ready.holds else replica.io_ready.reason,
        replica.io_ready.message,
    )
    return phase, message, {"Ready": ready}
