"""Volume under test, as used by its actors: its attachments, its placement, and actions on it.

All actors of `megatest` use it. Requests go through an actor's Api; state is read from the shared
watch.
"""

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
"""Errors that end an action, but no actor. A timeout is an OSError."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Volume under test, shared by its actors: name, run, watch and key.

    State is read from the watch, never from the API, and may be slightly outdated.
    """

    name: str
    context: RunContext
    state: RunState
    watch: VolumesWatch
    key: str = ""
    """Seed of its actors' chance, if it differs from the name."""

    def actor(self, role: str) -> Actor:
        return self.context.actor(
            f"{role}/{self.name}", key=f"{role}/{self.key or self.name}", temporary=True
        )

    @contextlib.contextmanager
    def publish_key(self) -> Iterator[None]:
        """Enter the volume's key in the run's table, while the body runs.

        Actors that choose volumes at random seed the choice with keys, because names differ from
        run to run.
        """
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
        """Wait for a random time in this range of seconds.

        In the phase in which volumes recover undisturbed, it waits until the cleanup starts, and
        then for another random time.
        """
        await actor.clock.sleep(actor.chance.between(*period))
        while self.state.is_healing:
            await self.state.cleanup_started.wait()
            await actor.clock.sleep(actor.chance.between(*period))


@contextlib.asynccontextmanager
async def attempt(actor: Actor, action: str, **particulars: Any) -> AsyncIterator[OngoingAction]:
    """Try an action; a refusal or a timeout is its recorded result, and is not raised.

    The body gets the ongoing action. Other exceptions pass through.
    """
    with contextlib.suppress(*REFUSALS):
        async with actor.doing(action, **particulars) as ongoing:
            yield ongoing


class HinderedError(OSError):
    """Timeout of an action for a reason outside of the storage.

    Its name is part of the journal: `judge` treats errors other than TimeoutError as refused.
    """


@contextlib.contextmanager
def explain_timeout(hindrance: Callable[[], str]) -> Iterator[None]:
    """Turn a timeout of the body into a HinderedError, if `hindrance` returns a reason.

    A cancellation gets the reason as its message. `hindrance` is called once, at that moment.
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
def until_accepted(ongoing: OngoingAction) -> Iterator[None]:
    """Mark the action as accepted when the body ends.

    Time before the API accepts the request does not count against the storage.
    """
    with explain_timeout(lambda: "the API has not accepted the request"):
        yield
    ongoing.accepted()


def disk_being_deleted(rv: Subject, node: str = "") -> str:
    """Return a message that names a terminating disk, for storage with a layout; else empty.

    Storage with a layout replaces no deleted disk, so the deletion may never end; with the first
    generation it does.
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
def record_if_absent(actor: Actor, **what: str) -> Iterator[None]:
    """Record `already-gone` in place of a NotFound of the body.

    The watch may be outdated, so the object may be deleted already.
    """
    try:
        yield
    except NotFound:
        actor.note("already-gone", **what)


def labelled_object(actor: Actor, resource: Resource, name: str, spec: Obj) -> Obj:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": actor.labels},
        "spec": spec,
    }


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
    """Return the nodes to which the volume is to be attached.

    A terminating attachment does not count, even if the volume is still attached.
    """
    staying = [
        one for one in rv.watch.attachments(rv.name) if not one["metadata"].get("deletionTimestamp")
    ]
    return list(dict.fromkeys(one["spec"]["nodeName"] for one in staying))


def attached_to(volume: Obj | None) -> list[str]:
    return list(((volume or {}).get("status") or {}).get("actuallyAttachedTo") or ())


async def request_attachment(rv: Subject, actor: Actor, node: str) -> Obj:
    spec = {"replicatedVolumeName": rv.name, "nodeName": node}
    name = attachment_name(rv.name, node)
    return await actor.api.create(
        REPLICATED_VOLUME_ATTACHMENTS,
        labelled_object(actor, REPLICATED_VOLUME_ATTACHMENTS, name, spec),
    )


@contextlib.contextmanager
def record_arrivals(rv: Subject, actor: Actor, uids: Iterable[str]) -> Iterator[None]:
    """Record `attached` for the attachments of these uids when they become ready.

    No actor waits for the first attachments of a volume; they are observed while the body runs.
    """
    awaited = set(uids)

    def update() -> None:
        for one in rv.watch.attachments(rv.name) if awaited else ():
            if one["metadata"]["uid"] in awaited and is_true(one, "Ready"):
                awaited.remove(one["metadata"]["uid"])
                actor.note("attached", volume=rv.name, node=one["spec"]["nodeName"])

    with rv.watch.listening(rv.name, update, to=(ATTACHMENT,)):
        update()
        yield


