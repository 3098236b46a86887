"""One volume as its actors receive it: its attachments and its placement."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.megatest.view import ATTACHMENT, REPLICA, VOLUME, name_of
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.storage import DISKFUL, REPLICATED_VOLUME_ATTACHMENTS, volume_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from pytest_kscen.kube.actor import Actor, OngoingAction, RunContext
    from pytest_kscen.megatest.churn import Seconds
    from pytest_kscen.megatest.view import RunState, VolumesWatch
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.objects.storage import HealthSource


REFUSALS = (ApiError, OSError)
"""What ends an action but nobody's life. A time-out is an OSError."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One volume under test."""

    name: str
    context: RunContext
    state: RunState
    watch: VolumesWatch
    key: str = ""
    """What its actors' chance goes by, whatever it is called; without one, its name."""

    def actor(self, role: str) -> Actor:
        return self.context.actor(
            f"{role}/{self.name}", key=f"{role}/{self.key or self.name}", passing=True
        )

    @contextlib.contextmanager
    def key_known(self) -> Iterator[None]:
        """To those who draw one of the volumes."""
        self.context.keys[self.name] = self.key or self.name
        try:
            yield
        finally:
            self.context.keys.pop(self.name, None)

    @property
    def health(self) -> HealthSource:
        return self.context.health

    @property
    def volume(self) -> Obj | None:
        return self.watch.volume(self.name)

    async def pause(self, actor: Actor, period: Seconds) -> None:
        """Wait at random; and while the run heals, for its end first."""
        await actor.clock.sleep(actor.chance.between(*period))
        while self.state.is_healing:
            await self.state.cleanup_started.wait()
            await actor.clock.sleep(actor.chance.between(*period))


@contextlib.asynccontextmanager
async def attempt(actor: Actor, action: str, **particulars: Any) -> AsyncIterator[OngoingAction]:
    """Do it.

    A refusal or a time-out is logged and noted as the result, and whoever tried goes on.
    """
    with contextlib.suppress(*REFUSALS):
        async with actor.doing(action, **particulars) as deed:
            yield deed


class HinderedError(OSError):
    """Something was not done in time, and the storage is not to blame."""


@contextlib.contextmanager
def unless_hindered(hindrance: Callable[[], str]) -> Iterator[None]:
    """Who waits in vain, or does not wait to the end, is told what stood in the storage's way,
    if this knows of something.
    """
    try:
        yield
    except TimeoutError as error:
        if why := hindrance():
            raise HinderedError(f"{error}: {why}") from None
        raise
    except asyncio.CancelledError:
        if why := hindrance():
            raise asyncio.CancelledError(why) from None
        raise


@contextlib.contextmanager
def asking(deed: OngoingAction) -> Iterator[None]:
    """Of what the API has not taken yet the storage has not heard."""
    with unless_hindered(lambda: "the API has not taken it"):
        yield
    deed.heard()


def disk_going(rv: Subject, node: str = "") -> str:
    """Newer storage replaces no disk that is deleted, so it may never let it go.

    The first generation's does.
    """
    if not rv.health.has_layout:
        return ""
    for replica in rv.watch.replicas(rv.name):
        spec, metadata = replica["spec"], replica["metadata"]
        if (
            spec.get("type") == DISKFUL
            and metadata.get("deletionTimestamp")
            and node in {"", spec.get("nodeName")}
        ):
            return f"{metadata['name']} is being deleted"
    return ""


@contextlib.contextmanager
def unless_gone(actor: Actor, **what: str) -> Iterator[None]:
    """What is there no more needs nothing; the view may be older than its end."""
    try:
        yield
    except NotFound:
        actor.note("already-gone", **what)


