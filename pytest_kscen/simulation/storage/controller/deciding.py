"""What the controller does about a volume that looks like this: a pure decision, deed by deed.

Replicas first: as long as some are to be made, changed or removed, nothing is told of those that are there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.objects.quantities import parse
from pytest_kscen.objects.storage import (
    ACCESS,
    DISKFUL,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
    TIE_BREAKER,
)
from pytest_kscen.simulation.storage.controller import attachments, layout, releasing
from pytest_kscen.simulation.storage.controller.deeds import Change, Deed, Make, Remove, Tell, holding
from pytest_kscen.simulation.storage.controller.view import CONTROLLER_FINALIZER
from pytest_kscen.simulation.storage.generations.generation import Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.layout import Quorum
    from pytest_kscen.simulation.storage.controller.view import Replica, View
    from pytest_kscen.simulation.storage.generations import Generation


@dataclass(frozen=True, slots=True)
class Means:
    """What a decision may draw on beside the view."""

    generation: Generation
    load: Callable[[str], int]
    """How many replicas a node has."""
    free_minor: Callable[[], int]
    chance: Stream
    now: float


PROMPT = 2.0  # seconds within which an agent that works answers


def decide(view: View, means: Means) -> list[Deed]:
    desired, minor, secret, size = means.generation.before(view.volume)
    view = replace(view, desired=attachments.desired_nodes(view, desired))
    if not view.leaving:
        if deeds := _hold(view) + _form(view, means):
            return deeds
    decision = _decision(view, means, minor, secret, size)
    deeds = [*_remove_all(view), *_let_go(view, decision.quorum)]
    return deeds if _is_about_to_change(view, means.now) else [*deeds, *_tell(view, means, decision)]


def _is_about_to_change(view: View, now: float) -> bool:
    """Whether a new replica's agent works and will tell an address at once: what is told, is told then."""
    return any(
        not replica.address
        and not view.host(replica).trouble
        and now < epoch_of(replica.obj["metadata"]["creationTimestamp"]) + PROMPT
        for replica in view.mesh
    )


# --- replicas ---


def _hold(view: View) -> list[Deed]:
    """Whatever is ours or concerns us is not to vanish without us. The volume's own comes with its first status."""
    deeds: list[Deed] = []
    for replica in view.living:
        wanted = releasing.with_finalizers(replica.obj, *releasing.finalizers_of_replica(replica.node))
        if len(wanted) > len(replica.obj["metadata"].get("finalizers", ())):
            deeds.append(holding(REPLICATED_VOLUME_REPLICAS, replica.obj, wanted))
    return deeds


def _form(view: View, means: Means) -> list[Deed]:
    generation, asked = means.generation, view.layout
    wrong = layout.changes(
        view, _missing_disks(view, generation), lambda diskful, access: generation.tie_breakers(asked, diskful, access)
    )
    hands = _Hands(view, means)
    deeds: list[Deed] = [Remove(REPLICATED_VOLUME_REPLICAS, replica.obj) for replica in wrong.surplus]
    for replica in wrong.converted:
        deeds.append(Change(REPLICATED_VOLUME_REPLICAS, replica.obj, {"spec": {"type": ACCESS}}))
    for replica in view.living:
        if not replica.node and replica not in wrong.surplus:
            deeds += hands.settle(replica)
    for _ in range(wrong.diskful):
        deeds += hands.make(DISKFUL)
    for node in wrong.access:
        deeds += hands.make(ACCESS, node)
    for _ in range(wrong.tie_breakers):
        deeds += hands.make(TIE_BREAKER)
    return deeds


def _missing_disks(view: View, generation: Generation) -> int:
    """The first of them gets the volume's data before there are others."""
    there = view.diskful
    if not generation.replaces_disks and any(replica.initialized for replica in view.replicas if replica.is_diskful):
        return 0
    at_once = generation.forms_at_once or any(replica.initialized for replica in there)
    return max(0, (view.layout.diskful if at_once else 1) - len(there))


class _Hands:
    """Numbers and nodes as they are given away, one replica after the other."""

    def __init__(self, view: View, means: Means) -> None:
        self._view, self._means = view, means
        self._numbers = [replica.number for replica in view.replicas]
        self._nodes = [replica.node for replica in view.replicas if replica.node]

    def _find(self, type_: str) -> str:
        node = layout.place(self._view, type_, self._nodes, self._means.load, self._means.chance)
        if node:
            self._nodes.append(node)
        return node

    def settle(self, replica: Replica) -> list[Deed]:
        """Give a replica a node that has none."""
        node = self._find(replica.type)
        if not node:
            return []
        finalizers = releasing.with_finalizers(replica.obj, *releasing.finalizers_of_replica(node))
        return [
            Change(REPLICATED_VOLUME_REPLICAS, replica.obj, {"spec": {"nodeName": node}, "metadata": {"finalizers": finalizers}})
        ]

    def make(self, type_: str, node: str = "") -> list[Deed]:
        number = layout.free_number(self._numbers)
        if number is None or node in self._nodes:  # a replica that is made beside it may have taken the node
            return []
        self._numbers.append(number)
        if node:
            self._nodes.append(node)
        return [Make(REPLICATED_VOLUME_REPLICAS, _replica(self._view, number, type_, node or self._find(type_)))]


