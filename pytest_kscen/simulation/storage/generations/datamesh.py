"""A volume's datamesh: who belongs to it and under which rules, and what is on its way to be so. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.quantities import canonical
from pytest_kscen.simulation.storage.workloads import VOLUME_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.view import Replica, View
    from pytest_kscen.simulation.storage.generations.generation import Decision

NETWORK = "Internal"


def datamesh(view: View, decision: Decision) -> tuple[Obj, int]:
    """What the agents are to make of it, and its revision, which moves with it."""
    status = view.volume.get("status") or {}
    before = status.get("datamesh") or {}
    members = [_member(view, replica, decision) for replica in view.mesh if replica.address]
    if not decision.complete or (not before.get("members") and len(view.diskful) < view.layout.diskful):
        members = before.get("members", [])
    mesh = {
        "members": members,
        "quorum": decision.quorum.votes,
        "quorumMinimumRedundancy": decision.quorum.redundancy,
        "multiattach": decision.two_primaries,
        "size": canonical(str(decision.size)),
        "sharedSecret": decision.secret,
        "sharedSecretAlg": "SHA256",
        "systemNetworkNames": [NETWORK],
    }
    return mesh, status.get("datameshRevision", 0) + (mesh != before)


def _member(view: View, replica: Replica, decision: Decision) -> Obj:
    address = replica.address
    where = {"ipv4": address.ipv4, "port": address.port} if address else {}
    zone = view.host(replica).zone
    return {
        "name": replica.name,
        "type": replica.type,
        "nodeName": replica.node,
        "addresses": [{"systemNetworkName": NETWORK, "address": where}],
        "attached": decision.primaries[replica.name],
        **({"zone": zone} if zone else {}),
        **({"lvmVolumeGroupName": VOLUME_GROUP.format(node=replica.node)} if replica.is_diskful else {}),
    }


def is_formed(view: View) -> bool:
    """Whether every disk that the layout asks for has once had the volume's data."""
    return sum(replica.initialized for replica in view.mesh if replica.is_diskful) >= view.layout.diskful


def transitions(view: View, decision: Decision, status: Obj, now: str) -> list[Obj]:
    """What is not yet as it is to be; each is there since it was first seen."""
    since = {_key(one): one["steps"][0]["startedAt"] for one in status.get("datameshTransitions") or ()}
    found = []
    for one in _changing(view, decision):
        step = {
            "name": STEPS[one["type"]],
            "status": "Active",
            "startedAt": since.get(_key(one), now),
            "datameshRevision": status["datameshRevision"],
        }
        found.append({**one, "steps": [step]})
    return found


STEPS = {
    "Formation": "Establish connectivity",
    "AddReplica": "Join",
    "RemoveReplica": "Leave",
    "Attach": "Become Primary",
    "Detach": "Become Secondary",
    "ChangeReplicaType": "Change type",
    "EnableMultiattach": "Allow two primaries",
    "ResizeVolume": "Grow",
}


def _key(transition: Obj) -> tuple[str, str]:
    return transition["type"], transition.get("replicaName", "")


def _changing(view: View, decision: Decision) -> Iterator[Obj]:
    if not is_formed(view) and not view.leaving:
        yield {"type": "Formation", "group": "Formation"}
        return
    for replica in view.mesh:
        yield from _of_replica(replica, decision)
    if decision.two_primaries and not all(replica.two_primaries for replica in view.speaking):
        yield {"type": "EnableMultiattach", "group": "Multiattach"}
    if any(replica.is_diskful and replica.size < decision.size for replica in view.speaking):
        yield {"type": "ResizeVolume", "group": "Resize"}


def _of_replica(replica: Replica, decision: Decision) -> Iterator[Obj]:
    name = {"replicaName": replica.name}
    membership = {"group": "VotingMembership" if replica.is_diskful else "NonVotingMembership", "replicaType": replica.type}
    asked = decision.primaries[replica.name]
    if replica.leaving:
        yield {"type": "RemoveReplica", **membership, **name}
    elif not replica.initialized:
        yield {"type": "AddReplica", **membership, **name}
    elif replica.actual_type not in ("", replica.type):
        types = {"fromReplicaType": replica.actual_type, "toReplicaType": replica.type}
        yield {"type": "ChangeReplicaType", "group": "NonVotingMembership", **types, **name}
    if asked and not replica.primary:
        yield {"type": "Attach", "group": "Attachment", **name}
    elif replica.primary and not asked:
        yield {"type": "Detach", "group": "Attachment", **name}
