"""Delete objects whose owners are gone, and finish foreground and orphaning deletions.

The counterpart of Kubernetes' garbage collector, started by `actors`. Every change of an owner,
above all its deletion, enqueues its dependents. A dependent without living owners is deleted. An
owner under foreground deletion waits for the dependents that block it; an owner that orphans is
released after its dependents have lost their references. Kinds that appear later are monitored when
they appear.
"""

from __future__ import annotations

import collections
import enum
import functools
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS

if TYPE_CHECKING:
    from typing import Any

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.cache import Handler
    from pytest_kscen.objects.resources import Obj, Resource


FOREGROUND_FINALIZER, ORPHAN_FINALIZER = "foregroundDeletion", "orphan"


class ObjectIdentity(NamedTuple):
    """Identity of an object in the graph: the resource that serves it, its namespace and its
    name. Without a uid, as a namesake takes the same place.
    """

    resource: Resource
    ref: Ref


def owners_of(obj: Obj | None) -> list[Obj]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or []


def is_deleting(obj: Obj, finalizer: str) -> bool:
    """Return True if the object is under deletion and this finalizer still holds it. The
    garbage collector then has work to do before it may disappear.
    """
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and finalizer in (
        metadata.get("finalizers") or ()
    )


def awaits_collection(obj: Obj) -> bool:
    """Return True if the object's deletion waits for the garbage collector: it holds the
    foreground or the orphan finalizer.
    """
    return "deletionTimestamp" in obj["metadata"] and (
        is_deleting(obj, FOREGROUND_FINALIZER) or is_deleting(obj, ORPHAN_FINALIZER)
    )


def blocks_deletion(obj: Obj, owner: str) -> bool:
    """Return True if the foreground deletion of this owner (a uid) waits for the dependent.
    That is `blockOwnerDeletion` of the dependent's reference to it.
    """
    return any(
        reference["uid"] == owner and reference.get("blockOwnerDeletion")
        for reference in owners_of(obj)
    )