async def attach(rv: Subject, actor: Actor, node: str) -> None:
    async with actor.doing("attach", volume=rv.name, node=node) as ongoing:
        with until_accepted(ongoing):
            uid = (await request_attachment(rv, actor, node))["metadata"]["uid"]

        def ready() -> bool:
            return any(
                one["metadata"]["uid"] == uid and is_true(one, "Ready")
                for one in rv.watch.attachments(rv.name)
            )

        with explain_timeout(
            lambda: disk_being_deleted(rv, node) or _local_access_refusal(rv, node)
        ):
            awaited = f"{rv.name} was not attached to {node}"
            await rv.watch.until(
                rv.name, ready, timeout=PATIENCE, awaited=awaited, to=(ATTACHMENT,)
            )


def _local_access_refusal(rv: Subject, node: str) -> str:
    """Return the reason why a class with local access refuses this node; empty if it allows it."""
    if any(
        replica["spec"].get("type") == DISKFUL
        for replica in _on_node(node, rv.watch.replicas(rv.name))
    ):
        return ""
    conditions = [
        condition(one, "Attached") or {} for one in _on_node(node, rv.watch.attachments(rv.name))
    ]
    return next((one["message"] for one in conditions if one.get("reason") == NOT_LOCAL), "")


def _on_node(node: str, parts: Sequence[Obj]) -> list[Obj]:
    return [one for one in parts if one["spec"].get("nodeName") == node]


async def detach(rv: Subject, actor: Actor, node: str) -> None:
    async with actor.doing("detach", volume=rv.name, node=node) as ongoing:
        with until_accepted(ongoing):
            for one in rv.watch.attachments(rv.name):
                if one["spec"]["nodeName"] == node:
                    await _delete(actor, one)
        await _wait_until_detached(rv, node)


async def detach_everywhere(rv: Subject, actor: Actor) -> None:
    async with attempt(actor, "detach everywhere", volume=rv.name) as ongoing:
        with until_accepted(ongoing):
            await delete_attachments(rv, actor)
        await _wait_until_detached(rv)


async def delete_attachments(rv: Subject, actor: Actor) -> None:
    """Delete the volume's attachments, as listed by the API.

    The watch may be older than this actor's last request, and would miss the attachment.
    """
    listing = await actor.api.list(REPLICATED_VOLUME_ATTACHMENTS)
    for one in listing.items:
        if volume_of(one) == rv.name:
            await _delete(actor, one)


async def _delete(actor: Actor, attachment: Obj) -> None:
    with contextlib.suppress(NotFound):
        await actor.api.delete(REPLICATED_VOLUME_ATTACHMENTS, name_of(attachment))


async def _wait_until_detached(rv: Subject, node: str = "") -> None:
    """Wait until the volume is not attached to this node, or to any node without one.

    Raises a TimeoutError after PATIENCE seconds. Attachments and the volume's status both
    count.
    """

    def gone() -> bool:
        requested = [one["spec"]["nodeName"] for one in rv.watch.attachments(rv.name)]
        actual = attached_to(rv.volume)
        return node not in (*requested, *actual) if node else not (requested or actual)

    awaited = f"{rv.name} was not detached from {node or 'all nodes'}"
    await rv.watch.until(rv.name, gone, timeout=PATIENCE, awaited=awaited, to=(VOLUME, ATTACHMENT))


@contextlib.contextmanager
def record_placement(rv: Subject, actor: Actor) -> Iterator[None]:
    """Record the nodes of the volume's replicas, and its disappearance, while the body runs.

    `volume-placed` is written only when the set of nodes changes, not for each replica.
    """
    recorder = _PlacementRecorder(rv, actor)
    with rv.watch.listening(rv.name, recorder.update, to=(VOLUME, REPLICA)):
        recorder.update()
        yield


@dataclass(slots=True)
class _PlacementRecorder:
    rv: Subject
    actor: Actor
    specs: list[Obj] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    volume: Obj | None = None

    def update(self) -> None:
        before, self.volume = self.volume, self.rv.volume
        if before is None or self.volume is before:
            specs = [replica["spec"] for replica in self.rv.watch.replicas(self.rv.name)]
            if specs != self.specs:
                self.specs = specs
                nodes = _ranked(specs)
                if set(nodes) != set(self.nodes):
                    self.nodes = nodes
                    self.actor.note("volume-placed", volume=self.rv.name, nodes=nodes)
        if _exists(before) and not _exists(self.volume):
            self.actor.note("volume-disappeared", volume=self.rv.name)


def _exists(volume: Obj | None) -> bool:
    return volume is not None and not volume["metadata"].get("deletionTimestamp")


def nodes_of(replicas: Iterable[Obj]) -> list[str]:
    return _ranked(replica["spec"] for replica in replicas)


def _ranked(specs: Iterable[Obj]) -> list[str]:
    placed = [spec for spec in specs if spec.get("nodeName")]
    ranked = sorted(placed, key=lambda spec: (spec.get("type") != DISKFUL, spec["nodeName"]))
    return list(dict.fromkeys(spec["nodeName"] for spec in ranked))
