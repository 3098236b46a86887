"""The garbage collector: objects whose owners are gone go too.

It knows owner references and finalizers, and no kind by name.
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
    """Where an object is served."""

    resource: Resource
    ref: Ref


def owners_of(obj: Obj | None) -> list[Obj]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or []


def is_deleting(obj: Obj, finalizer: str) -> bool:
    """Whether it is on its way out and this finalizer still holds it."""
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and finalizer in (
        metadata.get("finalizers") or ()
    )


def awaits_collection(obj: Obj) -> bool:
    """Whether its deletion waits for the garbage collector."""
    return "deletionTimestamp" in obj["metadata"] and (
        is_deleting(obj, FOREGROUND_FINALIZER) or is_deleting(obj, ORPHAN_FINALIZER)
    )


def blocks_deletion(obj: Obj, owner: str) -> bool:
    """Whether the owner's deletion in the foreground has to wait for this dependent."""
    return any(
        reference["uid"] == owner and reference.get("blockOwnerDeletion")
        for reference in owners_of(obj)
    )


class OwnershipGraph:
    """The tree."""

    def __init__(self) -> None:
        self._places: dict[str, ObjectIdentity] = {}
        self._dependents: dict[str, dict[ObjectIdentity, None]] = {}

    def place_of(self, uid: str) -> ObjectIdentity | None:
        return self._places.get(uid)

    def dependents_of(self, uid: str) -> list[ObjectIdentity]:
        return list(self._dependents.get(uid, ()))

    def see(self, place: ObjectIdentity, new: Obj | None, old: Obj | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        if new is None:
            self._places.pop(uid, None)
        else:
            self._places[uid] = place
        before = {owner["uid"]: None for owner in owners_of(old)}
        now = {owner["uid"]: None for owner in owners_of(new)}
        for owner in before:
            if owner not in now:
                del self._dependents[owner][place]
                if not self._dependents[owner]:
                    del self._dependents[owner]
        for owner in now:
            self._dependents.setdefault(owner, {})[place] = None


MAX_ABSENT_OWNERS = 500


class OwnerState(enum.Enum):
    """Of an owner, as its dependent sees it."""

    ALIVE = "alive"
    GONE = "gone"
    WAITING = "waiting"
    """It is being deleted in the foreground."""
    UNKNOWN = "unknown"
    """Nobody serves its kind, or it lives in a namespace and the dependent does not: nothing
    follows from that.
    """


class OwnerResolver:
    """Looks owners up."""

    def __init__(self, context: ControllerContext, family: OwnershipGraph) -> None:
        self._context = context
        self._family = family
        self._puzzling: dict[ObjectIdentity, None] = {}
        self._gone: collections.OrderedDict[tuple[str, str], None] = collections.OrderedDict()

    def note_gone(self, uid: str, namespace: str) -> None:
        """An owner was seen to go: whatever becomes of its kind, it is not there."""
        self._gone[uid, namespace] = None
        if len(self._gone) > MAX_ABSENT_OWNERS:
            self._gone.popitem(last=False)

    def take_puzzling(self) -> list[ObjectIdentity]:
        """The dependents that could not be judged because an owner's kind was not served."""
        places, self._puzzling = list(self._puzzling), {}
        return places

    def is_known(self, owner: Obj, dependent: ObjectIdentity) -> bool:
        """Whether the owner has been seen where the dependent says, so that nothing has to be
        asked.
        """
        place = self._family.place_of(owner["uid"])
        if place is None or not self._fits(owner, place.resource):
            return False
        return place.ref == self._ref(owner, place.resource, dependent)

    async def state_of(self, owner: Obj, dependent: ObjectIdentity, obj: Obj) -> OwnerState:
        if (owner["uid"], "") in self._gone or (
            owner["uid"],
            dependent.ref.namespace,
        ) in self._gone:
            return OwnerState.GONE
        try:
            resource = await self._context.api.resource_of(owner["apiVersion"], owner["kind"])
        except NotFound:
            self._puzzling[dependent] = None
            return OwnerState.UNKNOWN
        ref = self._ref(owner, resource, dependent)
        if resource.namespaced and not dependent.resource.namespaced:
            self._tell_of_namespace(owner, ref, obj)
            return OwnerState.UNKNOWN
        found = await self._find(resource, ref, owner["uid"])
        if found is None:
            self._tell_of_namespace(owner, ref, obj)
            return OwnerState.GONE
        return OwnerState.WAITING if is_deleting(found, FOREGROUND_FINALIZER) else OwnerState.ALIVE

    async def _find(self, resource: Resource, ref: Ref, uid: str) -> Obj | None:
        """In the picture; but that somebody is not there is asked of the API itself."""
        informer = self._context.informers.known(resource)
        seen = informer.objects.get(ref) if informer else None
        if seen and seen["metadata"]["uid"] == uid:
            return seen
        try:
            found = await self._context.api.get(resource, ref.name, ref.namespace)
        except NotFound:
            return None
        return found if found["metadata"]["uid"] == uid else None

    def _tell_of_namespace(self, owner: Obj, ref: Ref, obj: Obj) -> None:
        """The owner lives, but elsewhere: the reference is a mistake that its author should hear
        of.
        """
        place = self._family.place_of(owner["uid"])
        if place and place.ref.namespace != ref.namespace:
            named = (
                f"[{owner['apiVersion']}/{owner['kind']}, namespace: {ref.namespace}, name: "
                f"{ref.name}, uid: {owner['uid']}]"
            )
            message = f'ownerRef {named} does not exist in namespace "{ref.namespace}"'
            self._context.recorder.warning(obj, "OwnerRefInvalidNamespace", message)

    @staticmethod
    def _ref(owner: Obj, resource: Resource, dependent: ObjectIdentity) -> Ref:
        return Ref(dependent.ref.namespace if resource.namespaced else "", owner["name"])

    @staticmethod
    def _fits(owner: Obj, resource: Resource) -> bool:
        return bool(
            owner["kind"] == resource.kind
            and owner["apiVersion"].rpartition("/")[0] == resource.group
        )


RESYNC = ObjectIdentity(CUSTOM_RESOURCE_DEFINITIONS, Ref("", ""))
"""Stands in the queue for a look at which resources there are."""


class GarbageCollector:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._family = OwnershipGraph()
        self._owners = OwnerResolver(context, self._family)
        self._followed: dict[Resource, Handler] = {}
        self._controller = context.controller(self._reconcile)
        self._definitions = context.informers.of(CUSTOM_RESOURCE_DEFINITIONS)

    async def run(self) -> None:
        await self._follow_all()
        for resource in self._followed:
            await self._context.informers.of(resource).synced()
        self._definitions.on_change(lambda *_: self._controller.enqueue(RESYNC))
        await self._controller.run()

    async def _follow_all(self) -> None:
        served = [row for row in await self._context.api.resources() if row.plural != EVENTS.plural]
        for resource in served:
            if resource not in self._followed:
                handler = self._followed[resource] = functools.partial(self._see, resource)
                self._context.informers.of(resource).on_change(handler)
        for resource in [resource for resource in self._followed if resource not in served]:
            self._forget(resource)
        for place in self._owners.take_puzzling():
            self._controller.enqueue(place)

    def _forget(self, resource: Resource) -> None:
        """The resource is served no longer, so all of it is gone."""
        handler, informer = self._followed.pop(resource), self._context.informers.of(resource)
        informer.off_change(handler)
        for obj in informer:
            handler(None, obj)
        self._context.informers.drop(resource)

    def _see(self, resource: Resource, new: Obj | None, old: Obj | None) -> None:
        if new and old:
            now, before = new["metadata"], old["metadata"]
            if now.get("ownerReferences") is before.get(
                "ownerReferences"
            ) and not awaits_collection(new):
                # nobody owns it who did not, and it waits for nobody: so it is with most writes,
                # and told at a glance
                return
        obj = new or old or {}
        place, owners, owned_by = (
            ObjectIdentity(resource, Ref.of(obj)),
            owners_of(new),
            owners_of(old),
        )
        if not new or not old or owners != owned_by:
            self._family.see(place, new, old)
        if new is None:
            uid = obj["metadata"]["uid"]
            dependents = self._family.dependents_of(uid)
            if dependents:
                self._owners.note_gone(uid, obj["metadata"].get("namespace", ""))
            for dependent in dependents:
                self._controller.enqueue(dependent)
        elif awaits_collection(new) or (
            owners != owned_by and not all(self._owners.is_known(owner, place) for owner in owners)
        ):
            self._controller.enqueue(place)
        for owner in owned_by:
            if owner not in owners:
                self._enqueue_waiting(owner)

    def _enqueue_waiting(self, owner: Obj) -> None:
        """An owner that waits for its dependents has one less to wait for."""
        place = self._family.place_of(owner["uid"])
        found = place and self._picture(place)
        if place and found and is_deleting(found, FOREGROUND_FINALIZER):
            self._controller.enqueue(place)

    def _picture(self, place: ObjectIdentity) -> Obj | None:
        return self._context.informers.of(place.resource).objects.get(place.ref)

    async def _reconcile(self, place: ObjectIdentity) -> None:
        if place == RESYNC:
            await self._follow_all()
            return
        try:
            obj = await self._context.api.get(place.resource, place.ref.name, place.ref.namespace)
            if is_deleting(obj, ORPHAN_FINALIZER):
                uid = obj["metadata"]["uid"]
                for dependent in self._family.dependents_of(uid):
                    if found := self._picture(dependent):
                        left = [
                            reference for reference in owners_of(found) if reference["uid"] != uid
                        ]
                        await self._change(dependent, found, {"ownerReferences": left})
                await self._let_go(place, obj, ORPHAN_FINALIZER)
            elif is_deleting(obj, FOREGROUND_FINALIZER):
                await self._clear_the_way(place, obj)
            elif owners_of(obj) and not obj["metadata"].get("deletionTimestamp"):
                await self._judge_by_owners(place, obj)
        except NotFound:
            return

    async def _clear_the_way(self, place: ObjectIdentity, owner: Obj) -> None:
        uid = owner["metadata"]["uid"]
        dependents = {
            dependent: self._picture(dependent) for dependent in self._family.dependents_of(uid)
        }
        if not any(found and blocks_deletion(found, uid) for found in dependents.values()):
            await self._let_go(place, owner, FOREGROUND_FINALIZER)
        for dependent, found in dependents.items():
            if found and not found["metadata"].get("deletionTimestamp"):
                self._controller.enqueue(dependent)

    async def _judge_by_owners(self, place: ObjectIdentity, obj: Obj) -> None:
        states = [
            (owner, await self._owners.state_of(owner, place, obj)) for owner in owners_of(obj)
        ]
        if any(state is OwnerState.UNKNOWN for _, state in states):
            return
        if alive := [owner for owner, state in states if state is OwnerState.ALIVE]:
            if len(alive) < len(states):
                await self._change(place, obj, {"ownerReferences": alive})
        elif any(state is OwnerState.WAITING for _, state in states) and self._family.dependents_of(
            obj["metadata"]["uid"]
        ):
            # Among owners that wait for each other one has to give in: here the one that is
            # judged.
            dependents = map(self._picture, self._family.dependents_of(obj["metadata"]["uid"]))
            if any(found and is_deleting(found, FOREGROUND_FINALIZER) for found in dependents):
                unblocked = [{**owner, "blockOwnerDeletion": False} for owner in owners_of(obj)]
                await self._change(place, obj, {"ownerReferences": unblocked}, at_version=False)
            await self._delete(place, obj, "Foreground")
        else:
            finalizers = obj["metadata"].get("finalizers") or ()
            await self._delete(
                place,
                obj,
                "Orphan"
                if ORPHAN_FINALIZER in finalizers
                else "Foreground"
                if FOREGROUND_FINALIZER in finalizers
                else "Background",
            )

    async def _change(
        self, place: ObjectIdentity, obj: Obj, change: dict[str, Any], *, at_version: bool = True
    ) -> None:
        metadata = obj["metadata"]
        known = {
            "uid": metadata["uid"],
            **({"resourceVersion": metadata["resourceVersion"]} if at_version else {}),
        }
        try:
            await self._context.api.patch(
                place.resource,
                place.ref.name,
                {"metadata": {**known, **change}},
                place.ref.namespace,
            )
        except NotFound:
            return

    async def _let_go(self, place: ObjectIdentity, obj: Obj, finalizer: str) -> None:
        left = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        await self._change(place, obj, {"finalizers": left})

    async def _delete(self, place: ObjectIdentity, obj: Obj, policy: str) -> None:
        uid = obj["metadata"]["uid"]
        await self._context.api.delete(
            place.resource,
            place.ref.name,
            place.ref.namespace,
            propagation=policy,
            precondition_uid=uid,
        )
