"""What the controller does about a volume that looks like this: a pure decision, deed by deed.

Replicas first: as long as some are to be made, changed or removed, nothing is told of those that
are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.models.storage import attachment_rules, volume_view
from pytest_kscen.models.storage.api_writes import (
    ApiWrite,
    CreateObject,
    DeleteObject,
    PatchObject,
    SetFinalizers,
    WriteStatus,
)
from pytest_kscen.models.storage.generations.generation import VolumeDecision
from pytest_kscen.models.storage.volume_view import CONTROLLER_FINALIZER
from pytest_kscen.objects.quantities import parse
from pytest_kscen.objects.storage import (
    ACCESS,
    DISKFUL,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
    TIE_BREAKER,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Stream
    from pytest_kscen.models.storage.generations import Generation
    from pytest_kscen.models.storage.system import ParsedObjects
    from pytest_kscen.models.storage.volume_view import (
        QuorumSettings,
        VolumeAttachment,
        VolumeReplica,
        VolumeView,
    )
    from pytest_kscen.objects.resources import Obj, Resource


# Making a volume's replicas what its layout asks for: deeds, numbers and nodes. Pure.


def ensure_finalizers(view: VolumeView) -> list[ApiWrite]:
    """Whatever is ours or concerns us is not to vanish without us.

    The volume's own comes with its first status.
    """
    deeds: list[ApiWrite] = []
    for replica in view.living:
        if not replica.held or (replica.node and not replica.tended):
            wanted = attachment_rules.with_finalizers(
                replica.obj, *attachment_rules.finalizers_of_replica(replica.node)
            )
            deeds.append(SetFinalizers(REPLICATED_VOLUME_REPLICAS, replica.obj, wanted))
    return deeds


def form_replicas(view: VolumeView, means: DecisionContext) -> list[ApiWrite]:
    tie_breakers, missing = means.generation.tie_breakers, _missing_disks(view, means.generation)
    if (
        not missing
        and not view.homeless
        and not any(volume_view.plan_changes(view, (), tie_breakers))
    ):
        return []
    hands = _ReplicaPlanner(view, means)
    homes = [hands.find(DISKFUL) for _ in range(missing)]
    wrong = volume_view.plan_changes(view, homes, tie_breakers)
    hands.leave_alone([*wrong.surplus, *wrong.converted])
    deeds: list[ApiWrite] = [
        DeleteObject(REPLICATED_VOLUME_REPLICAS, replica.obj) for replica in wrong.surplus
    ]
    to_access = {"spec": {"type": ACCESS}}
    deeds += [
        PatchObject(REPLICATED_VOLUME_REPLICAS, replica.obj, to_access)
        for replica in wrong.converted
    ]
    for replica in sorted(
        view.homeless, key=lambda one: not one.is_diskful
    ):  # whoever needs a node most comes first
        if replica not in wrong.surplus:
            deeds += hands.settle(replica) or hands.stand_in(replica)
    for node in homes:
        deeds += hands.make(DISKFUL, node)
    for _ in range(wrong.access):
        if node := hands.find(ACCESS):  # a disk that was settled first may have taken it
            deeds += hands.make(ACCESS, node)
    for _ in range(wrong.tie_breakers):
        deeds += hands.make(TIE_BREAKER, hands.find(TIE_BREAKER))
    return deeds


def _missing_disks(view: VolumeView, generation: Generation) -> int:
    """The first of them gets the volume's data before there are others.

    Who goes before it has had them was never one.
    """
    there = view.diskful
    if len(there) >= view.layout.diskful:
        return 0
    has_data = sum(replica.initialized for replica in view.replicas if replica.is_diskful)
    if not generation.replaces_disks and has_data >= view.layout.diskful:
        return 0
    at_once = generation.forms_at_once or any(replica.initialized for replica in there)
    return max(0, (view.layout.diskful if at_once else 1) - len(there))


class _ReplicaPlanner:
    """Numbers and nodes as they are given away, one replica after the other."""

    def __init__(self, view: VolumeView, means: DecisionContext) -> None:
        self._view, self._means = view, means
        self._numbers = [replica.number for replica in [*view.replicas, *view.doubles]]
        self._nodes = [replica.node for replica in view.replicas if replica.node]
        self._disks = sum(bool(replica.node) for replica in view.diskful)
        self._able = {one.node: one for one in view.living if one.node and not one.is_diskful}

    def leave_alone(self, changing: list[VolumeReplica]) -> None:
        """These have something else to do."""
        for replica in changing:
            self._able.pop(replica.node, None)

    def find(self, type_: str) -> str:
        """A node for one of this type, if there is one: nobody else gets it."""
        node = volume_view.choose_node(
            self._view, type_, self._nodes, self._means.load, self._means.chance
        )
        if node:
            self._nodes.append(node)
            self._disks += type_ == DISKFUL
        return node

    def settle(self, replica: VolumeReplica) -> list[ApiWrite]:
        """Give a replica a node that has none."""
        node = self.find(replica.type)
        if not node:
            return []
        finalizers = attachment_rules.with_finalizers(
            replica.obj, *attachment_rules.finalizers_of_replica(node)
        )
        return [
            PatchObject(
                REPLICATED_VOLUME_REPLICAS,
                replica.obj,
                {"spec": {"nodeName": node}, "metadata": {"finalizers": finalizers}},
            )
        ]

    def stand_in(self, replica: VolumeReplica) -> list[ApiWrite]:
        """Where no node is free for a disk that the class asks for, somebody who is there
        without one gets it.
        """
        if not replica.is_diskful or self._disks >= self._view.layout.diskful:
            return []
        taken = [node for node in self._nodes if node not in self._able]
        other = self._able.pop(
            volume_view.choose_node(
                self._view, DISKFUL, taken, self._means.load, self._means.chance
            ),
            None,
        )
        if other is None:
            return []
        self._disks += 1
        to_disk = {"spec": {"type": DISKFUL}}
        return [
            PatchObject(REPLICATED_VOLUME_REPLICAS, other.obj, to_disk),
            DeleteObject(REPLICATED_VOLUME_REPLICAS, replica.obj),
        ]

    def make(self, type_: str, node: str) -> list[ApiWrite]:
        number = volume_view.free_number(self._numbers)
        if number is None:
            return []
        self._numbers.append(number)
        return [CreateObject(REPLICATED_VOLUME_REPLICAS, _replica(self._view, number, type_, node))]


def _replica(view: VolumeView, number: int, type_: str, node: str) -> Obj:
    owner = {
        "apiVersion": REPLICATED_VOLUMES.api_version,
        "kind": REPLICATED_VOLUMES.kind,
        "name": view.name,
        "uid": view.volume["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": f"{view.name}-{number}",
        "finalizers": attachment_rules.finalizers_of_replica(node),
        "ownerReferences": [owner],
    }
    spec = {
        "replicatedVolumeName": view.name,
        "type": type_,
        **({"nodeName": node} if node else {}),
    }
    return {
        "apiVersion": REPLICATED_VOLUME_REPLICAS.api_version,
        "kind": REPLICATED_VOLUME_REPLICAS.kind,
        "metadata": metadata,
        "spec": spec,
    }


# Telling how a volume, its replicas and its attachments stand: what is new is written, once for
# each object.


def write_statuses(
    view: VolumeView, means: DecisionContext, decision: VolumeDecision
) -> list[ApiWrite]:
    now = timestamp_of(means.now())
    deeds = _of_replicas(view, means, decision, now) + _of_attachments(view, means, decision, now)
    if view.leaving and not view.replicas:
        return deeds
    if not view.leaving and CONTROLLER_FINALIZER not in view.volume["metadata"].get(
        "finalizers", ()
    ):
        deeds.append(
            SetFinalizers(
                REPLICATED_VOLUMES,
                view.volume,
                attachment_rules.with_finalizers(view.volume, CONTROLLER_FINALIZER),
            )
        )
    return deeds + _status_write(
        means, REPLICATED_VOLUMES, view.volume, means.generation.tell_volume(view, decision, now)
    )


def _of_replicas(
    view: VolumeView, means: DecisionContext, decision: VolumeDecision, now: str
) -> list[ApiWrite]:
    deeds: list[ApiWrite] = []
    for replica in view.replicas:
        grounds = means.generation.grounds(view, replica, decision)
        if (replica.leaving and not replica.held) or means.readings.is_told(replica, grounds):
            continue
        status = means.generation.tell_replica(view, replica, decision, now)
        deeds += _part_status_write(means, REPLICATED_VOLUME_REPLICAS, replica, grounds, status)
    return deeds


def _of_attachments(
    view: VolumeView, means: DecisionContext, decision: VolumeDecision, now: str
) -> list[ApiWrite]:
    deeds: list[ApiWrite] = []
    for attachment in view.attachments:
        deeds += _hold_attachment(attachment)
        if attachment.leaving and (
            not attachment.held or attachment_rules.is_detached(view, attachment)
        ):
            continue
        standing = attachment_rules.attachment_state(
            view, attachment, io_ready=bool(decision.io_ready.holds)
        )
        replica = view.on(attachment.node)
        grounds = (
            standing,
            replica.obj["metadata"]["resourceVersion"] if replica else None,
        )  # to compare it whole takes work
        if means.readings.is_told(attachment, grounds):
            continue
        status = means.generation.tell_attachment(view, attachment, standing, now)
        deeds += _part_status_write(
            means, REPLICATED_VOLUME_ATTACHMENTS, attachment, grounds, status
        )
    return deeds


def _part_status_write(
    means: DecisionContext,
    resource: Resource,
    part: VolumeReplica | VolumeAttachment,
    grounds: object,
    status: Obj,
) -> list[ApiWrite]:
    """It is not worked out again as long as it stands on the same grounds."""
    new = _status_write(means, resource, part.obj, status)
    means.readings.note_told(part, grounds, status if new else None)
    return new


def _status_write(
    means: DecisionContext, resource: Resource, obj: Obj, status: Obj
) -> list[ApiWrite]:
    """Nothing is written that is there already."""
    before = obj.get("status") or {}
    if status == before:
        return []
    is_urgent = not means.generation.has_same_orders(status, before) or _is_worse(status, before)
    return [WriteStatus(resource, obj, status, is_urgent)]


def _is_worse(status: Obj, before: Obj) -> bool:
    """Whether something that was true is not any more."""
    now, said = status.get("conditions") or (), before.get("conditions") or ()
    if now is said:
        return False
    true = [one["type"] for one in now if one["status"] == "True"]
    return bool([one for one in said if one["status"] == "True" and one["type"] not in true])


def _hold_attachment(attachment: VolumeAttachment) -> list[ApiWrite]:
    if attachment.held or attachment.leaving:
        return []
    finalizers = attachment_rules.with_finalizers(attachment.obj, CONTROLLER_FINALIZER)
    return [SetFinalizers(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers)]


AGENT_RESPONSE_TIME = 2.0  # seconds within which an agent that works answers


def decide(view: VolumeView, means: DecisionContext) -> list[ApiWrite]:
    if not view.leaving and (forming := ensure_finalizers(view) + form_replicas(view, means)):
        return [*_remove_duplicates(view), *forming]
    decision = _decision(view, means)
    deeds = [*_remove_duplicates(view), *_remove_all(view), *_let_go(view, decision.quorum)]
    return (
        deeds
        if is_about_to_change(view, means.now()) or _is_over(view)
        else [*deeds, *write_statuses(view, means, decision)]
    )


def is_about_to_change(view: VolumeView, now: float) -> bool:
    """Whether a new replica's agent works and will tell an address at once: what is told, is
    told then.
    """
    for replica in view.silent:
        if (
            not view.host(replica).trouble
            and now < epoch_of(replica.obj["metadata"]["creationTimestamp"]) + AGENT_RESPONSE_TIME
        ):
            return True
    return False


def _is_over(view: VolumeView) -> bool:
    """Whether the volume and all of its replicas are on their way out: they have been told of,
    and nobody uses them.
    """
    return view.leaving and not view.actual and not view.living


def _remove_duplicates(view: VolumeView) -> list[ApiWrite]:
    """Nobody tends a second replica on a node, so nobody is to wait for it either."""
    return [
        SetFinalizers(
            REPLICATED_VOLUME_REPLICAS,
            one.obj,
            attachment_rules.without_finalizer(one.obj, CONTROLLER_FINALIZER),
        )
        if one.leaving
        else DeleteObject(REPLICATED_VOLUME_REPLICAS, one.obj)
        for one in view.doubles
        if one.held or not one.leaving
    ]


def _remove_all(view: VolumeView) -> list[ApiWrite]:
    """Of a volume that goes, once it is attached nowhere."""
    if not view.leaving or view.actual:
        return []
    return [DeleteObject(REPLICATED_VOLUME_REPLICAS, replica.obj) for replica in view.living]


def _let_go(view: VolumeView, quorum: QuorumSettings) -> list[ApiWrite]:
    deeds: list[ApiWrite] = [
        SetFinalizers(
            REPLICATED_VOLUME_REPLICAS,
            replica.obj,
            attachment_rules.without_finalizer(replica.obj, CONTROLLER_FINALIZER),
        )
        for replica in view.going
        if attachment_rules.may_leave(view, replica, quorum)
    ]
    for attachment in view.attachments:
        if (
            attachment.leaving
            and attachment.held
            and attachment_rules.is_detached(view, attachment)
        ):
            finalizers = attachment_rules.without_finalizer(attachment.obj, CONTROLLER_FINALIZER)
            deeds.append(SetFinalizers(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers))
    if view.leaving and not view.replicas and not view.doubles:
        finalizers = attachment_rules.without_finalizer(view.volume, CONTROLLER_FINALIZER)
        deeds.append(SetFinalizers(REPLICATED_VOLUMES, view.volume, finalizers))
    return deeds


def _decision(view: VolumeView, means: DecisionContext) -> VolumeDecision:
    generation, past = means.generation, view.past
    diskful = len(view.diskful) - len([replica for replica in view.homeless if replica.is_diskful])
    quorum = generation.quorum(view.layout, diskful, len(view.living) - len(view.homeless))
    io_ready, has_quorum = generation.io_ready(view, quorum), generation.has_quorum(view, quorum)
    return VolumeDecision(
        quorum=quorum,
        minor=means.free_minor() if past.minor is None else past.minor,
        secret=past.secret or means.chance.suffix(32),
        size=max(past.size, parse(view.volume["spec"]["size"]).value),
        primaries=attachment_rules.desired_primaries(view, io_ready=bool(io_ready.holds)),
        two_primaries=len(view.desired) > 1,
        complete=not [replica for replica in view.silent if not view.host(replica).trouble],
        io_ready=io_ready,
        has_quorum=has_quorum,
    )


# What decisions may draw on beside the view.


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """One leader's."""

    generation: Generation
    load: Callable[[str], int]
    """How many replicas a node has."""
    free_minor: Callable[[], int]
    chance: Stream
    now: Callable[[], float]
    readings: ParsedObjects
