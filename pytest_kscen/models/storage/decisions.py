"""Decisions of the controller about one volume: a pure function from a view to writes.

Called by the controller for each reconciliation. While replicas have to be created, changed or
removed, no status is written: it would be outdated at once.
"""

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
        VolumeAttachment,
        VolumeReplica,
        VolumeView,
    )
    from pytest_kscen.objects.resources import Obj, Resource


def ensure_finalizers(view: VolumeView) -> list[ApiWrite]:
    """Add missing finalizers to replicas. The volume's finalizer is added with its first status."""
    writes: list[ApiWrite] = []
    for replica in view.active:
        if not replica.held or (replica.node and not replica.agent_held):
            wanted = attachment_rules.with_finalizers(
                replica.obj, *attachment_rules.finalizers_of_replica(replica.node)
            )
            writes.append(SetFinalizers(REPLICATED_VOLUME_REPLICAS, replica.obj, wanted))
    return writes


def form_replicas(view: VolumeView, context: DecisionContext) -> list[ApiWrite]:
    """Return the writes that adjust the replicas to the layout; none if they match it."""
    tie_breakers, missing = (
        context.generation.tie_breakers,
        _missing_disks(view, context.generation),
    )
    if (
        not missing
        and not view.unscheduled
        and not any(volume_view.plan_changes(view, (), tie_breakers))
    ):
        return []
    planner = _ReplicaPlanner(view, context)
    new_disk_nodes = [planner.take_node(DISKFUL) for _ in range(missing)]
    changes = volume_view.plan_changes(view, new_disk_nodes, tie_breakers)
    planner.exclude([*changes.surplus, *changes.converted])
    writes: list[ApiWrite] = [
        DeleteObject(REPLICATED_VOLUME_REPLICAS, replica.obj) for replica in changes.surplus
    ]
    to_access = {"spec": {"type": ACCESS}}
    writes += [
        PatchObject(REPLICATED_VOLUME_REPLICAS, replica.obj, to_access)
        for replica in changes.converted
    ]
    for replica in sorted(view.unscheduled, key=lambda one: not one.is_diskful):  # disks first
        if replica not in changes.surplus:
            writes += planner.schedule(replica) or planner.convert_diskless(replica)
    for node in new_disk_nodes:
        writes += planner.create(DISKFUL, node)
    for _ in range(changes.access):
        if node := planner.take_node(ACCESS):  # a disk may have taken the node
            writes += planner.create(ACCESS, node)
    for _ in range(changes.tie_breakers):
        writes += planner.create(TIE_BREAKER, planner.take_node(TIE_BREAKER))
    return writes


