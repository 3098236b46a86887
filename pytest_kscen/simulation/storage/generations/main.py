"""The storage that keeps its members in a datamesh, and says how much it can lose in an effective layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.objects.quantities import parse
from pytest_kscen.objects.storage import DISKFUL, FAILURES_AND_REDUNDANCY
from pytest_kscen.simulation.storage.controller.layout import Layout, Quorum
from pytest_kscen.simulation.storage.controller.view import Address, Finding, Past, Replica
from pytest_kscen.simulation.storage.definitions import MAIN
from pytest_kscen.simulation.storage.drbd import Config, Peer, QuorumRule
from pytest_kscen.simulation.storage.generations.datamesh import datamesh, is_formed, transitions
from pytest_kscen.simulation.storage.generations.effective import effective, readiness, resilience
from pytest_kscen.simulation.storage.generations.generation import Generation, Orders, basics, size_of, with_findings
from pytest_kscen.simulation.storage.generations.main_replicas import connected, has_begun, reported, standing_of
from pytest_kscen.simulation.storage.workloads import POOL, VOLUME_GROUP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.attachments import Standing
    from pytest_kscen.simulation.storage.controller.view import Attachment, View
    from pytest_kscen.simulation.storage.generations.effective import Effective
    from pytest_kscen.simulation.storage.generations.generation import Decision, Report

MOST_ATTACHMENTS = 2


class Main(Generation):
    """An effective layout, and no conditions of health."""

    name = "effectiveLayout"
    definitions = MAIN
    classes: ClassVar[dict[str, str]] = {"consistency": "Consistency"}
    quorum_rule = QuorumRule.TIE_BREAK
    forms_at_once = True
    replaces_disks = False

    def layout(self, storage_class: Obj | None, volume: Obj) -> Layout | None:
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
        return Layout(
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

    def tie_breakers(self, layout: Layout, diskful: int, access: int) -> int:  # noqa: ARG002  # access does not count
        return int(diskful % 2 == 0 and diskful > 0 and layout.failures == layout.diskful // 2)

    def quorum(self, layout: Layout, diskful: int, total: int) -> Quorum:  # noqa: ARG002  # those with disks vote
        return Quorum(diskful // 2 + 1, min(layout.redundancy, max(diskful, 1)))

    def io_ready(self, view: View, quorum: Quorum) -> Finding:
        now = effective(view, quorum)
        return readiness(view, now, formed=bool(now.voters and now.copies_to_spare >= 0))

    def has_quorum(self, view: View, quorum: Quorum) -> Finding:
        now = effective(view, quorum)
        holds = now.is_known and now.votes_to_spare >= 0
        return Finding(holds, "QuorumReached" if holds else "QuorumLost", now.message)

    def status_of_pool(self, nodes: Sequence[str]) -> Obj:
        groups = {node: [{"name": VOLUME_GROUP.format(node=node), "ready": True, "unschedulable": False}] for node in nodes}
        eligible = [
            {"nodeName": node, "nodeReady": True, "agentReady": True, "unschedulable": False, "lvmVolumeGroups": groups[node]}
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

    # --- reading ---

    def read(self, obj: Obj, volume: Obj | None) -> Replica:
        status, mesh = obj.get("status") or {}, (volume or {}).get("status") or {}
        address = next((one["address"] for one in status.get("addresses") or ()), None)
        state = (status.get("backingVolume") or {}).get("state", "")
        observed, revision = status.get("datameshRevisionObservedByAgent"), mesh.get("datameshRevision")
        members = (mesh.get("datamesh") or {}).get("members") or ()
        member = next((one for one in members if one["name"] == obj["metadata"]["name"]), None)
        return Replica(
            *basics(obj),
            address=Address(address["ipv4"], address["port"]) if address else None,
            initialized=has_begun(obj),
            in_quorum=status.get("quorum", False),
            in_sync=state == "UpToDate" or obj["spec"]["type"] != DISKFUL,
            primary=(status.get("attachment") or {}).get("inUse", False),
            asked_primary=bool(member and member["attached"]),
            two_primaries=observed == revision and (mesh.get("datamesh") or {}).get("multiattach", False),
            actual_type=member["type"] if member else "",
            size=parse(status.get("size", 0)).value,
            linked=connected(status),
            revision=observed or 0,
            up_to_date=state == "UpToDate",
        )

    def read_beside(self, volume: Obj | None) -> object:
        return (volume or {}).get("status")

    def orders_in(self, status: Obj) -> object:
        return (status.get("datamesh"),)

    def before(self, volume: Obj) -> Past:
        status = volume.get("status") or {}
        mesh = status.get("datamesh") or {}
        attached = [member["nodeName"] for member in mesh.get("members") or () if member["attached"]]
        return Past(attached, 0, mesh.get("sharedSecret", ""), parse(status.get("size", 0)).value)

    def orders_by(self, volume: Obj, replica: Replica) -> object:  # noqa: ARG002  # it stands in the volume alone
        status = volume.get("status") or {}
        return status.get("datameshRevision"), status.get("datamesh")

    def orders(self, volume: Obj, replica: Replica, *, first: bool) -> Orders:
        status = volume.get("status") or {}
        mesh, revision = status.get("datamesh") or {}, status.get("datameshRevision", 0)
        members = {member["name"]: member for member in mesh.get("members") or ()}
        ours = members.pop(replica.name, None)
        if ours is None or not replica.address:
            return Orders(None, revision=revision)
        peers = {
            member["nodeName"]: Peer(_number(name), member["addresses"][0]["address"]["port"], member["type"] == DISKFUL)
            for name, member in members.items()
            if member["nodeName"] != replica.node  # one that was there before, and is still a member
        }
        wanted = Config(
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
        return Orders(wanted, ours["attached"], replica.number, first, revision)

    # --- writing ---

    def tell_volume(self, view: View, decision: Decision, now: str) -> Obj:
        status, layout, generation = view.volume.get("status") or {}, view.layout, view.volume["metadata"]["generation"]
        counts = effective(view, decision.quorum)
        mesh, revision = datamesh(view, decision)
        size = size_of(view, status.get("size"))
        configuration = _configuration(layout.failures, layout.redundancy - 1, layout.topology, layout.access)
        findings = {"ConfigurationReady": Finding(True, "Ready"), **self.health(view, counts)}
        status = {
            **status,
            "conditions": with_findings(view.volume, findings, now),
            "configuration": configuration,
            "configurationGeneration": generation,
            "configurationObservedGeneration": generation,
            "baselineGuaranteedMinimumDataRedundancy": layout.redundancy - 1,
            "datamesh": mesh,
            "datameshRevision": revision,
            "effectiveLayout": counts.told(layout),
            "membershipLayout": _membership(view),
            "actuallyAttachedTo": view.actual,
            **({"size": size} if size else {}),
        }
        return {**status, "datameshTransitions": transitions(view, decision, status, now)}

    def health(self, view: View, now: Effective) -> dict[str, Finding]:  # noqa: ARG002  # a newer one says something
        """Conditions that say how the volume is."""
        return {}

    def grounds(self, view: View, replica: Replica, decision: Decision) -> object:  # noqa: ARG002  # it stands in the datamesh
        return view.host(replica).trouble, [other.name for other in view.mesh]

    def tell_replica(self, view: View, replica: Replica, decision: Decision, now: str) -> Obj:  # noqa: ARG002  # it stands in the datamesh
        status = replica.obj.get("status") or {}
        phase, words, findings = standing_of(view, replica)
        conditions = with_findings(replica.obj, findings, now)
        return {**status, "phase": phase, "message": words, "conditions": conditions}

    def tell_attachment(self, view: View | None, attachment: Attachment, standing: Standing, now: str) -> Obj:
        findings = {"Attached": standing.attached, "ReplicaReady": standing.replica, "Ready": standing.ready}
        status = attachment.obj.get("status") or {}
        conditions = with_findings(attachment.obj, findings, now)
        phase = "Terminating" if attachment.leaving and not standing.attached.holds else standing.phase
        replica = view.on(attachment.node) if view else None
        device = ((replica.obj.get("status") or {}).get("attachment") if replica else None) or {}
        kept = {key: value for key, value in status.items() if key not in ("devicePath", "inUse", "ioSuspended")}
        return {**kept, **device, "phase": phase, "message": standing.attached.message, "conditions": conditions}

    def report(self, replica: Replica, report: Report, now: str) -> Obj:
        return reported(replica, report, now)


class Ready(Main):
    """The same, with conditions Ready and Resilient."""

    name = "ready"

    def health(self, view: View, now: Effective) -> dict[str, Finding]:
        ready = readiness(view, now, formed=is_formed(view))
        return {"Ready": ready, "Resilient": resilience(view.layout, now, ready)}


def _configuration(failures: int, redundancy: int, topology: str, access: str) -> Obj:
    return {
        "failuresToTolerate": failures,
        "guaranteedMinimumDataRedundancy": redundancy,
        "topology": topology,
        "volumeAccess": access,
        "replicatedStoragePoolName": POOL,
    }


def _membership(view: View) -> str:
    """As in 2D+1TB."""
    kinds = {"Diskful": "D", "TieBreaker": "TB", "Access": "A"}
    counts = {letters: sum(one.type == kind for one in view.mesh) for kind, letters in kinds.items()}
    return "+".join(f"{count}{letters}" for letters, count in counts.items() if count)


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])