class OwnershipGraph:
    """Graph of owners and dependents over all monitored resources, built from informer events.

    Owners are known by uid, dependents by identity. Every write of an owner reference reaches
    `update` in event order; lookups cost no request.
    """

    def __init__(self) -> None:
        self._identities: dict[str, ObjectIdentity] = {}
        self._dependents: dict[str, dict[ObjectIdentity, None]] = {}

    def identity_of(self, uid: str) -> ObjectIdentity | None:
        return self._identities.get(uid)

    def dependents_of(self, uid: str) -> list[ObjectIdentity]:
        return list(self._dependents.get(uid, ()))

    def update(self, identity: ObjectIdentity, new: Obj | None, old: Obj | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        if new is None:
            self._identities.pop(uid, None)
        else:
            self._identities[uid] = identity
        before = {owner["uid"]: None for owner in owners_of(old)}
        now = {owner["uid"]: None for owner in owners_of(new)}
        for owner in before:
            if owner not in now:
                del self._dependents[owner][identity]
                if not self._dependents[owner]:
                    del self._dependents[owner]
        for owner in now:
            self._dependents.setdefault(owner, {})[identity] = None


MAX_ABSENT_OWNERS = 500


class OwnerState(enum.Enum):
    """State of an owner from the point of view of one dependent; decides between keeping,
    updating and deleting the dependent.
    """

    ALIVE = "alive"
    GONE = "gone"
    WAITING = "waiting"
    """The owner is under foreground deletion."""
    UNKNOWN = "unknown"
    """Cannot be determined: the owner's kind is not served, or the owner is namespaced and the
    dependent is not. The dependent is kept.
    """


class OwnerResolver:
    """Determine the state of an owner by name and uid, in the dependent's own namespace.

    Caches are read first; absence is confirmed by the API itself. Absent owners are remembered
    (`MAX_ABSENT_OWNERS` of them), so each costs one request.
    """

    def __init__(self, context: ControllerContext, graph: OwnershipGraph) -> None:
        self._context = context
        self._graph = graph
        self._unresolved: dict[ObjectIdentity, None] = {}
        self._absent: collections.OrderedDict[tuple[str, str], None] = collections.OrderedDict()

    def record_absent(self, uid: str, namespace: str) -> None:
        """Record that an owner was seen to be deleted. It stays absent even if its kind is no
        longer served.
        """
        self._absent[uid, namespace] = None
        if len(self._absent) > MAX_ABSENT_OWNERS:
            self._absent.popitem(last=False)

    def take_unresolved(self) -> list[ObjectIdentity]:
        """Return and forget the dependents that were kept because an owner's kind was not
        served. They are to be reconciled after the next discovery.
        """
        identities, self._unresolved = list(self._unresolved), {}
        return identities

    def is_owner_known(self, owner: Obj, dependent: ObjectIdentity) -> bool:
        """Return True if the graph contains the owner where the dependent refers to it. No
        request is then needed to accept the reference.
        """
        identity = self._graph.identity_of(owner["uid"])
        if identity is None or (owner["kind"], owner["apiVersion"].rpartition("/")[0]) != (
            identity.resource.kind,
            identity.resource.group,
        ):
            return False
        return identity.ref == self._owner_ref(owner, identity.resource, dependent)

    async def state_of(self, owner: Obj, dependent: ObjectIdentity, obj: Obj) -> OwnerState:
        if (owner["uid"], "") in self._absent or (
            owner["uid"],
            dependent.ref.namespace,
        ) in self._absent:
            return OwnerState.GONE
        try:
            resource = await self._context.api.resource_of(owner["apiVersion"], owner["kind"])
        except NotFound:
            self._unresolved[dependent] = None
            return OwnerState.UNKNOWN
        ref = self._owner_ref(owner, resource, dependent)
        if resource.namespaced and not dependent.resource.namespaced:
            self._report_wrong_namespace(owner, ref, obj)
            return OwnerState.UNKNOWN
        found = await self._find_owner(resource, ref, owner["uid"])
        if found is None:
            self._report_wrong_namespace(owner, ref, obj)
            return OwnerState.GONE
        return OwnerState.WAITING if is_deleting(found, FOREGROUND_FINALIZER) else OwnerState.ALIVE

    async def _find_owner(self, resource: Resource, ref: Ref, uid: str) -> Obj | None:
        """Return the owner with this uid, or None.

        The cache may prove presence, never absence: an object that is not cached is requested from
        the API, as it may be newer than the cache.
        """
        informer = self._context.informers.known(resource)
        seen = informer.objects.get(ref) if informer else None
        if seen and seen["metadata"]["uid"] == uid:
            return seen
        try:
            found = await self._context.api.get(resource, ref.name, ref.namespace)
        except NotFound:
            return None
        return found if found["metadata"]["uid"] == uid else None

    def _report_wrong_namespace(self, owner: Obj, ref: Ref, obj: Obj) -> None:
        """Record a warning Event if the owner exists in another namespace, as the reference is
        a mistake of its author.
        """
        identity = self._graph.identity_of(owner["uid"])
        if identity and identity.ref.namespace != ref.namespace:
            named = (
                f"[{owner['apiVersion']}/{owner['kind']}, namespace: {ref.namespace}, name: "
                f"{ref.name}, uid: {owner['uid']}]"
            )
            message = f'ownerRef {named} does not exist in namespace "{ref.namespace}"'
            self._context.recorder.warning(obj, "OwnerRefInvalidNamespace", message)

    @staticmethod
    def _owner_ref(owner: Obj, resource: Resource, dependent: ObjectIdentity) -> Ref:
        return Ref(dependent.ref.namespace if resource.namespaced else "", owner["name"])


RESYNC = ObjectIdentity(CUSTOM_RESOURCE_DEFINITIONS, Ref("", ""))
"""Queue key that requests a new discovery of the served resources."""


class GarbageCollector:
    """Monitor every served resource except Events, and reconcile the objects whose owners or
    finalizers require it.

    The queue's keys are identities; each reconciliation reads the object from the API, not from the
    cache.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._graph = OwnershipGraph()
        self._owners = OwnerResolver(context, self._graph)
        self._monitors: dict[Resource, Handler] = {}
        self._controller = context.controller(self._reconcile)
        self._definitions = context.informers.of(CUSTOM_RESOURCE_DEFINITIONS)

    async def run(self) -> None:
        await self._sync_monitors()
        for resource in self._monitors:
            await self._context.informers.of(resource).synced()
        self._definitions.on_change(lambda *_: self._controller.enqueue(RESYNC))
        await self._controller.run()

    async def _sync_monitors(self) -> None:
        served = [row for row in await self._context.api.resources() if row.plural != EVENTS.plural]
        for resource in served:
            if resource not in self._monitors:
                handler = self._monitors[resource] = functools.partial(
                    self._object_changed, resource
                )
                self._context.informers.of(resource).on_change(handler)
        for resource in [resource for resource in self._monitors if resource not in served]:
            # No longer served: all objects count as deleted, so that dependents are collected.
            monitor, informer = self._monitors.pop(resource), self._context.informers.of(resource)
            informer.off_change(monitor)
            for obj in informer:
                monitor(None, obj)
            self._context.informers.drop(resource)
        for identity in self._owners.take_unresolved():
            self._controller.enqueue(identity)

    def _object_changed(self, resource: Resource, new: Obj | None, old: Obj | None) -> None:
        if new and old:
            now, before = new["metadata"], old["metadata"]
            if now.get("ownerReferences") is before.get(
                "ownerReferences"
            ) and not awaits_collection(new):
                # Same owners, and no deletion to finish: true of most writes, and cheap to test.
                return
        obj = new or old or {}
        identity, owners, owned_by = (
            ObjectIdentity(resource, Ref.of(obj)),
            owners_of(new),
            owners_of(old),
        )
        if not new or not old or owners != owned_by:
            self._graph.update(identity, new, old)
        if new is None:
            uid = obj["metadata"]["uid"]
            dependents = self._graph.dependents_of(uid)
            if dependents:
                self._owners.record_absent(uid, obj["metadata"].get("namespace", ""))
            for dependent in dependents:
                self._controller.enqueue(dependent)
        elif awaits_collection(new) or (
            owners != owned_by
            and not all(self._owners.is_owner_known(owner, identity) for owner in owners)
        ):
            self._controller.enqueue(identity)
        # An owner under foreground deletion may have waited for this last dependent.
        for owner in [lost for lost in owned_by if lost not in owners]:
            waiting = self._graph.identity_of(owner["uid"])
            found = waiting and self._cached(waiting)
            if waiting and found and is_deleting(found, FOREGROUND_FINALIZER):
                self._controller.enqueue(waiting)

    def _cached(self, identity: ObjectIdentity) -> Obj | None:
        return self._context.informers.of(identity.resource).objects.get(identity.ref)

    async def _reconcile(self, identity: ObjectIdentity) -> None:
        if identity == RESYNC:
            await self._sync_monitors()
            return
        try:
            obj = await self._context.api.get(
                identity.resource, identity.ref.name, identity.ref.namespace
            )
            if is_deleting(obj, ORPHAN_FINALIZER):
                uid = obj["metadata"]["uid"]
                for dependent in self._graph.dependents_of(uid):
                    if found := self._cached(dependent):
                        remaining = [
                            reference for reference in owners_of(found) if reference["uid"] != uid
                        ]
                        await self._patch(dependent, found, {"ownerReferences": remaining})
                await self._remove_finalizer(identity, obj, ORPHAN_FINALIZER)
            elif is_deleting(obj, FOREGROUND_FINALIZER):
                await self._process_foreground(identity, obj)
            elif owners_of(obj) and not obj["metadata"].get("deletionTimestamp"):
                await self._process_dependent(identity, obj)
        except NotFound:
            return

    async def _process_foreground(self, identity: ObjectIdentity, owner: Obj) -> None:
        uid = owner["metadata"]["uid"]
        dependents = {
            dependent: self._cached(dependent) for dependent in self._graph.dependents_of(uid)
        }
        if not any(found and blocks_deletion(found, uid) for found in dependents.values()):
            await self._remove_finalizer(identity, owner, FOREGROUND_FINALIZER)
        for dependent, found in dependents.items():
            if found and not found["metadata"].get("deletionTimestamp"):
                self._controller.enqueue(dependent)

    async def _process_dependent(self, identity: ObjectIdentity, obj: Obj) -> None:
        states = [
            (owner, await self._owners.state_of(owner, identity, obj)) for owner in owners_of(obj)
        ]
        if any(state is OwnerState.UNKNOWN for _, state in states):
            return
        if alive := [owner for owner, state in states if state is OwnerState.ALIVE]:
            if len(alive) < len(states):
                await self._patch(identity, obj, {"ownerReferences": alive})
        elif any(state is OwnerState.WAITING for _, state in states) and self._graph.dependents_of(
            obj["metadata"]["uid"]
        ):
            # Owners that wait for each other would block for ever: unblock this dependent.
            dependents = map(self._cached, self._graph.dependents_of(obj["metadata"]["uid"]))
            if any(found and is_deleting(found, FOREGROUND_FINALIZER) for found in dependents):
                unblocked = [{**owner, "blockOwnerDeletion": False} for owner in owners_of(obj)]
                await self._patch(identity, obj, {"ownerReferences": unblocked}, at_version=False)
            await self._delete(identity, obj, "Foreground")
        else:
            finalizers = obj["metadata"].get("finalizers") or ()
            await self._delete(
                identity,
                obj,
                "Orphan"
                if ORPHAN_FINALIZER in finalizers
                else "Foreground"
                if FOREGROUND_FINALIZER in finalizers
                else "Background",
            )

    async def _patch(
        self, identity: ObjectIdentity, obj: Obj, change: dict[str, Any], *, at_version: bool = True
    ) -> None:
        metadata = obj["metadata"]
        known = {
            "uid": metadata["uid"],
            **({"resourceVersion": metadata["resourceVersion"]} if at_version else {}),
        }
        try:
            await self._context.api.patch(
                identity.resource,
                identity.ref.name,
                {"metadata": {**known, **change}},
                identity.ref.namespace,
            )
        except NotFound:
            return

    async def _remove_finalizer(self, identity: ObjectIdentity, obj: Obj, finalizer: str) -> None:
        remaining = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        await self._patch(identity, obj, {"finalizers": remaining})

    async def _delete(self, identity: ObjectIdentity, obj: Obj, policy: str) -> None:
        uid = obj["metadata"]["uid"]
        await self._context.api.delete(
            identity.resource,
            identity.ref.name,
            identity.ref.namespace,
            propagation=policy,
            precondition_uid=uid,
        )
