"""What the controller does about a volume that looks like this: a pure decision, deed by deed.

Replicas first: as long as some are to be made, changed or removed, nothing is told of those that are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.quantities import parse
from pytest_kscen.objects.storage import REPLICATED_VOLUME_ATTACHMENTS, REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES
from pytest_kscen.simulation.storage.controller import attachments, releasing
from pytest_kscen.simulation.storage.controller.deeds import Deed, Hold, Remove
from pytest_kscen.simulation.storage.controller.forming import form, hold
from pytest_kscen.simulation.storage.controller.telling import tell
from pytest_kscen.simulation.storage.controller.view import CONTROLLER_FINALIZER
from pytest_kscen.simulation.storage.generations.generation import Decision

if TYPE_CHECKING:
    from pytest_kscen.simulation.storage.controller.layout import Quorum
    from pytest_kscen.simulation.storage.controller.means import Means
    from pytest_kscen.simulation.storage.controller.view import View

PROMPT = 2.0  # seconds within which an agent that works answers


def decide(view: View, means: Means) -> list[Deed]:
    if not view.leaving and (forming := hold(view) + form(view, means)):
        return [*_turn_away(view), *forming]
    decision = _decision(view, means)
    deeds = [*_turn_away(view), *_remove_all(view), *_let_go(view, decision.quorum)]
    return deeds if is_about_to_change(view, means.now()) or _is_over(view) else [*deeds, *tell(view, means, decision)]


def is_about_to_change(view: View, now: float) -> bool:
    """Whether a new replica's agent works and will tell an address at once: what is told, is told then."""
    for replica in view.silent:
        if not view.host(replica).trouble and now < epoch_of(replica.obj["metadata"]["creationTimestamp"]) + PROMPT:
            return True
    return False


def _is_over(view: View) -> bool:
    """Whether the volume and all of its replicas are on their way out: they have been told of, and nobody uses them."""
    return view.leaving and not view.actual and not view.living


def _turn_away(view: View) -> list[Deed]:
    """Nobody tends a second replica on a node, so nobody is to wait for it either."""
    return [
        Hold(REPLICATED_VOLUME_REPLICAS, one.obj, releasing.without(one.obj, CONTROLLER_FINALIZER))
        if one.leaving
        else Remove(REPLICATED_VOLUME_REPLICAS, one.obj)
        for one in view.doubles
        if one.held or not one.leaving
    ]


def _remove_all(view: View) -> list[Deed]:
    """Of a volume that goes, once it is attached nowhere."""
    if not view.leaving or view.actual:
        return []
    return [Remove(REPLICATED_VOLUME_REPLICAS, replica.obj) for replica in view.living]


def _let_go(view: View, quorum: Quorum) -> list[Deed]:
    deeds: list[Deed] = [
        Hold(REPLICATED_VOLUME_REPLICAS, replica.obj, releasing.without(replica.obj, CONTROLLER_FINALIZER))
        for replica in view.going
        if releasing.may_leave(view, replica, quorum)
    ]
    for attachment in view.attachments:
        if attachment.leaving and attachment.held and releasing.is_detached(view, attachment):
            finalizers = releasing.without(attachment.obj, CONTROLLER_FINALIZER)
            deeds.append(Hold(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers))
    if view.leaving and not view.replicas and not view.doubles:
        finalizers = releasing.without(view.volume, CONTROLLER_FINALIZER)
        deeds.append(Hold(REPLICATED_VOLUMES, view.volume, finalizers))
    return deeds


def _decision(view: View, means: Means) -> Decision:
    generation, past = means.generation, view.past
    diskful = len(view.diskful) - len([replica for replica in view.homeless if replica.is_diskful])
    quorum = generation.quorum(view.layout, diskful, len(view.living) - len(view.homeless))
    io_ready, has_quorum = generation.io_ready(view, quorum), generation.has_quorum(view, quorum)
    return Decision(
        quorum=quorum,
        minor=means.free_minor() if past.minor is None else past.minor,
        secret=past.secret or means.chance.suffix(32),
        size=max(past.size, parse(view.volume["spec"]["size"]).value),
        primaries=attachments.primaries(view, io_ready=bool(io_ready.holds)),
        two_primaries=len(view.desired) > 1,
        complete=not [replica for replica in view.silent if not view.host(replica).trouble],
        io_ready=io_ready,
        has_quorum=has_quorum,
    )
