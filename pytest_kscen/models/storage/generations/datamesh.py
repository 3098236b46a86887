"""Datamesh of a volume: its members, their settings, and the transitions under way. Pure.

Called by the later generations. Also counts the votes and copies that a volume can lose now, from
the replicas whose agents work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.models.storage.manifests import VOLUME_GROUP
from pytest_kscen.models.storage.volume_view import ConditionValue
from pytest_kscen.objects.quantities import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.models.storage.generations.generation import VolumeDecision
    from pytest_kscen.models.storage.volume_view import (
        QuorumSettings,
        VolumeLayout,
        VolumeReplica,
        VolumeView,
    )
    from pytest_kscen.objects.resources import Obj


NETWORK = "Internal"


def next_datamesh(view: VolumeView, decision: VolumeDecision) -> tuple[Obj, int]:
    """Return the datamesh for the agents, and its revision, which grows with each change."""
    status = view.volume.get("status") or {}
    before = status.get("datamesh") or {}
    members = [_member(view, replica, decision) for replica in view.members if replica.address]
    if not decision.all_addresses_known or (
        not before.get("members") and len(view.diskful) < view.layout.diskful
    ):
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


def _member(view: VolumeView, replica: VolumeReplica, decision: VolumeDecision) -> Obj:
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
        **(
            {"lvmVolumeGroupName": VOLUME_GROUP.format(node=replica.node)}
            if replica.is_diskful
            else {}
        ),
    }


def is_formed(view: VolumeView) -> bool:
    """Return True if as many disks as the layout requires have had the volume's data."""
    return (
        sum(replica.initialized for replica in view.members if replica.is_diskful)
        >= view.layout.diskful
    )


def transitions(view: VolumeView, decision: VolumeDecision, status: Obj, now: str) -> list[Obj]:
    """Return the changes that are not complete yet. Each keeps the time at which it was first
    seen.
    """
    since = {
        _key(one): one["steps"][0]["startedAt"] for one in status.get("datameshTransitions") or ()
    }
    found = []
    for one in _open_changes(view, decision):
        step = {
            "name": TRANSITION_STEPS[one["type"]],
            "status": "Active",
            "startedAt": since.get(_key(one), now),
            "datameshRevision": status["datameshRevision"],
        }
        found.append({**one, "steps": [step]})
    return found


