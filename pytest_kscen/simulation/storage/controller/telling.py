"""Telling how a volume, its replicas and its attachments stand: what is new is written, once for each object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.objects.storage import REPLICATED_VOLUME_ATTACHMENTS, REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES
from pytest_kscen.simulation.storage.controller import attachments, releasing
from pytest_kscen.simulation.storage.controller.deeds import Deed, Tell, holding
from pytest_kscen.simulation.storage.controller.view import CONTROLLER_FINALIZER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.simulation.storage.controller.means import Means
    from pytest_kscen.simulation.storage.controller.view import Attachment, View
    from pytest_kscen.simulation.storage.generations.generation import Decision


def tell(view: View, means: Means, decision: Decision) -> list[Deed]:
    now = timestamp_of(means.now())
    deeds = [*_of_replicas(view, means, decision, now), *_of_attachments(view, means, decision, now)]
    if view.leaving and not view.replicas:
        return deeds
    finalizers = releasing.with_finalizers(view.volume, CONTROLLER_FINALIZER)
    if not view.leaving and len(finalizers) > len(view.volume["metadata"].get("finalizers", ())):
        deeds.append(holding(REPLICATED_VOLUMES, view.volume, finalizers))
    return deeds + _say(means, REPLICATED_VOLUMES, view.volume, means.generation.tell_volume(view, decision, now))


def _of_replicas(view: View, means: Means, decision: Decision, now: str) -> Iterator[Deed]:
    for replica in view.replicas:
        grounds = means.generation.grounds(view, replica, decision)
        if (replica.leaving and not replica.held) or means.readings.is_told(replica, grounds):
            continue
        new = _say(means, REPLICATED_VOLUME_REPLICAS, replica.obj, means.generation.tell_replica(view, replica, decision, now))
        if not new:
            means.readings.note_told(replica, grounds)
        yield from new


def _of_attachments(view: View, means: Means, decision: Decision, now: str) -> Iterator[Deed]:
    for attachment in view.attachments:
        yield from _hold_attachment(attachment)
        if attachment.leaving and (not attachment.held or releasing.is_detached(view, attachment)):
            continue
        standing = attachments.standing(view, attachment, io_ready=bool(decision.io_ready.holds))
        replica = view.on(attachment.node)
        grounds = standing, replica.obj if replica else None
        if means.readings.is_told(attachment, grounds):
            continue
        status = means.generation.tell_attachment(view, attachment, standing, now)
        new = _say(means, REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, status)
        if not new:
            means.readings.note_told(attachment, grounds)
        yield from new


def _say(means: Means, resource: Resource, obj: Obj, status: Obj) -> list[Deed]:
    """Nothing is written that is there already."""
    if status == obj.get("status"):
        return []
    told, orders_in = {**obj, "status": status}, means.generation.orders_in
    is_urgent = orders_in(told) != orders_in(obj) or _is_worse(told, obj)
    return [Tell(resource, obj, status, is_urgent)]


def _is_worse(obj: Obj, before: Obj) -> bool:
    """Whether something that was true is not any more."""
    now, said = ((each.get("status") or {}).get("conditions") or () for each in (obj, before))
    if now is said:
        return False
    true = [one["type"] for one in now if one["status"] == "True"]
    return any(one["status"] == "True" and one["type"] not in true for one in said)


def _hold_attachment(attachment: Attachment) -> list[Deed]:
    if attachment.held or attachment.leaving:
        return []
    finalizers = releasing.with_finalizers(attachment.obj, CONTROLLER_FINALIZER)
    return [holding(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers)]
