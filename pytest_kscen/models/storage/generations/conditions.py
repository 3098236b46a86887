"""First generation of the storage: health is published in conditions of volumes, replicas and
attachments.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.models.storage.definitions import CONDITIONS_DEFINITIONS
from pytest_kscen.models.storage.drbd import DiskState, PeerConfig, QuorumRule, ResourceConfig, Role
from pytest_kscen.models.storage.generations.conditions_replicas import (
    agent_conditions,
    has_begun,
    kernel,
    reuse_equal,
    sync_progress,
)
from pytest_kscen.models.storage.generations.generation import (
    AgentOrders,
    AgentReport,
    Generation,
    VolumeDecision,
    common_fields,
    granted_size,
    with_conditions,
)
from pytest_kscen.models.storage.volume_view import (
    ConditionValue,
    PreviousDecisions,
    QuorumSettings,
    ReplicaAddress,
    VolumeLayout,
    VolumeReplica,
)
from pytest_kscen.objects.quantities import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.models.storage.attachment_rules import AttachmentState
    from pytest_kscen.models.storage.volume_view import VolumeAttachment, VolumeView
    from pytest_kscen.objects.resources import Obj

NODE_IDS = 8
# constants, because looking up enumeration members is slow
PRIMARY, UP_TO_DATE = Role.PRIMARY, DiskState.UP_TO_DATE
LAYOUTS = {
    "None": VolumeLayout(diskful=1, io_ready=1, redundancy=1, failures=0),
    "Availability": VolumeLayout(diskful=2, io_ready=2, redundancy=1, failures=1),
    "ConsistencyAndAvailability": VolumeLayout(diskful=3, io_ready=3, redundancy=2, failures=1),
}


class ConditionsGeneration(Generation):
    """Generation with the volume conditions IOReady and Quorum. The controller writes each kernel's
    configuration into the statuses of volume and replicas, from which agents read it.
    """

    name = "conditions"
    definitions = CONDITIONS_DEFINITIONS
    classes: ClassVar[dict[str, str]] = {}
    quorum_rule = QuorumRule.VOTES
    forms_at_once = False
    replaces_disks = True

    # this generation's volumes configure nothing themselves
    def layout(self, storage_class: Obj | None, volume: Obj) -> VolumeLayout | None:  # noqa: ARG002
        if storage_class is None:
            return None
        spec = storage_class["spec"]
        base = LAYOUTS[spec.get("replication", "ConsistencyAndAvailability")]
        access, zones = spec.get("volumeAccess", "PreferablyLocal"), tuple(spec.get("zones") or ())
        return replace(base, access=access, topology=spec.get("topology", "Ignored"), zones=zones)

    # the number of replicas decides, whatever the layout
    def tie_breakers(self, layout: VolumeLayout, diskful: int, access: int) -> int:  # noqa: ARG002
        return (diskful + access + 1) % 2 if diskful else 0

    def quorum(self, layout: VolumeLayout, diskful: int, total: int) -> QuorumSettings:
        redundancy = max(2, diskful // 2 + 1) if layout.redundancy > 1 else 1
        return QuorumSettings(
            0 if diskful <= 1 else max(2, total // 2 + 1), redundancy if diskful > 1 else 1
        )

    # ready replicas are counted, whatever the quorum
    def io_ready(self, view: VolumeView, quorum: QuorumSettings) -> ConditionValue:  # noqa: ARG002
        ready = 0
        for replica in view.members:
            if replica.is_diskful and replica.io_ready.holds:
                ready += 1
        return _io_ready(ready, view.layout.io_ready)

    def has_quorum(self, view: VolumeView, quorum: QuorumSettings) -> ConditionValue:
        """Return the condition Quorum. A replica that has not joined yet takes no quorum away."""
        total = held = 0
        for replica in view.members:
            total += replica.initialized or replica.in_quorum
            held += replica.in_quorum
        return _has_quorum(held, total, quorum.votes or total // 2 + 1)

    def status_of_pool(self, nodes: Sequence[str]) -> Obj:  # noqa: ARG002  # without node names
        return {"phase": "Completed"}

    def status_of_class(self, replication: str) -> Obj:  # noqa: ARG002  # the same for all classes
        return {"phase": "Created"}

    # a replica's own status is complete
    def read(self, obj: Obj, volume: Obj | None) -> VolumeReplica:  # noqa: ARG002
        status = obj.get("status") or {}
        drbd = status.get("drbd") or {}
        config, actual, state = (
            drbd.get("config") or {},
            drbd.get("actual") or {},
            drbd.get("status") or {},
        )
        address = config.get("address")
        device = (state.get("devices") or [{}])[0]
        true = {
            one["type"]: one for one in status.get("conditions") or () if one["status"] == "True"
        }
        return VolumeReplica(
            *common_fields(obj),
            address=_address(address["ipv4"], address["port"]) if address else None,
            initialized=has_begun(obj, true.get("DataInitialized")),
            in_quorum="InQuorum" in true,
            in_sync="InSync" in true,
            primary=state.get("role") == PRIMARY,
            ordered_primary=config.get("primary", False),
            two_primaries=actual.get("allowTwoPrimaries", False),
            actual_type=status.get("actualType", ""),
            size=device.get("size", 0) * 1024,
            up_to_date=device.get("diskState") == UP_TO_DATE,
        )

    def orders_in_status(self, status: Obj) -> object:
        config = (status.get("drbd") or {}).get("config") or {}
        if "deviceMinor" in config:  # of a volume
            return config, status.get("actualSize")
        return (
            config.get("peers"),
            config.get("peersInitialized"),
            config.get("primary"),
        )  # without the address, which the agent itself sets

    def has_same_orders(self, status: Obj, before: Obj) -> bool:
        """Return True if two statuses give the same orders. Unchanged configurations are the same
        object, which is fast to compare.
        """
        now, then = status.get("drbd") or {}, before.get("drbd") or {}
        is_same = now.get("config") is then.get("config") and status.get(
            "actualSize"
        ) == before.get("actualSize")
        return is_same or super().has_same_orders(status, before)

    def previous_decisions(self, volume: Obj) -> PreviousDecisions:
        status = volume.get("status") or {}
        config = (status.get("drbd") or {}).get("config") or {}
        size = parse(status.get("actualSize", 0)).value
        return PreviousDecisions(
            status.get("desiredAttachTo") or [],
            config.get("deviceMinor"),
            config.get("sharedSecret", ""),
            size,
        )

    def order_inputs(self, volume: Obj, replica: VolumeReplica) -> object:
        return (
            volume["spec"],
            self.orders_in_status(volume.get("status") or {}),
            self.orders_in_status(replica.obj.get("status") or {}),
        )

    def orders(self, volume: Obj, replica: VolumeReplica, *, initial: bool) -> AgentOrders:
        status = volume.get("status") or {}
        ours = (status.get("drbd") or {}).get("config") or {}
        config = ((replica.obj.get("status") or {}).get("drbd") or {}).get("config") or {}
        minor = ours.get("deviceMinor", 0)
        if not config.get("peersInitialized") or not replica.address or "deviceMinor" not in ours:
            return AgentOrders(None, minor=minor)
        peers = {
            node: PeerConfig(
                peer["nodeId"], peer["address"]["port"], not peer.get("diskless", False)
            )
            for node, peer in config.get("peers", {}).items()
            if node != replica.node  # another replica may have moved to this node
        }
        wanted = ResourceConfig(
            node_id=node_id(replica.number),
            port=replica.address.port,
            diskful=replica.is_diskful,
            size=max(parse(volume["spec"]["size"]).value, parse(status.get("actualSize", 0)).value),
            quorum=ours.get("quorum", 0),
            quorum_minimum_redundancy=ours.get("quorumMinimumRedundancy", 1),
            two_primaries=ours.get("allowTwoPrimaries", False),
            peers=peers,
            quorum_rule=self.quorum_rule,
        )
        return AgentOrders(wanted, config.get("primary", False), minor, initial)

    def volume_status(self, view: VolumeView, decision: VolumeDecision, now: str) -> Obj:
        status = view.volume.get("status") or {}
        placed = in_sync = initialized_count = ready = 0
        for replica in view.diskful:
            placed += bool(replica.node)
            in_sync += replica.in_sync
            initialized_count += replica.initialized
        for replica in view.replicas:
            ready += bool(replica.primary and replica.io_ready.holds)
        findings = {"IOReady": decision.io_ready, "Quorum": decision.has_quorum}
        size = granted_size(view, status.get("actualSize"))
        config = {
            "deviceMinor": decision.minor,
            "quorum": decision.quorum.votes,
            "quorumMinimumRedundancy": decision.quorum.redundancy,
            "allowTwoPrimaries": decision.two_primaries,
            "sharedSecret": decision.secret,
            "sharedSecretAlg": "SHA256",
        }
        if view.deleting:
            phase = "Terminating"
        elif initialized_count >= max(view.layout.diskful, len(view.diskful)):
            phase = "Ready" if decision.io_ready.holds else "Degraded"
        else:
            has_addresses = all(one.address for one in view.diskful)
            phase = "Synchronizing" if has_addresses else "Configuring"
        return {
            **status,
            "conditions": with_conditions(view.volume, findings, now),
            "phase": phase,
            "desiredAttachTo": reuse_equal(view.desired_nodes, status.get("desiredAttachTo")),
            "actuallyAttachedTo": reuse_equal(
                view.attached_nodes, status.get("actuallyAttachedTo")
            ),
            "diskfulReplicaCount": f"{placed}/{view.layout.diskful}",
            "diskfulReplicasInSync": f"{in_sync}/{len(view.diskful)}",
            "attachedAndIOReadyCount": f"{ready}/{len(view.attached_nodes)}",
            **({"actualSize": size} if size else {}),
            "drbd": reuse_equal({"config": config}, status.get("drbd")),
        }

    def status_inputs(
        self, view: VolumeView, replica: VolumeReplica, decision: VolumeDecision
    ) -> object:
        return decision.all_addresses_known, decision.primaries[replica.name], view.placements

    def replica_status(
        self, view: VolumeView, replica: VolumeReplica, decision: VolumeDecision, now: str
    ) -> Obj:
        status = replica.obj.get("status") or {}
        drbd = status.get("drbd") or {}
        config = drbd.get("config") or {}
        if replica.address and (decision.all_addresses_known or config.get("peersInitialized")):
            peers = (
                peers_of(view, replica) if decision.all_addresses_known else config.get("peers", {})
            )
            primary = decision.primaries[replica.name]
            if (
                config.get("peers") != peers
                or config.get("primary") != primary
                or not config.get("peersInitialized")
            ):
                ours = {
                    "peersInitialized": True,
                    "primary": primary,
                    "peers": reuse_equal(peers, config.get("peers")),
                }
                status = {**status, "drbd": {**drbd, "config": {**config, **ours}}}
        findings = {
            "Scheduled": _scheduled(replica.node),
            "Online": replica.online,
            "IOReady": replica.io_ready,
        }
        return {**status, "conditions": with_conditions(replica.obj, findings, now)}

    def attachment_status(
        self,
        view: VolumeView | None,  # noqa: ARG002  # the other generations need it
        attachment: VolumeAttachment,
        attachment_state: AttachmentState,
        now: str,
    ) -> Obj:
        findings = {
            "Attached": attachment_state.attached,
            "ReplicaIOReady": attachment_state.replica,
            "Ready": attachment_state.ready,
        }
        status = attachment.obj.get("status") or {}
        conditions = with_conditions(attachment.obj, findings, now)
        return {**status, "phase": attachment_state.phase, "conditions": conditions}

    def report(self, replica: VolumeReplica, report: AgentReport, now: str) -> Obj:
        status = replica.obj.get("status") or {}
        drbd = status.get("drbd") or {}
        config, address = (
            drbd.get("config") or {},
            {"ipv4": report.address.ipv4, "port": report.address.port},
        )
        drbd = {
            **drbd,
            "config": config
            if config.get("address") == address
            else {**config, "address": address},
        }
        if report.status is None:
            return {**status, "drbd": drbd}
        findings = agent_conditions(replica, report)
        actual = {
            "allowTwoPrimaries": bool(report.orders.config and report.orders.config.two_primaries),
            "initialSyncCompleted": findings["DataInitialized"].holds,
            **({"disk": f"/dev/vg-{replica.node}/{replica.name}"} if replica.is_diskful else {}),
        }
        drbd["actual"] = reuse_equal(actual, drbd.get("actual"))
        drbd["status"] = kernel(replica, report, drbd.get("status") or {})
        drbd.pop("errors", None)
        if report.refusal:
            command = f"drbdadm primary {replica.obj['spec']['replicatedVolumeName']}"
            drbd["errors"] = {
                "lastPrimaryError": {"command": command, "exitCode": 17, "output": report.refusal}
            }
        conditions = with_conditions(replica.obj, findings, now)
        disk = (
            {"lvmLogicalVolumeName": replica.name, "syncProgress": sync_progress(report.status)}
            if replica.is_diskful
            else {}
        )
        return {
            **status,
            **disk,
            "actualType": replica.type,
            "conditions": conditions,
            "drbd": drbd,
        }


_address = lru_cache(maxsize=1024)(ReplicaAddress)
"""Cached constructor: equal addresses are one object, which is quick to compare."""


@lru_cache(maxsize=256)
def _scheduled(node: str) -> ConditionValue:
    if not node:
        return ConditionValue(
            holds=False, reason="NoNodeFree", message="no node that may hold it is free"
        )
    return ConditionValue(holds=True, reason="Scheduled", message=f"it is on {node}")


@lru_cache(maxsize=256)
def _io_ready(ready: int, needed: int) -> ConditionValue:
    words = f"{ready} of {needed} replicas with disks are ready for I/O"
    if ready >= needed:
        return ConditionValue(holds=True, reason="IOReady", message=words)
    return ConditionValue(
        holds=False,
        reason="InsufficientIOReadyReplicas" if ready else "NoIOReadyReplicas",
        message=words,
    )


@lru_cache(maxsize=256)
def _has_quorum(held: int, total: int, needed: int) -> ConditionValue:
    words = f"{held} of {total} replicas have quorum, {needed} are needed"
    if held >= needed:
        return ConditionValue(
            holds=True, reason="QuorumReached" if held == total else "QuorumDegraded", message=words
        )
    return ConditionValue(holds=False, reason="QuorumLost", message=words)


def node_id(number: int) -> int:
    return number % NODE_IDS


def peers_of(view: VolumeView, replica: VolumeReplica) -> Obj:
    return {
        other.node: _peer(other.number, other.address, other.is_diskful)
        for other in view.members
        if other is not replica and other.address
    }


@lru_cache(maxsize=1024)
def _peer(
    number: int,
    address: ReplicaAddress,
    is_diskful: bool,  # noqa: FBT001  # part of the cache's key
) -> Obj:
    """Return a peer's entry, one object for all replicas that have the same peer."""
    return {
        "nodeId": node_id(number),
        "address": {"ipv4": address.ipv4, "port": address.port},
        "diskless": not is_diskful,
    }
