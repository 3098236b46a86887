"""How garbage is found: every change of an owner, its deletion above all, brings its dependents here to be judged.

A dependent whose owners are all gone is deleted. An owner that is deleted in the foreground waits for the dependents that
block it; one that orphans is let go after they have forgotten it. Kinds that appear later are followed when they do.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS
from pytest_kscen.simulation.garbage.family import FOREGROUND, ORPHAN, Family, Place, blocks, is_deleting, is_held, owners_of
from pytest_kscen.simulation.garbage.owners import Owners, State

if TYPE_CHECKING:
    from typing import Any

    from pytest_kscen.kube.picture import Handler
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.simulation.bench import Bench

EVERYTHING = Place(CUSTOM_RESOURCE_DEFINITIONS, Ref("", ""))
"""Stands in the queue for a look at which resources there are."""


class GarbageCollector:
    """The controller."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._family = Family()
        self._owners = Owners(bench, self._family)
        self._followed: dict[Resource, Handler] = {}
        self._controller = bench.controller(self._reconcile)
        self._definitions = bench.informers.of(CUSTOM_RESOURCE_DEFINITIONS)

    async def run(self) -> None:
        await self._follow_all()
        for resource in self._followed:
            await self._bench.informers.of(resource).synced()
        self._definitions.on_change(lambda *_: self._controller.enqueue(EVERYTHING))
        await self._controller.run()

    async def _follow_all(self) -> None:
        served = [row for row in await self._bench.api.resources() if row.plural != EVENTS.plural]
        for resource in served:
            if resource not in self._followed:
                handler = self._followed[resource] = functools.partial(self._see, resource)
                self._bench.informers.of(resource).on_change(handler)
        for resource in [resource for resource in self._followed if resource not in served]:
            self._forget(resource)
        for place in self._owners.take_puzzling():
            self._controller.enqueue(place)

    def _forget(self, resource: Resource) -> None:
        """The resource is served no longer, so all of it is gone."""
        handler, informer = self._followed.pop(resource), self._bench.informers.of(resource)
        informer.off_change(handler)
        for obj in informer:
            handler(None, obj)
        self._bench.informers.drop(resource)

    # --- what makes whom be judged ---

    def _see(self, resource: Resource, new: Obj | None, old: Obj | None) -> None:
        if new and old:
            now, before = new["metadata"], old["metadata"]
            if now.get("ownerReferences") is before.get("ownerReferences") and not is_held(new):
                return  # nobody owns it who did not, and it waits for nobody: so it is with most writes, and told at a glance
        obj = new or old or {}
        place, owners, owned_by = Place(resource, Ref.of(obj)), owners_of(new), owners_of(old)
        if not new or not old or owners != owned_by:
            self._family.see(place, new, old)
        if new is None:
            self._enqueue_dependents(obj)
        elif is_held(new) or (owners != owned_by and not all(self._owners.is_known(owner, place) for owner in owners)):
            self._controller.enqueue(place)
        for owner in owned_by:
            if owner not in owners:
                self._enqueue_waiting(owner)

    def _enqueue_dependents(self, obj: Obj) -> None:
        uid = obj["metadata"]["uid"]
        dependents = self._family.dependents_of(uid)
        if dependents:
            self._owners.note_gone(uid, obj["metadata"].get("namespace", ""))
        for dependent in dependents:
            self._controller.enqueue(dependent)

    def _enqueue_waiting(self, owner: Obj) -> None:
        """An owner that waits for its dependents has one less to wait for."""
        place = self._family.place_of(owner["uid"])
        found = place and self._picture(place)
        if place and found and is_deleting(found, FOREGROUND):
            self._controller.enqueue(place)

    def _picture(self, place: Place) -> Obj | None:
        return self._bench.informers.of(place.resource).objects.get(place.ref)

    # --- judging ---

    async def _reconcile(self, place: Place) -> None:
        if place == EVERYTHING:
            await self._follow_all()
            return
        try:
            await self._judge(place, await self._bench.api.get(place.resource, place.ref.name, place.ref.namespace))
        except NotFound:
            return

    async def _judge(self, place: Place, obj: Obj) -> None:
        if is_deleting(obj, ORPHAN):
            await self._orphan(place, obj)
        elif is_deleting(obj, FOREGROUND):
            await self._clear_the_way(place, obj)
        elif owners_of(obj) and not obj["metadata"].get("deletionTimestamp"):
            await self._judge_by_owners(place, obj)

    async def _orphan(self, place: Place, owner: Obj) -> None:
        uid = owner["metadata"]["uid"]
        for dependent in self._family.dependents_of(uid):
            if found := self._picture(dependent):
                left = [reference for reference in owners_of(found) if reference["uid"] != uid]
                await self._change(dependent, found, {"ownerReferences": left})
        await self._let_go(place, owner, ORPHAN)

    async def _clear_the_way(self, place: Place, owner: Obj) -> None:
        uid = owner["metadata"]["uid"]
        dependents = {dependent: self._picture(dependent) for dependent in self._family.dependents_of(uid)}
        if not any(found and blocks(found, uid) for found in dependents.values()):
            await self._let_go(place, owner, FOREGROUND)
        for dependent, found in dependents.items():
            if found and not found["metadata"].get("deletionTimestamp"):
                self._controller.enqueue(dependent)

    async def _judge_by_owners(self, place: Place, obj: Obj) -> None:
        states = [(owner, await self._owners.state_of(owner, place, obj)) for owner in owners_of(obj)]
        if any(state is State.UNKNOWN for _, state in states):
            return
        if alive := [owner for owner, state in states if state is State.ALIVE]:
            if len(alive) < len(states):
                await self._change(place, obj, {"ownerReferences": alive})
        elif any(state is State.WAITING for _, state in states) and self._family.dependents_of(obj["metadata"]["uid"]):
            await self._unblock_circle(place, obj)
            await self._delete(place, obj, "Foreground")
        else:
            await self._delete(place, obj, _policy(obj))

    async def _unblock_circle(self, place: Place, obj: Obj) -> None:
        """Among owners that wait for each other one has to give in: here the one that is judged."""
        dependents = map(self._picture, self._family.dependents_of(obj["metadata"]["uid"]))
        if any(found and is_deleting(found, FOREGROUND) for found in dependents):
            unblocked = [{**owner, "blockOwnerDeletion": False} for owner in owners_of(obj)]
            await self._change(place, obj, {"ownerReferences": unblocked}, at_version=False)

    # --- acting ---

    async def _change(self, place: Place, obj: Obj, change: dict[str, Any], *, at_version: bool = True) -> None:
        metadata = obj["metadata"]
        known = {"uid": metadata["uid"], **({"resourceVersion": metadata["resourceVersion"]} if at_version else {})}
        try:
            await self._bench.api.patch(place.resource, place.ref.name, {"metadata": {**known, **change}}, place.ref.namespace)
        except NotFound:
            return

    async def _let_go(self, place: Place, obj: Obj, finalizer: str) -> None:
        left = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        await self._change(place, obj, {"finalizers": left})

    async def _delete(self, place: Place, obj: Obj, policy: str) -> None:
        uid = obj["metadata"]["uid"]
        await self._bench.api.delete(place.resource, place.ref.name, place.ref.namespace, propagation=policy, precondition_uid=uid)


def _policy(obj: Obj) -> str:
    """As its finalizers say, for it may have been deleted before it had an owner to wait for."""
    finalizers = obj["metadata"].get("finalizers") or ()
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
