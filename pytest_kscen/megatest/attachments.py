"""Attaching a volume to a node and detaching it, as a CSI driver would: an attachment object, and what comes of it."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from pytest_kscen.megatest.subject import asking, attempt, disk_going, made, unless_hindered
from pytest_kscen.megatest.view import ATTACHMENT, VOLUME, name_of
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.storage import DISKFUL, REPLICATED_VOLUME_ATTACHMENTS, volume_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.subject import Subject
    from pytest_kscen.objects.resources import Obj

PATIENCE = 300.0  # seconds within which a node has to be attached or detached
NOT_LOCAL = "UnableToProvideLocalVolumeAccess"
LONGEST_NAME = 253
HASH = 10


def attachment_name(volume: str, node: str) -> str:
    name = f"rva-{volume}-{node}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:HASH]
    return f"{name[: LONGEST_NAME - HASH - 1].rstrip('-.')}-{digest}"


def attached_nodes(rv: Subject) -> list[str]:
    """Where the volume is wanted: the nodes of the attachments that nobody has deleted."""
    staying = [one for one in rv.view.attachments(rv.name) if not one["metadata"].get("deletionTimestamp")]
    return list(dict.fromkeys(one["spec"]["nodeName"] for one in staying))


def attached_to(volume: Obj | None) -> list[str]:
    """Where it is attached in fact."""
    return list(((volume or {}).get("status") or {}).get("actuallyAttachedTo") or ())


async def request(rv: Subject, actor: Actor, node: str) -> Obj:
    """Ask for the attachment and do not wait for it."""
    spec = {"replicatedVolumeName": rv.name, "nodeName": node}
    name = attachment_name(rv.name, node)
    return await actor.api.create(REPLICATED_VOLUME_ATTACHMENTS, made(actor, REPLICATED_VOLUME_ATTACHMENTS, name, spec))


@contextlib.contextmanager
def arrivals_noted(rv: Subject, actor: Actor, uids: Iterable[str]) -> Iterator[None]:
    """Nobody waits for those that were asked for at first: each is noted when it is there."""
    awaited = set(uids)

    def look() -> None:
        for one in rv.view.attachments(rv.name) if awaited else ():
            if one["metadata"]["uid"] in awaited and is_true(one, "Ready"):
                awaited.remove(one["metadata"]["uid"])
                actor.note("attached", volume=rv.name, node=one["spec"]["nodeName"])

    with rv.view.listening(rv.name, look, to=(ATTACHMENT,)):
        look()
        yield


async def attach(rv: Subject, actor: Actor, node: str) -> None:
    async with actor.doing("attach", volume=rv.name, node=node) as deed:
        with asking(deed):
            uid = (await request(rv, actor, node))["metadata"]["uid"]

        def ready() -> bool:
            return any(one["metadata"]["uid"] == uid and is_true(one, "Ready") for one in rv.view.attachments(rv.name))

        with unless_hindered(lambda: disk_going(rv, node) or _shut_out(rv, node)):
            awaited = f"{rv.name} was not attached to {node}"
            await rv.view.until(rv.name, ready, timeout=PATIENCE, awaited=awaited, to=(ATTACHMENT,))


def _shut_out(rv: Subject, node: str) -> str:
    """A class with local access alone keeps its volumes off the nodes without their disks."""
    if any(replica["spec"].get("type") == DISKFUL for replica in _on(node, rv.view.replicas(rv.name))):
        return ""
    said = [condition(one, "Attached") or {} for one in _on(node, rv.view.attachments(rv.name))]
    return next((one["message"] for one in said if one.get("reason") == NOT_LOCAL), "")


def _on(node: str, parts: Sequence[Obj]) -> list[Obj]:
    return [one for one in parts if one["spec"].get("nodeName") == node]


async def detach(rv: Subject, actor: Actor, node: str) -> None:
    async with actor.doing("detach", volume=rv.name, node=node) as deed:
        with asking(deed):
            for one in rv.view.attachments(rv.name):
                if one["spec"]["nodeName"] == node:
                    await _delete(actor, one)
        await _gone(rv, node)


async def detach_everywhere(rv: Subject, actor: Actor) -> None:
    """The attacher's last act."""
    async with attempt(actor, "detach everywhere", volume=rv.name) as deed:
        with asking(deed):
            await give_back(rv, actor)
        await _gone(rv)


async def give_back(rv: Subject, actor: Actor) -> None:
    """Delete what attachments there are. The API itself is asked, for the view may be older than our own last request."""
    listing = await actor.api.list(REPLICATED_VOLUME_ATTACHMENTS)
    for one in listing.items:
        if volume_of(one) == rv.name:
            await _delete(actor, one)


async def _delete(actor: Actor, attachment: Obj) -> None:
    with contextlib.suppress(NotFound):
        await actor.api.delete(REPLICATED_VOLUME_ATTACHMENTS, name_of(attachment))


async def _gone(rv: Subject, node: str = "") -> None:
    """Until the volume is attached to this node no more, or nowhere."""

    def gone() -> bool:
        asked = [one["spec"]["nodeName"] for one in rv.view.attachments(rv.name)]
        actual = attached_to(rv.volume)
        return node not in (*asked, *actual) if node else not (asked or actual)

    awaited = f"{rv.name} was not detached from {node or 'all nodes'}"
    await rv.view.until(rv.name, gone, timeout=PATIENCE, awaited=awaited, to=(VOLUME, ATTACHMENT))
