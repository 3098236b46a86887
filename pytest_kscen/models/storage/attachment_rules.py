"""Rules for attachments and deletions: replicas that may become Primary, or may be removed. Pure.

Called by the controller's decisions with one view of a volume; nothing is read or written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.models.storage.volume_view import (
    AGENT_FINALIZER,
    CONTROLLER_FINALIZER,
    ConditionValue,
)
from pytest_kscen.objects.storage import TIE_BREAKER

if TYPE_CHECKING:
    from pytest_kscen.models.storage.volume_view import (
        QuorumSettings,
        VolumeAttachment,
        VolumeReplica,
        VolumeView,
    )
    from pytest_kscen.objects.resources import Obj


PENDING, ATTACHING, ATTACHED, DETACHING = "Pending", "Attaching", "Attached", "Detaching"
PHASE_BY_REASON = {
    "WaitingForReplica": ATTACHING,
    "ConvertingTieBreakerToAccess": ATTACHING,
    "SettingPrimary": ATTACHING,
}


class AttachmentState(NamedTuple):
    phase: str
    attached: ConditionValue
    replica: ConditionValue
    ready: ConditionValue


def desired_primaries(view: VolumeView, *, io_ready: bool) -> dict[str, bool]:
    """Return by replica name True for each replica that is to be Primary.

    Demotion comes first: a second replica is promoted only when every kernel allows two primaries.
    """
    promoted = {
        replica.name: replica.node in view.desired_nodes and replica.ordered_primary
        for replica in view.replicas
    }
    busy = [replica for replica in view.replicas if replica.primary or promoted[replica.name]]
    for node in view.desired_nodes:
        replica = view.on(node)
        if replica is None or promoted[replica.name] or not io_ready or not may_attach(replica):
            continue
        others = [other for other in busy if other is not replica]
        if not others or (
            len(others) == 1
            and view.layout.attachments > 1
            and all(member.two_primaries for member in view.members)
        ):
            promoted[replica.name] = True
            busy.append(replica)
    return promoted


def may_attach(replica: VolumeReplica) -> bool:
    return (
        not replica.deleting
        and bool(replica.online.holds)
        and TIE_BREAKER not in (replica.type, replica.actual_type)
    )


NO_REPLICA = ConditionValue(
    holds=False, reason="WaitingForReplica", message="there is no replica yet"
)
NOT_ATTACHED = ConditionValue(
    holds=False, reason="NotAttached", message="the volume is not attached to the node"
)
REPLICA_NOT_READY = ConditionValue(
    holds=False, reason="ReplicaNotReady", message="the replica is not ready for I/O"
)
READY = ConditionValue(holds=True, reason="Ready")


def attachment_state(
    view: VolumeView, attachment: VolumeAttachment, *, io_ready: bool
) -> AttachmentState:
    replica = view.on(attachment.node)
    attached = _attached(view, attachment, replica, io_ready=io_ready)
    mirrored = replica.io_ready if replica else NO_REPLICA
    ready = (
        READY
        if attached.holds and mirrored.holds
        else REPLICA_NOT_READY
        if attached.holds
        else NOT_ATTACHED
    )
    if attachment.deleting:
        phase = DETACHING
    else:
        phase = ATTACHED if attached.holds else PHASE_BY_REASON.get(attached.reason, PENDING)
    return AttachmentState(phase, attached, mirrored, ready)


def _attached(
    view: VolumeView, attachment: VolumeAttachment, replica: VolumeReplica | None, *, io_ready: bool
) -> ConditionValue:
    node = attachment.node
    if replica and replica.primary:
        return ConditionValue(
            holds=True, reason="Attached", message=f"the replica on {node} is Primary"
        )
    if not view.may_be_on(node):
        if len(view.diskful) < view.layout.diskful or not all(
            replica.node for replica in view.diskful
        ):
            return ConditionValue(
                holds=False,
                reason="LocalityNotSatisfied",
                message=f"there is no replica with a disk on {node} yet",
            )
        words = f"no replica with a disk is on {node}"
        return ConditionValue(holds=False, reason="UnableToProvideLocalVolumeAccess", message=words)
    if node not in view.desired_nodes:
        return ConditionValue(
            False,
            "WaitingForActiveAttachmentsToDetach",
            "the volume is attached to as many nodes as its class allows",
        )
    # The first step that the attachment still waits for.
    if replica is None or replica.deleting or not replica.node:
        step = "WaitingForReplica", f"there is no replica on {node} yet"
    elif TIE_BREAKER in (replica.type, replica.actual_type):
        step = "ConvertingTieBreakerToAccess", f"the replica on {node} is still a tie-breaker"
    elif not io_ready:
        step = "WaitingForReplicatedVolumeReady", "the volume is not ready for I/O"
    elif not replica.online.holds:
        step = "WaitingForReplica", f"the replica on {node} is not online yet"
    else:
        step = "SettingPrimary", f"the replica on {node} is to become Primary"
    return ConditionValue(False, *step)


RECHECK_INTERVAL = 10.0  # seconds until a deleted replica that is still needed is checked again


def may_leave(view: VolumeView, replica: VolumeReplica, quorum: QuorumSettings) -> bool:
    """Return True if a deleted replica is no longer needed.

    It is needed while it is Primary, and until enough other replicas are online and have the data.
    """
    if not replica.node:
        return True
    if view.deleting:
        return not view.attached_nodes
    if replica.primary or replica.ordered_primary:
        return False
    if not any(one.initialized or one.up_to_date for one in view.replicas if one.is_diskful):
        return True  # no data exists yet
    if not replica.is_diskful and not view.layout.guards_diskless:
        return True
    others = [other for other in view.active if other is not replica]
    online = sum(bool(other.online.holds) for other in others)
    ready = sum(other.is_diskful and bool(other.io_ready.holds) for other in others)
    # a disk may be waiting for the node of a diskless replica
    blocks_disk = not replica.is_diskful and any(one.is_diskful for one in view.unscheduled)
    return online >= quorum.votes and (ready >= view.layout.io_ready or blocks_disk)


def is_detached(view: VolumeView, attachment: VolumeAttachment) -> bool:
    """Return True if the node of a deleted attachment has released the volume, or has another
    attachment for it.
    """
    others = [one for one in view.attachments if one.node == attachment.node and not one.deleting]
    return bool(others) or attachment.node not in view.attached_nodes


def with_finalizers(obj: Obj, *names: str) -> list[str]:
    held = list(obj["metadata"].get("finalizers", ()))
    return [*held, *(name for name in names if name not in held)]


def without_finalizer(obj: Obj, name: str) -> list[str]:
    return [held for held in obj["metadata"].get("finalizers", ()) if held != name]


def finalizers_of_replica(node: str) -> list[str]:
    return [CONTROLLER_FINALIZER, AGENT_FINALIZER] if node else [CONTROLLER_FINALIZER]