def made(actor: Actor, resource: Resource, name: str, spec: Obj) -> Obj:
    """An object of ours."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": actor.labels},
        "spec": spec,
    }


# Attaching a volume to a node and detaching it, as a CSI driver would: an attachment object,
# and what comes of it.


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
    staying = [
        one for one in rv.watch.attachments(rv.name) if not one["metadata"].get("deletionTimestamp")
    ]
    return list(dict.fromkeys(one["spec"]["nodeName"] for one in staying))


def attached_to(volume: Obj | None) -> list[str]:
    """Where it is attached in fact."""
    return list(((volume or {}).get("status") or {}).get("actuallyAttachedTo") or ())


async def request(rv: Subject, actor: Actor, node: str) -> Obj:
    """Ask for the attachment and do not wait for it."""
    spec = {"replicatedVolumeName": rv.name, "nodeName": node}
    name = attachment_name(rv.name, node)
    return await actor.api.create(
        REPLICATED_VOLUME_ATTACHMENTS, made(actor, REPLICATED_VOLUME_ATTACHMENTS, name, spec)
    )


@contextlib.contextmanager
def arrivals_noted(rv: Subject, actor: Actor, uids: Iterable[str]) -> Iterator[None]:
    """Nobody waits for those that were asked for at first: each is noted when it is there."""
    awaited = set(uids)

    def look() -> None:
        for one in rv.watch.attachments(rv.name) if awaited else ():
            if one["metadata"]["uid"] in awaited and is_true(one, "Ready"):
                awaited.remove(one["metadata"]["uid"])
                actor.note("attached", volume=rv.name, node=one["spec"]["nodeName"])

    with rv.watch.listening(rv.name, look, to=(ATTACHMENT,)):
        look()
        yield


async def attach(rv: Subject, actor: Actor, node: str) -> None:
    async with actor.doing("attach", volume=rv.name, node=node) as deed:
        with asking(deed):
            uid = (await request(rv, actor, node))["metadata"]["uid"]

        def ready() -> bool:
            return any(
                one["metadata"]["uid"] == uid and is_true(one, "Ready")
                for one in rv.watch.attachments(rv.name)
            )

        with unless_hindered(lambda: disk_going(rv, node) or _shut_out(rv, node)):
            awaited = f"{rv.name} was not attached to {node}"
            await rv.watch.until(
                rv.name, ready, timeout=PATIENCE, awaited=awaited, to=(ATTACHMENT,)
            )


def _shut_out(rv: Subject, node: str) -> str:
    """A class with local access alone keeps its volumes off the nodes without their disks."""
    if any(
        replica["spec"].get("type") == DISKFUL for replica in _on(node, rv.watch.replicas(rv.name))
    ):
        return ""
    said = [condition(one, "Attached") or {} for one in _on(node, rv.watch.attachments(rv.name))]
    return next((one["message"] for one in said if one.get("reason") == NOT_LOCAL), "")


def _on(node: str, parts: Sequence[Obj]) -> list[Obj]:
    return [one for one in parts if one["spec"].get("nodeName") == node]


async def detach(rv: Subject, actor: Actor, node: str) -> None:
    async with actor.doing("detach", volume=rv.name, node=node) as deed:
        with asking(deed):
            for one in rv.watch.attachments(rv.name):
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
    """Delete what attachments there are.

    The API itself is asked, for the view may be older than our own last request.
    """
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
        asked = [one["spec"]["nodeName"] for one in rv.watch.attachments(rv.name)]
        actual = attached_to(rv.volume)
        return node not in (*asked, *actual) if node else not (asked or actual)

    awaited = f"{rv.name} was not detached from {node or 'all nodes'}"
    await rv.watch.until(rv.name, gone, timeout=PATIENCE, awaited=awaited, to=(VOLUME, ATTACHMENT))


# Where a volume lives: noted from its creation on, whenever other nodes have its replicas than
# before, and when it goes.


@contextlib.contextmanager
def placement_noted(rv: Subject, actor: Actor) -> Iterator[None]:
    life = _Life(rv, actor)
    with rv.watch.listening(rv.name, life.look, to=(VOLUME, REPLICA)):
        life.look()
        yield


@dataclass(slots=True)
class _Life:
    """What was seen and noted last."""

    rv: Subject
    actor: Actor
    specs: list[Obj] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    volume: Obj | None = None

    def look(self) -> None:
        """Either the volume has changed or a replica of it."""
        before, self.volume = self.volume, self.rv.volume
        if before is None or self.volume is before:
            specs = [replica["spec"] for replica in self.rv.watch.replicas(self.rv.name)]
            if specs != self.specs:
                self.specs = specs
                nodes = _ranked(specs)
                if set(nodes) != set(self.nodes):
                    self.nodes = nodes
                    self.actor.note("volume-placed", volume=self.rv.name, nodes=nodes)
        if _stays(before) and not _stays(self.volume):
            self.actor.note("volume-disappeared", volume=self.rv.name)


def _stays(volume: Obj | None) -> bool:
    return volume is not None and not volume["metadata"].get("deletionTimestamp")


def nodes_of(replicas: Iterable[Obj]) -> list[str]:
    """The nodes, those with data first."""
    return _ranked(replica["spec"] for replica in replicas)


def _ranked(specs: Iterable[Obj]) -> list[str]:
    placed = [spec for spec in specs if spec.get("nodeName")]
    ranked = sorted(placed, key=lambda spec: (spec.get("type") != DISKFUL, spec["nodeName"]))
    return list(dict.fromkeys(spec["nodeName"] for spec in ranked))
