"""When what is being deleted may go: pure rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.controller.view import AGENT_FINALIZER, CONTROLLER_FINALIZER

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.layout import Quorum
    from pytest_kscen.simulation.storage.controller.view import Attachment, Replica, View

RECHECK = 10.0  # seconds until a replica that had to stay is looked at again


def may_leave(view: View, replica: Replica, quorum: Quorum) -> bool:
    """Whether a replica that was deleted is not needed any more."""
    if not replica.node:
        return True
    if view.leaving:
        return not view.actual
    if replica.primary or replica.asked_primary:
        return False
    if not any(one.initialized or one.up_to_date for one in view.replicas if one.is_diskful):
        return True  # there is nothing yet that could be lost
    if not replica.is_diskful and not view.layout.guards_diskless:
        return True
    others = [other for other in view.living if other is not replica]
    online = sum(bool(other.online.holds) for other in others)
    ready = sum(other.is_diskful and bool(other.io_ready.holds) for other in others)
    return online >= quorum.votes and (ready >= view.layout.io_ready or _stands_in_the_way(view, replica))


def _stands_in_the_way(view: View, replica: Replica) -> bool:
    """Whether a disk may be waiting for this very node."""
    return not replica.is_diskful and any(one.is_diskful for one in view.homeless)


def is_detached(view: View, attachment: Attachment) -> bool:
    """Whether the node of an attachment that was deleted has let the volume go."""
    others = [one for one in view.attachments if one.node == attachment.node and not one.leaving]
    return bool(others) or attachment.node not in view.actual


def with_finalizers(obj: Obj, *names: str) -> list[str]:
    held = list(obj["metadata"].get("finalizers", ()))
    return [*held, *(name for name in names if name not in held)]


def without(obj: Obj, name: str) -> list[str]:
    return [held for held in obj["metadata"].get("finalizers", ()) if held != name]


def finalizers_of_replica(node: str) -> list[str]:
    return [CONTROLLER_FINALIZER, AGENT_FINALIZER] if node else [CONTROLLER_FINALIZER]
