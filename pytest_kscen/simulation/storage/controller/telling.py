"""Telling how a volume, its replicas and its attachments stand: what is new is written, once for each object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.storage import REPLICATED_VOLUME_ATTACHMENTS, REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES
from pytest_kscen.simulation.storage.controller import attachments, releasing
from pytest_kscen.simulation.storage.controller.deeds import Deed, Tell, holding
from pytest_kscen.simulation.storage.controller.view import CONTROLLER_FINALIZER

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.simulation.storage.controller.means import Means
    from pytest_kscen.simulation.storage.controller.view import Attachment, View
    from pytest_kscen.simulation.storage.generations.generation import Decision


def tell(view: View, means: Means, decision: Decision) -> list[Deed]:
    generation, now = means.generation, timestamp_of(means.now)
    deeds: list[Deed] = []

    def say(resource: Resource, obj: Obj, status: Obj) -> bool:
        """Nothing is written that is there already."""
        if status == obj.get("status"):
            return False
        told = {**obj, "status": status}
        is_urgent = generation.orders_in(told) != generation.orders_in(obj) or _is_worse(told, obj)
        deeds.append(Tell(resource, obj, status, is_urgent))
        return True

    for replica in view.replicas:
        grounds = generation.grounds(view, replica, decision)
        if (replica.leaving and not replica.held) or (grounds and means.readings.is_told(replica, grounds)):
            continue
        if not say(REPLICATED_VOLUME_REPLICAS, replica.obj, generation.tell_replica(view, replica, decision, now)) and grounds:
            means.readings.note_told(replica, grounds)
    for attachment in view.attachments:
        deeds += _hold_attachment(attachment)
        if attachment.leaving and (not attachment.held or releasing.is_detached(view, attachment)):
            continue
        standing = attachments.standing(view, attachment, io_ready=bool(decision.io_ready.holds))
        say(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, generation.tell_attachment(view, attachment, standing, now))
    if view.leaving and not view.replicas:
        return deeds
    finalizers = releasing.with_finalizers(view.volume, CONTROLLER_FINALIZER)
    if not view.leaving and len(finalizers) > len(view.volume["metadata"].get("finalizers", ())):
        deeds.append(holding(REPLICATED_VOLUMES, view.volume, finalizers))
    say(REPLICATED_VOLUMES, view.volume, generation.tell_volume(view, decision, now))
    return deeds


def _is_worse(obj: Obj, before: Obj) -> bool:
    """Whether something that was true is not any more."""
    said = (before.get("status") or {}).get("conditions") or ()
    return any(one["status"] == "True" and not is_true(obj, one["type"]) for one in said)


def _hold_attachment(attachment: Attachment) -> list[Deed]:
    if attachment.held or attachment.leaving:
        return []
    finalizers = releasing.with_finalizers(attachment.obj, CONTROLLER_FINALIZER)
    return [holding(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers)]