def _replica(view: View, number: int, type_: str, node: str) -> Obj:
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
        "finalizers": releasing.finalizers_of_replica(node),
        "ownerReferences": [owner],
    }
    spec = {"replicatedVolumeName": view.name, "type": type_, **({"nodeName": node} if node else {})}
    return {
        "apiVersion": REPLICATED_VOLUME_REPLICAS.api_version,
        "kind": REPLICATED_VOLUME_REPLICAS.kind,
        "metadata": metadata,
        "spec": spec,
    }


# --- letting go ---


def _remove_all(view: View) -> list[Deed]:
    """Of a volume that goes, once it is attached nowhere."""
    if not view.leaving or view.actual:
        return []
    return [Remove(REPLICATED_VOLUME_REPLICAS, replica.obj) for replica in view.living]


def _let_go(view: View, quorum: Quorum) -> list[Deed]:
    deeds: list[Deed] = []
    for replica in view.replicas:
        if replica.leaving and replica.held and releasing.may_leave(view, replica, quorum):
            deeds.append(holding(REPLICATED_VOLUME_REPLICAS, replica.obj, releasing.without(replica.obj, CONTROLLER_FINALIZER)))
    for attachment in view.attachments:
        if attachment.leaving and attachment.held and releasing.is_detached(view, attachment):
            finalizers = releasing.without(attachment.obj, CONTROLLER_FINALIZER)
            deeds.append(holding(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers))
    if view.leaving and not view.replicas:
        finalizers = releasing.without(view.volume, CONTROLLER_FINALIZER)
        deeds.append(holding(REPLICATED_VOLUMES, view.volume, finalizers))
    return deeds


# --- telling ---


def _decision(view: View, means: Means, minor: int | None, secret: str, size: int) -> Decision:
    living = [replica for replica in view.living if replica.node]
    diskful = [replica for replica in living if replica.is_diskful]
    quorum = means.generation.quorum(view.layout, len(diskful), len(living))
    generation = means.generation
    io_ready, has_quorum = generation.io_ready(view, quorum), generation.has_quorum(view, quorum)
    return Decision(
        quorum=quorum,
        minor=means.free_minor() if minor is None else minor,
        secret=secret or means.chance.suffix(32),
        size=max(size, parse(view.volume["spec"]["size"]).value),
        primaries=attachments.primaries(view, io_ready=bool(io_ready.holds)),
        two_primaries=len(view.desired) > 1,
        complete=all(replica.address or view.host(replica).trouble for replica in view.mesh),
        io_ready=io_ready,
        has_quorum=has_quorum,
    )


def _tell(view: View, means: Means, decision: Decision) -> list[Deed]:
    generation, now = means.generation, timestamp_of(means.now)
    deeds: list[Deed] = []
    for replica in view.replicas:
        if replica.leaving and not replica.held:
            continue
        _say(deeds, Tell(REPLICATED_VOLUME_REPLICAS, replica.obj, generation.tell_replica(view, replica, decision, now)))
    for attachment in view.attachments:
        deeds += _hold_attachment(attachment)
        if attachment.leaving and (not attachment.held or releasing.is_detached(view, attachment)):
            continue
        standing = attachments.standing(view, attachment, io_ready=bool(decision.io_ready.holds))
        _say(
            deeds,
            Tell(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, generation.tell_attachment(view, attachment, standing, now)),
        )
    if view.leaving and not view.replicas:
        return deeds
    finalizers = releasing.with_finalizers(view.volume, CONTROLLER_FINALIZER)
    if not view.leaving and len(finalizers) > len(view.volume["metadata"].get("finalizers", ())):
        deeds.append(holding(REPLICATED_VOLUMES, view.volume, finalizers))
    _say(deeds, Tell(REPLICATED_VOLUMES, view.volume, generation.tell_volume(view, decision, now)))
    return deeds


def _say(deeds: list[Deed], tell: Tell) -> None:
    """Nothing is written that is there already."""
    if tell.status != tell.obj.get("status"):
        deeds.append(tell)


def _hold_attachment(attachment: attachments.Attachment) -> list[Deed]:
    if attachment.held or attachment.leaving:
        return []
    finalizers = releasing.with_finalizers(attachment.obj, CONTROLLER_FINALIZER)
    return [holding(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers)]
