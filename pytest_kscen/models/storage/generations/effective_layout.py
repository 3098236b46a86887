"""Later generations of the storage: members in a datamesh, and an effective layout with the
failures that a volume can tolerate. The newest adds the conditions Ready and Resilient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.models.storage.definitions import EFFECTIVE_LAYOUT_DEFINITIONS
from pytest_kscen.models.storage.drbd import (
    PeerConfig,
    QuorumRule,
    ResourceConfig,
)
from pytest_kscen.models.storage.generations.datamesh import (
    effective_layout,
    is_formed,
    next_datamesh,
    readiness_condition,
    resilience_condition,
    transitions,
)
from pytest_kscen.models.storage.generations.effective_layout_replicas import (
    agent_status,
    connected_peers,
    has_begun,
    replica_state,
)
from pytest_kscen.models.storage.generations.generation import (
    AgentOrders,
    Generation,
    common_fields,
    granted_size,
    with_conditions,
)
from pytest_kscen.models.storage.manifests import POOL, VOLUME_GROUP
from pytest_kscen.models.storage.volume_view import (
    ConditionValue,
    PreviousDecisions,
    QuorumSettings,
    ReplicaAddress,
    VolumeLayout,
    VolumeReplica,
)
from pytest_kscen.objects.quantities import parse
from pytest_kscen.objects.storage import DISKFUL, FAILURES_AND_REDUNDANCY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.models.storage.attachment_rules import AttachmentState
    from pytest_kscen.models.storage.generations.datamesh import EffectiveLayout
    from pytest_kscen.models.storage.generations.generation import AgentReport, VolumeDecision
    from pytest_kscen.models.storage.volume_view import VolumeAttachment, VolumeView
    from pytest_kscen.objects.resources import Obj


MOST_ATTACHMENTS = 2


class EffectiveLayoutGeneration(Generation):
    """Generation with a datamesh and an effective layout. Volumes publish numbers of failures that
    they can still tolerate, and no conditions of health.
    """

    name = "effectiveLayout"
    definitions = EFFECTIVE_LAYOUT_DEFINITIONS
    classes: ClassVar[dict[str, str]] = {"consistency": "Consistency"}
    quorum_rule = QuorumRule.TIE_BREAK
    forms_at_once = True
    replaces_disks = False

    def layout(self, storage_class: Obj | None, volume: Obj) -> VolumeLayout | None:
        if manual := volume["spec"].get("manualConfiguration"):
            spec = manual
        elif storage_class:
            spec = storage_class["spec"]
        else:
            return None
        plain = FAILURES_AND_REDUNDANCY[spec.get("replication", "ConsistencyAndAvailability")]
        failures = spec.get("failuresToTolerate", plain[0])
        redundancy = spec.get("guaranteedMinimumDataRedundancy", plain[1])
        diskful = failures + redundancy + 1
        return VolumeLayout(
            diskful=diskful,
            io_ready=diskful,
            redundancy=redundancy + 1,
            failures=failures,
            access=spec.get("volumeAccess", "PreferablyLocal"),
            topology=spec.get("topology", "Ignored"),
            zones=tuple(spec.get("zones") or ()),
            attachments=min(volume["spec"].get("maxAttachments", 1), MOST_ATTACHMENTS),
            guards_diskless=False,
        )

    # Access replicas have no vote
    def tie_breakers(self, layout: VolumeLayout, diskful: int, access: int) -> int:  # noqa: ARG002
        return int(diskful % 2 == 0 and diskful > 0 and layout.failures == layout.diskful // 2)

    def quorum(
        self,
        layout: VolumeLayout,
        diskful: int,
        total: int,  # noqa: ARG002  # only replicas with disks vote
    ) -> QuorumSettings:
        return QuorumSettings(diskful // 2 + 1, min(layout.redundancy, max(diskful, 1)))

    def io_ready(self, view: VolumeView, quorum: QuorumSettings) -> ConditionValue:
        now = effective_layout(view, quorum)
        return readiness_condition(view, now, formed=bool(now.voters and now.spare_copies >= 0))

    def has_quorum(self, view: VolumeView, quorum: QuorumSettings) -> ConditionValue:
        now = effective_layout(view, quorum)
        holds = now.is_known and now.spare_votes >= 0
        return ConditionValue(holds, "QuorumReached" if holds else "QuorumLost", now.message)

    def status_of_pool(self, nodes: Sequence[str]) -> Obj:
        groups = {
            node: [{"name": VOLUME_GROUP.format(node=node), "ready": True, "unschedulable": False}]
            for node in nodes
        }
        eligible = [
            {
                "nodeName": node,
                "nodeReady": True,
                "agentReady": True,
                "unschedulable": False,
                "lvmVolumeGroups": groups[node],
            }
            for node in nodes
        ]
        return {"phase": "Ready", "eligibleNodes": eligible, "eligibleNodesRevision": 1}

    def status_of_class(self, replication: str) -> Obj:
        failures, redundancy = FAILURES_AND_REDUNDANCY[replication]
        return {
            "phase": "Ready",
            "configuration": _configuration(failures, redundancy, "Ignored", "PreferablyLocal"),
            "storagePoolName": POOL,
            "volumes": {},
        }

    def read(self, obj: Obj, volume: Obj | None) -> VolumeReplica:
        status, mesh = obj.get("status") or {}, (volume or {}).get("status") or {}
        address = next((one["address"] for one in status.get("addresses") or ()), None)
        state = (status.get("backingVolume") or {}).get("state", "")
        observed, revision = (
            status.get("datameshRevisionObservedByAgent"),
            mesh.get("datameshRevision"),
        )
        members = (mesh.get("datamesh") or {}).get("members") or ()
        member = next((one for one in members if one["name"] == obj["metadata"]["name"]), None)
        return VolumeReplica(
            *common_fields(obj),
            address=ReplicaAddress(address["ipv4"], address["port"]) if address else None,
            initialized=has_begun(obj),
            in_quorum=status.get("quorum", False),
            in_sync=state == "UpToDate" or obj["spec"]["type"] != DISKFUL,
            primary=(status.get("attachment") or {}).get("inUse", False),
            ordered_primary=bool(member and member["attached"]),
            two_primaries=observed == revision
            and (mesh.get("datamesh") or {}).get("multiattach", False),
            actual_type=member["type"] if member else "",
            size=parse(status.get("size", 0)).value,
            linked=connected_peers(status),
            revision=observed or 0,
            up_to_date=state == "UpToDate",
        )

    def volume_part(self, volume: Obj | None) -> object:
        return (volume or {}).get("status")

    def orders_in_status(self, status: Obj) -> object:
        return (status.get("datamesh"),)

    def previous_decisions(self, volume: Obj) -> PreviousDecisions:
        status = volume.get("status") or {}
        mesh = status.get("datamesh") or {}
        attached = [
            member["nodeName"] for member in mesh.get("members") or () if member["attached"]
        ]
        return PreviousDecisions(
            attached, 0, mesh.get("sharedSecret", ""), parse(status.get("size", 0)).value
        )

    # the datamesh in the volume's status holds all orders
    def order_inputs(self, volume: Obj, replica: VolumeReplica) -> object:  # noqa: ARG002
        status = volume.get("status") or {}
        return status.get("datameshRevision"), status.get("datamesh")

    def orders(self, volume: Obj, replica: VolumeReplica, *, initial: bool) -> AgentOrders:
        status = volume.get("status") or {}
        mesh, revision = status.get("datamesh") or {}, status.get("datameshRevision", 0)
        members = {member["name"]: member for member in mesh.get("members") or ()}
        ours = members.pop(replica.name, None)
        if ours is None or not replica.address:
            return AgentOrders(None, revision=revision)
        peers = {
            member["nodeName"]: PeerConfig(
                int(name.rpartition("-")[2]),
                member["addresses"][0]["address"]["port"],
                member["type"] == DISKFUL,
            )
            for name, member in members.items()
            if member["nodeName"]
            != replica.node  # one that was there before, and is still a member
        }
        wanted = ResourceConfig(
            node_id=replica.number,
            port=replica.address.port,
            diskful=replica.is_diskful,
            size=parse(mesh["size"]).value,
            quorum=mesh["quorum"],
            quorum_minimum_redundancy=mesh["quorumMinimumRedundancy"],
            two_primaries=mesh.get("multiattach", False),
            peers=peers,
            quorum_rule=self.quorum_rule,
        )
        return AgentOrders(wanted, ours["attached"], replica.number, initial, revision)

    def volume_status(self, view: VolumeView, decision: VolumeDecision, now: str) -> Obj:
        status, layout, generation = (
            view.volume.get("status") or {},
            view.layout,
            view.volume["metadata"]["generation"],
        )
        counts = effective_layout(view, decision.quorum)
        mesh, revision = next_datamesh(view, decision)
        size = granted_size(view, status.get("size"))
        configuration = _configuration(
            layout.failures, layout.redundancy - 1, layout.topology, layout.access
        )
        kinds = {"Diskful": "D", "TieBreaker": "TB", "Access": "A"}
        members = {
            letters: sum(one.type == kind for one in view.members)
            for kind, letters in kinds.items()
        }
        findings = {
            "ConfigurationReady": ConditionValue(True, "Ready"),
            **self.health(view, counts),
        }
        status = {
            **status,
            "conditions": with_conditions(view.volume, findings, now),
            "configuration": configuration,
            "configurationGeneration": generation,
            "configurationObservedGeneration": generation,
            "baselineGuaranteedMinimumDataRedundancy": layout.redundancy - 1,
            "datamesh": mesh,
            "datameshRevision": revision,
            "effectiveLayout": counts.published(layout),
            "membershipLayout": "+".join(  # such as 2D+1TB
                f"{count}{letters}" for letters, count in members.items() if count
            ),
            "actuallyAttachedTo": view.attached_nodes,
            **({"size": size} if size else {}),
        }
        return {**status, "datameshTransitions": transitions(view, decision, status, now)}

    def health(
        self,
        view: VolumeView,  # noqa: ARG002  # a later generation publishes conditions
        now: EffectiveLayout,  # noqa: ARG002
    ) -> dict[str, ConditionValue]:
        return {}

    def status_inputs(
        self,
        view: VolumeView,
        replica: VolumeReplica,
        decision: VolumeDecision,  # noqa: ARG002  # the datamesh holds the controller's decision
    ) -> object:
        return view.host(replica).problem, [other.name for other in view.members]

    def replica_status(
        self,
        view: VolumeView,
        replica: VolumeReplica,
        decision: VolumeDecision,  # noqa: ARG002  # the datamesh holds it
        now: str,
    ) -> Obj:
        status = replica.obj.get("status") or {}
        phase, message, findings = replica_state(view, replica)
        conditions = with_conditions(replica.obj, findings, now)
        return {**status, "phase": phase, "message": message, "conditions": conditions}

    def attachment_status(
        self,
        view: VolumeView | None,
        attachment: VolumeAttachment,
        attachment_state: AttachmentState,
        now: str,
    ) -> Obj:
        findings = {
            "Attached": attachment_state.attached,
            "ReplicaReady": attachment_state.replica,
            "Ready": attachment_state.ready,
        }
        status = attachment.obj.get("status") or {}
        conditions = with_conditions(attachment.obj, findings, now)
        phase = (
            "Terminating"
            if attachment.deleting and not attachment_state.attached.holds
            else attachment_state.phase
        )
        replica = view.on(attachment.node) if view else None
        device = ((replica.obj.get("status") or {}).get("attachment") if replica else None) or {}
        kept = {
            key: value
            for key, value in status.items()
            if key not in ("devicePath", "inUse", "ioSuspended")
        }
        return {
            **kept,
            **device,
            "phase": phase,
            "message": attachment_state.attached.message,
            "conditions": conditions,
        }

    def report(self, replica: VolumeReplica, report: AgentReport, now: str) -> Obj:
        return agent_status(replica, report, now)


class ReadyGeneration(EffectiveLayoutGeneration):
    """Generation that adds the conditions Ready and Resilient to the effective layout, from the
    same counts.
    """

    name = "ready"

    def health(self, view: VolumeView, now: EffectiveLayout) -> dict[str, ConditionValue]:
        ready = readiness_condition(view, now, formed=is_formed(view))
        return {"Ready": ready, "Resilient": resilience_condition(view.layout, now, ready)}


def _configuration(failures: int, redundancy: int, topology: str, access: str) -> Obj:
    return {
        "failuresToTolerate": failures,
        "guaranteedMinimumDataRedundancy": redundancy,
        "topology": topology,
        "volumeAccess": access,
        "replicatedStoragePoolName": POOL,
    }