TRANSITION_STEPS = {
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


def _open_changes(view: VolumeView, decision: VolumeDecision) -> Iterator[Obj]:
    if not is_formed(view) and not view.deleting:
        yield {"type": "Formation", "group": "Formation"}
        return
    for replica in view.members:
        name = {"replicaName": replica.name}
        membership = {
            "group": "VotingMembership" if replica.is_diskful else "NonVotingMembership",
            "replicaType": replica.type,
        }
        shall_be_primary = decision.primaries[replica.name]
        if replica.deleting:
            yield {"type": "RemoveReplica", **membership, **name}
        elif not replica.initialized:
            yield {"type": "AddReplica", **membership, **name}
        elif replica.actual_type not in ("", replica.type):
            types = {"fromReplicaType": replica.actual_type, "toReplicaType": replica.type}
            yield {"type": "ChangeReplicaType", "group": "NonVotingMembership", **types, **name}
        if shall_be_primary and not replica.primary:
            yield {"type": "Attach", "group": "Attachment", **name}
        elif replica.primary and not shall_be_primary:
            yield {"type": "Detach", "group": "Attachment", **name}
    if decision.two_primaries and not all(replica.two_primaries for replica in view.reporting):
        yield {"type": "EnableMultiattach", "group": "Multiattach"}
    if any(replica.is_diskful and replica.size < decision.size for replica in view.reporting):
        yield {"type": "ResizeVolume", "group": "Resize"}


@dataclass(frozen=True, slots=True)
class EffectiveLayout:
    """Counts of a volume's members, and what follows from them. A negative number is a deficit."""

    voters: int
    reachable: int
    up_to_date: int
    tie_breakers: int
    reachable_tie_breakers: int
    stale: int
    """Members whose agents do not work."""
    spare_votes: int
    spare_copies: int

    @property
    def is_known(self) -> bool:
        return bool(self.voters) and self.stale < self.voters + self.tie_breakers

    @property
    def failures(self) -> int:
        return min(self.spare_votes, self.spare_copies)

    @property
    def redundancy(self) -> int:
        return self.up_to_date - 1

    @property
    def message(self) -> str:
        words = f"{self.reachable} of {self.voters} voters reachable, {self.up_to_date} up to date"
        if self.tie_breakers:
            words += (
                f"; {self.reachable_tie_breakers} of {self.tie_breakers} tie-breakers reachable"
            )
        return words + (f"; {self.stale} not reporting" if self.stale else "")

    def published(self, layout: VolumeLayout) -> Obj:
        levels = {
            "failuresToTolerate": self.failures,
            "guaranteedMinimumDataRedundancy": min(self.redundancy, layout.redundancy - 1),
        }
        return {
            **(levels if self.is_known else {}),
            "totalVoters": self.voters,
            "reachableVoters": self.reachable,
            "upToDateVoters": self.up_to_date,
            "totalTieBreakers": self.tie_breakers,
            "reachableTieBreakers": self.reachable_tie_breakers,
            "staleAgents": self.stale,
            "message": self.message,
        }


def effective_layout(view: VolumeView, quorum: QuorumSettings) -> EffectiveLayout:
    members, together = view.members, _largest_group(view.reporting)
    voters, reachable = _with_disks(members), _with_disks(together)
    ties = [replica for replica in members if replica.is_tie_breaker]
    held = [replica for replica in together if replica.is_tie_breaker]
    copies = sum(replica.up_to_date for replica in reachable)
    # a diskless replica breaks ties once it has joined
    diskless = sum(not replica.is_diskful and replica.initialized for replica in members)
    reachable_diskless = len(together) - len(reachable)
    decides = (
        len(voters) % 2 == 0
        and len(reachable) == quorum.votes - 1
        and copies >= quorum.redundancy
        and 2 * reachable_diskless > diskless > 0
    )
    spare = len(reachable) - quorum.votes
    if len(voters) % 2 == 0 and (decides or len(reachable) >= quorum.votes):
        spare += bool(reachable_diskless)
    return EffectiveLayout(
        voters=len(voters),
        reachable=len(reachable),
        up_to_date=copies,
        tie_breakers=len(ties),
        reachable_tie_breakers=len(held),
        stale=len(members) - len(view.reporting),
        spare_votes=spare,
        spare_copies=copies - quorum.redundancy,
    )


def _with_disks(replicas: Sequence[VolumeReplica]) -> list[VolumeReplica]:
    return [replica for replica in replicas if replica.is_diskful]


def _largest_group(replicas: Sequence[VolumeReplica]) -> list[VolumeReplica]:
    """Return the largest group of replicas that report connections with each other, directly or by
    others: more disks count first, then more replicas.
    """
    left = {replica.node: replica for replica in replicas}
    best: list[VolumeReplica] = []
    while left:
        group, open_ = [], [left.pop(next(iter(left)))]
        while open_:
            replica = open_.pop()
            group.append(replica)
            linked = [
                node
                for node, other in left.items()
                if other.name in replica.linked and replica.name in other.linked
            ]
            open_ += [left.pop(node) for node in linked]
        best = max(best, group, key=lambda one: (len(_with_disks(one)), len(one)))
    return best


def readiness_condition(view: VolumeView, now: EffectiveLayout, *, formed: bool) -> ConditionValue:
    rows: tuple[tuple[bool, bool | None, str, str], ...] = (
        (view.deleting, False, "Terminating", "the volume is being deleted"),
        (not formed, False, "Forming", "its replicas are being made"),
        (not now.is_known, None, "StatusUnknown", "no agent reports a state"),
        (now.spare_votes < 0, False, "QuorumLost", now.message),
        (now.spare_copies < 0, False, "InsufficientUpToDateReplicas", now.message),
    )
    return next(
        (ConditionValue(holds, reason, words) for fits, holds, reason, words in rows if fits),
        ConditionValue(True, "Ready", now.message),
    )


def resilience_condition(
    layout: VolumeLayout, now: EffectiveLayout, ready: ConditionValue
) -> ConditionValue:
    """Return the condition Resilient: as many failures can be tolerated, and as many copies exist,
    as the class promises. Without readiness, the reason is that of Ready.
    """
    if not ready.holds:
        return ready
    whole = now.failures >= layout.failures and now.redundancy >= layout.redundancy - 1
    return ConditionValue(whole, "Resilient" if whole else "Degraded", now.message)