def _missing_disks(view: VolumeView, generation: Generation) -> int:
    """Return how many disks to create now.

    Where the generation forms volumes step by step, the first disk gets the data before there are
    others. A disk that is deleted before it had the data counts as never created.
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
    """Assignment of numbers and nodes during one decision. What one replica gets, the next cannot;
    nothing is assigned by it in the cluster.
    """

    def __init__(self, view: VolumeView, context: DecisionContext) -> None:
        self._view, self._context = view, context
        self._numbers = [replica.number for replica in [*view.replicas, *view.duplicates]]
        self._nodes = [replica.node for replica in view.replicas if replica.node]
        self._disks = sum(bool(replica.node) for replica in view.diskful)
        self._diskless = {one.node: one for one in view.active if one.node and not one.is_diskful}

    def exclude(self, changing: list[VolumeReplica]) -> None:
        """Exclude replicas from becoming disks, because they are about to change or to go."""
        for replica in changing:
            self._diskless.pop(replica.node, None)

    def take_node(self, type_: str) -> str:
        """Choose and reserve a node for a replica of this type; empty if there is none."""
        node = volume_view.choose_node(
            self._view, type_, self._nodes, self._context.load, self._context.chance
        )
        if node:
            self._nodes.append(node)
            self._disks += type_ == DISKFUL
        return node

    def schedule(self, replica: VolumeReplica) -> list[ApiWrite]:
        node = self.take_node(replica.type)
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

    def convert_diskless(self, replica: VolumeReplica) -> list[ApiWrite]:
        """Convert a diskless replica to a diskful one if no node is free for a new disk. The
        replica that waits for a node is deleted.
        """
        if not replica.is_diskful or self._disks >= self._view.layout.diskful:
            return []
        taken = [node for node in self._nodes if node not in self._diskless]
        other = self._diskless.pop(
            volume_view.choose_node(
                self._view, DISKFUL, taken, self._context.load, self._context.chance
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

    def create(self, type_: str, node: str) -> list[ApiWrite]:
        number = volume_view.free_number(self._numbers)
        if number is None:
            return []
        self._numbers.append(number)
        name = self._view.name
        owner = {
            "apiVersion": REPLICATED_VOLUMES.api_version,
            "kind": REPLICATED_VOLUMES.kind,
            "name": name,
            "uid": self._view.volume["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        replica = {
            "apiVersion": REPLICATED_VOLUME_REPLICAS.api_version,
            "kind": REPLICATED_VOLUME_REPLICAS.kind,
            "metadata": {
                "name": f"{name}-{number}",
                "finalizers": attachment_rules.finalizers_of_replica(node),
                "ownerReferences": [owner],
            },
            "spec": {
                "replicatedVolumeName": name,
                "type": type_,
                **({"nodeName": node} if node else {}),
            },
        }
        return [CreateObject(REPLICATED_VOLUME_REPLICAS, replica)]


def write_statuses(
    view: VolumeView, context: DecisionContext, decision: VolumeDecision
) -> list[ApiWrite]:
    now = timestamp_of(context.now())
    writes: list[ApiWrite] = []
    for replica in view.replicas:
        inputs = context.generation.status_inputs(view, replica, decision)
        if (replica.deleting and not replica.held) or context.parsed.is_written(replica, inputs):
            continue
        status = context.generation.replica_status(view, replica, decision, now)
        writes += _part_status_write(context, REPLICATED_VOLUME_REPLICAS, replica, inputs, status)
    writes += _attachment_statuses(view, context, decision, now)
    if view.deleting and not view.replicas:
        return writes
    if not view.deleting and CONTROLLER_FINALIZER not in view.volume["metadata"].get(
        "finalizers", ()
    ):
        writes.append(
            SetFinalizers(
                REPLICATED_VOLUMES,
                view.volume,
                attachment_rules.with_finalizers(view.volume, CONTROLLER_FINALIZER),
            )
        )
    return writes + _status_write(
        context,
        REPLICATED_VOLUMES,
        view.volume,
        context.generation.volume_status(view, decision, now),
    )


def _attachment_statuses(
    view: VolumeView, context: DecisionContext, decision: VolumeDecision, now: str
) -> list[ApiWrite]:
    writes: list[ApiWrite] = []
    for attachment in view.attachments:
        if not attachment.held and not attachment.deleting:
            finalizers = attachment_rules.with_finalizers(attachment.obj, CONTROLLER_FINALIZER)
            writes.append(SetFinalizers(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers))
        if attachment.deleting and (
            not attachment.held or attachment_rules.is_detached(view, attachment)
        ):
            continue
        state = attachment_rules.attachment_state(
            view, attachment, io_ready=bool(decision.io_ready.holds)
        )
        replica = view.on(attachment.node)
        inputs = (
            state,
            replica.obj["metadata"]["resourceVersion"] if replica else None,
        )  # to compare it whole takes work
        if context.parsed.is_written(attachment, inputs):
            continue
        status = context.generation.attachment_status(view, attachment, state, now)
        writes += _part_status_write(
            context, REPLICATED_VOLUME_ATTACHMENTS, attachment, inputs, status
        )
    return writes


def _part_status_write(
    context: DecisionContext,
    resource: Resource,
    part: VolumeReplica | VolumeAttachment,
    inputs: object,
    status: Obj,
) -> list[ApiWrite]:
    """Return the write for a replica or an attachment, and note the inputs: as long as they are the
    same, the status is not computed again.
    """
    new = _status_write(context, resource, part.obj, status)
    context.parsed.note_written(part, inputs, status if new else None)
    return new


def _status_write(
    context: DecisionContext, resource: Resource, obj: Obj, status: Obj
) -> list[ApiWrite]:
    before = obj.get("status") or {}
    if status == before:
        return []
    is_urgent = not context.generation.has_same_orders(status, before)
    now, then = status.get("conditions") or (), before.get("conditions") or ()
    if not is_urgent and now is not then:
        # urgent as well: a condition that was True is not any more
        true = [one["type"] for one in now if one["status"] == "True"]
        is_urgent = any(one["status"] == "True" and one["type"] not in true for one in then)
    return [WriteStatus(resource, obj, status, is_urgent)]


AGENT_RESPONSE_TIME = 2.0  # seconds until a working agent has answered


def decide(view: VolumeView, context: DecisionContext) -> list[ApiWrite]:
    """Return all writes that a volume needs now, in the order in which to perform them."""
    if not view.deleting and (forming := ensure_finalizers(view) + form_replicas(view, context)):
        return [*_remove_duplicates(view), *forming]
    decision = _volume_decision(view, context)
    writes = _remove_duplicates(view)
    is_removed = view.deleting and not view.attached_nodes
    if is_removed:
        writes += [DeleteObject(REPLICATED_VOLUME_REPLICAS, one.obj) for one in view.active]
    writes += [
        SetFinalizers(
            REPLICATED_VOLUME_REPLICAS,
            replica.obj,
            attachment_rules.without_finalizer(replica.obj, CONTROLLER_FINALIZER),
        )
        for replica in view.terminating
        if attachment_rules.may_leave(view, replica, decision.quorum)
    ]
    for attachment in view.attachments:
        if (
            attachment.deleting
            and attachment.held
            and attachment_rules.is_detached(view, attachment)
        ):
            finalizers = attachment_rules.without_finalizer(attachment.obj, CONTROLLER_FINALIZER)
            writes.append(SetFinalizers(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers))
    if view.deleting and not view.replicas and not view.duplicates:
        finalizers = attachment_rules.without_finalizer(view.volume, CONTROLLER_FINALIZER)
        writes.append(SetFinalizers(REPLICATED_VOLUMES, view.volume, finalizers))
    if is_about_to_change(view, context.now()) or (is_removed and not view.active):
        return writes
    return [*writes, *write_statuses(view, context, decision)]


def is_about_to_change(view: VolumeView, now: float) -> bool:
    """Return True if a working agent is about to report the address of a new replica. Statuses can
    wait for it.
    """
    for replica in view.unaddressed:
        if (
            not view.host(replica).problem
            and now < epoch_of(replica.obj["metadata"]["creationTimestamp"]) + AGENT_RESPONSE_TIME
        ):
            return True
    return False


def _remove_duplicates(view: VolumeView) -> list[ApiWrite]:
    """Delete and release replicas on nodes that already had one: no agent manages them."""
    return [
        SetFinalizers(
            REPLICATED_VOLUME_REPLICAS,
            one.obj,
            attachment_rules.without_finalizer(one.obj, CONTROLLER_FINALIZER),
        )
        if one.deleting
        else DeleteObject(REPLICATED_VOLUME_REPLICAS, one.obj)
        for one in view.duplicates
        if one.held or not one.deleting
    ]


def _volume_decision(view: VolumeView, context: DecisionContext) -> VolumeDecision:
    generation, previous = context.generation, view.previous
    diskful = len(view.diskful) - len(
        [replica for replica in view.unscheduled if replica.is_diskful]
    )
    quorum = generation.quorum(view.layout, diskful, len(view.active) - len(view.unscheduled))
    io_ready, has_quorum = generation.io_ready(view, quorum), generation.has_quorum(view, quorum)
    return VolumeDecision(
        quorum=quorum,
        minor=context.free_minor() if previous.minor is None else previous.minor,
        secret=previous.secret or context.chance.suffix(32),
        size=max(previous.size, parse(view.volume["spec"]["size"]).value),
        primaries=attachment_rules.desired_primaries(view, io_ready=bool(io_ready.holds)),
        two_primaries=len(view.desired_nodes) > 1,
        all_addresses_known=not [
            replica for replica in view.unaddressed if not view.host(replica).problem
        ],
        io_ready=io_ready,
        has_quorum=has_quorum,
    )


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """Inputs of decisions in addition to the view, common to all volumes of one controller."""

    generation: Generation
    load: Callable[[str], int]
    """Return the number of replicas on a node."""
    free_minor: Callable[[], int]
    chance: Stream
    now: Callable[[], float]
    parsed: ParsedObjects
