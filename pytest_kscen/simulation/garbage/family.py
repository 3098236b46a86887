"""Who owns whom, over all resources: kept up to date from what the informers tell, and asked by uid."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.objects.resources import Obj, Resource

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class Place(NamedTuple):
    """Where an object is served."""

    resource: Resource
    ref: Ref


def owners_of(obj: Obj | None) -> list[Obj]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or []


def is_deleting(obj: Obj, finalizer: str) -> bool:
    """Whether it is on its way out and this finalizer still holds it."""
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and finalizer in (metadata.get("finalizers") or ())


def is_held(obj: Obj) -> bool:
    """Whether its deletion waits for the garbage collector."""
    return "deletionTimestamp" in obj["metadata"] and (is_deleting(obj, FOREGROUND) or is_deleting(obj, ORPHAN))


def blocks(obj: Obj, owner: str) -> bool:
    """Whether the owner's deletion in the foreground has to wait for this dependent."""
    return any(reference["uid"] == owner and reference.get("blockOwnerDeletion") for reference in owners_of(obj))


class Family:
    """The tree."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}

    def place_of(self, uid: str) -> Place | None:
        return self._places.get(uid)

    def dependents_of(self, uid: str) -> list[Place]:
        return list(self._dependents.get(uid, ()))

    def see(self, place: Place, new: Obj | None, old: Obj | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        if new is None:
            self._places.pop(uid, None)
        else:
            self._places[uid] = place
        before = {owner["uid"]: None for owner in owners_of(old)}
        now = {owner["uid"]: None for owner in owners_of(new)}
        for owner in before:
            if owner not in now:
                self._part(owner, place)
        for owner in now:
            self._dependents.setdefault(owner, {})[place] = None

    def _part(self, owner: str, place: Place) -> None:
        del self._dependents[owner][place]
        if not self._dependents[owner]:
            del self._dependents[owner]
