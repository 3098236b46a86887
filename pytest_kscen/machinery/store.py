"""Where an embedded cluster's objects live: each resource on a shelf of its own, all under one counter of revisions."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.kube.requests import Event
from pytest_kscen.machinery.freezing import ease, freeze, thaw
from pytest_kscen.machinery.patching.ledger import settle
from pytest_kscen.machinery.shelves import Bucket, Change, Shelf, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.machinery.shelves import Listener, Place
    from pytest_kscen.objects.resources import Obj

SETTLED = 5_000  # revisions after which what is stored is taken for lasting


Key: TypeAlias = tuple[str, str, str, str]
"""An object's place among all: its group, plural, namespace and name. All versions of a resource share it."""


class Store:
    """The one store."""

    def __init__(self) -> None:
        self.revision = 1
        self._compacted = 0
        self._shelves: dict[tuple[str, str], Shelf] = {}
        self._objects: dict[Key, Obj] = {}
        """The same objects as on the shelves: whoever asks for one most often does by its key."""
        self.forgetful: dict[Listener, None] = {}
        """Those of the idle ones who want to be reminded of the time."""
        self.stir: Callable[[], None] | None = None
        """Called at the next change."""
        self._written: dict[Key, None] = {}  # since it was settled last
        self._written_before: dict[Key, None] = {}  # and not since
        ease(self)

    def shelf(self, group: str, plural: str) -> Shelf:
        shelf = self._shelves.get((group, plural))
        if shelf is None:
            shelf = self._shelves[group, plural] = Shelf(self._compacted)
        return shelf

    def get(self, key: Key) -> Obj | None:
        return self._objects.get(key)

    def all(self, group: str, plural: str, namespace: str = "") -> Iterator[Obj]:
        """The objects in the order of their keys, of one namespace or of all."""
        shelf = self.shelf(group, plural)
        for each in [namespace] if namespace else shelf.namespaces():
            if each in shelf.buckets:
                yield from map(shelf.buckets[each].objects.__getitem__, shelf.buckets[each].names())

    def all_at(
        self, group: str, plural: str, namespace: str, revision: int, after: Place | None = None
    ) -> Iterator[tuple[Place, Obj]]:
        """The objects as they were at a revision, from a place on; the history must still reach back to it."""
        shelf = self.shelf(group, plural)
        past = shelf.undone(revision, namespace)
        places: Iterable[Place] = shelf.places(namespace, after)
        if past:
            since = sorted((place for place in past if after is None or in_order(place) > in_order(after)), key=in_order)
            places = (place for place, _ in itertools.groupby(heapq.merge(places, since, key=in_order)))
        for place in places:
            obj = past[place] if place in past else shelf.buckets[place[0]].objects[place[1]]
            if obj is not None:
                yield place, obj

    def count_at(self, group: str, plural: str, namespace: str, revision: int, after: Place) -> int:
        """How many objects there were at a revision behind a place."""
        shelf = self.shelf(group, plural)
        past = shelf.undone(revision, namespace)
        changed = sum((obj is not None) - shelf.has(place) for place, obj in past.items() if in_order(place) > in_order(after))
        return shelf.count_after(namespace, after) + changed

    def commit(self, key: Key, obj: Obj) -> Obj:
        """Create or replace. The caller gives up the object, whose metadata it made anew: the revision is written into it."""
        group, plural, namespace, name = key
        shelf = self.shelf(group, plural)
        bucket = shelf.buckets.get(namespace)
        if bucket is None:
            bucket = shelf.buckets[namespace] = Bucket()
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        old = bucket.put(name, obj)
        self._objects[key] = obj
        event = tuple.__new__(Event, ("ADDED" if old is None else "MODIFIED", obj))  # twice as fast as Event(...): so many are made
        shelf.publish(Change(self.revision, event, old))
        self._written[key] = None
        if self.stir:
            self.stir()
        if not self.revision % SETTLED:
            self._settle()
        return obj

    def replace(self, key: Key, obj: Obj) -> None:
        """The same object, read in another way: nothing has happened to it."""
        group, plural, namespace, name = key
        self._shelves[group, plural].buckets[namespace].put(name, obj)
        self._objects[key] = obj

    def _settle(self) -> None:
        for key in self._written_before:
            if key not in self._written and (lasting := self.get(key)):
                settle(lasting)
        self._written_before, self._written = self._written, {}
        freeze(self)

    def remove(self, key: Key) -> Obj:
        """Delete; the last state carries the revision of its deletion, as Kubernetes shows it."""
        group, plural, namespace, name = key
        shelf = self.shelf(group, plural)
        bucket = shelf.buckets[namespace]
        old = bucket.pop(name)
        del self._objects[key]
        self._written.pop(key, None)
        self._written_before.pop(key, None)
        if not bucket.objects:
            del shelf.buckets[namespace]
        self.revision += 1
        last = at_revision(old, self.revision)
        shelf.publish(Change(self.revision, Event("DELETED", last), old))
        if self.stir:
            self.stir()
        return last

    def compact(self) -> None:
        """Forget all history: a watch, or a list's next page, from any earlier revision is Gone."""
        self._compacted = self.revision
        for shelf in self._shelves.values():
            shelf.forget(len(shelf.changes))
            shelf.compacted = self.revision

    def forget(self, revision: int) -> None:
        """Forget how it came to what was there at a revision; resources that have not changed since lose nothing."""
        for shelf in self._shelves.values():
            shelf.forget(shelf.position_after(revision) - shelf.forgotten)

    def close(self) -> None:
        """Hand everything back to the garbage collector."""
        thaw(self)

    def idle(self) -> list[Listener]:
        return [listener for shelf in self._shelves.values() for listener in shelf.idle]


def at_revision(obj: Obj, revision: int) -> Obj:
    """The same state, known under another revision."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
