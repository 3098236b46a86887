"""Telling how a volume, its replicas and its attachments stand: what is new is written, once for each object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.objects.storage import REPLICATED_VOLUME_ATTACHMENTS, REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES
from pytest_kscen.simulation.storage.controller import attachments, releasing
from pytest_kscen.simulation.storage.controller.deeds import Deed, Hold, Tell
from pytest_kscen.simulation.storage.controller.view import CONTROLLER_FINALIZER

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.simulation.storage.controller.means import Means
    from pytest_kscen.simulation.storage.controller.view import Attachment, Replica, View
    from pytest_kscen.simulation.storage.generations.generation import Decision


def tell(view: View, means: Means, decision: Decision) -> list[Deed]:
    now = timestamp_of(means.now())
    deeds = _of_replicas(view, means, decision, now) + _of_attachments(view, means, decision, now)
    if view.leaving and not view.replicas:
        return deeds
    if not view.leaving and CONTROLLER_FINALIZER not in view.volume["metadata"].get("finalizers", ()):
        deeds.append(Hold(REPLICATED_VOLUMES, view.volume, releasing.with_finalizers(view.volume, CONTROLLER_FINALIZER)))
    return deeds + _say(means, REPLICATED_VOLUMES, view.volume, means.generation.tell_volume(view, decision, now))


def _of_replicas(view: View, means: Means, decision: Decision, now: str) -> list[Deed]:
    deeds: list[Deed] = []
    for replica in view.replicas:
        grounds = means.generation.grounds(view, replica, decision)
        if (replica.leaving and not replica.held) or means.readings.is_told(replica, grounds):
            continue
        status = means.generation.tell_replica(view, replica, decision, now)
        deeds += _say_of(means, REPLICATED_VOLUME_REPLICAS, replica, grounds, status)
    return deeds


def _of_attachments(view: View, means: Means, decision: Decision, now: str) -> list[Deed]:
    deeds: list[Deed] = []
    for attachment in view.attachments:
        deeds += _hold_attachment(attachment)
        if attachment.leaving and (not attachment.held or releasing.is_detached(view, attachment)):
            continue
        standing = attachments.standing(view, attachment, io_ready=bool(decision.io_ready.holds))
        replica = view.on(attachment.node)
        grounds = standing, replica.obj["metadata"]["resourceVersion"] if replica else None  # to compare it whole takes work
        if means.readings.is_told(attachment, grounds):
            continue
        status = means.generation.tell_attachment(view, attachment, standing, now)
        deeds += _say_of(means, REPLICATED_VOLUME_ATTACHMENTS, attachment, grounds, status)
    return deeds


def _say_of(means: Means, resource: Resource, part: Replica | Attachment, grounds: object, status: Obj) -> list[Deed]:
    """It is not worked out again as long as it stands on the same grounds."""
    new = _say(means, resource, part.obj, status)
    means.readings.note_told(part, grounds, status if new else None)
    return new


def _say(means: Means, resource: Resource, obj: Obj, status: Obj) -> list[Deed]:
    """Nothing is written that is there already."""
    before = obj.get("status") or {}
    if status == before:
        return []
    is_urgent = not means.generation.has_same_orders(status, before) or _is_worse(status, before)
    return [Tell(resource, obj, status, is_urgent)]


def _is_worse(status: Obj, before: Obj) -> bool:
    """Whether something that was true is not any more."""
    now, said = status.get("conditions") or (), before.get("conditions") or ()
    if now is said:
        return False
    true = [one["type"] for one in now if one["status"] == "True"]
    return bool([one for one in said if one["status"] == "True" and one["type"] not in true])


def _hold_attachment(attachment: Attachment) -> list[Deed]:
    if attachment.held or attachment.leaving:
        return []
    finalizers = releasing.with_finalizers(attachment.obj, CONTROLLER_FINALIZER)
    return [Hold(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers)]
