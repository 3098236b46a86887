"""Where an embedded cluster's objects live: by resource and namespace, under one counter of revisions.

A committed object is never changed again. Every commit appends to its resource's history, from which watches start,
and is shown to the resource's listeners at once, synchronously; a listener must not write.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.objects.resources import Obj

HISTORY = 20_000  # changes of one resource that a watch can still start from


class Key(NamedTuple):
    """An object's place. All versions of a resource share it."""

    group: str
    plural: str
    namespace: str
    name: str


class Change(NamedTuple):
    """One commit: what was there before (None when created) and what is there now (on deletion: the last state)."""

    revision: int
    type: str
    new: Obj
    old: Obj | None


class Bucket:
    """The objects of one resource in one namespace; sorted when somebody asks for all."""

    __slots__ = ("_sorted", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self._sorted = True

    def put(self, name: str, obj: Obj) -> None:
        if name not in self.objects:
            self._sorted = False
        self.objects[name] = obj

    def in_order(self) -> dict[str, Obj]:
        if not self._sorted:
            self.objects = dict(sorted(self.objects.items()))
            self._sorted = True
        return self.objects


@dataclass(slots=True)
class Shelf:
    """Everything about one resource."""

    buckets: dict[str, Bucket]
    history: collections.deque[Change]
    listeners: list[Callable[[Change], None]]
    compacted: int = 0


class Store:
    """The one store."""

    def __init__(self) -> None:
        self.revision = 1
        self._shelves: dict[tuple[str, str], Shelf] = {}

    def shelf(self, group: str, plural: str) -> Shelf:
        shelf = self._shelves.get((group, plural))
        if shelf is None:
            shelf = self._shelves[group, plural] = Shelf({}, collections.deque(), [])
        return shelf

    def get(self, key: Key) -> Obj | None:
        bucket = self.shelf(key.group, key.plural).buckets.get(key.namespace)
        return bucket.objects.get(key.name) if bucket else None

    def all(self, group: str, plural: str, namespace: str = "") -> Iterator[Obj]:
        """The objects in the order of their keys, of one namespace or of all."""
        buckets = self.shelf(group, plural).buckets
        for name in [namespace] if namespace else sorted(buckets):
            if name in buckets:
                yield from buckets[name].in_order().values()

    def commit(self, key: Key, obj: Obj) -> Obj:
        """Create or replace. The caller gives up the object, whose metadata it made anew: the revision is written into it."""
        shelf = self.shelf(key.group, key.plural)
        bucket = shelf.buckets.get(key.namespace)
        if bucket is None:
            bucket = shelf.buckets[key.namespace] = Bucket()
        old = bucket.objects.get(key.name)
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        bucket.put(key.name, obj)
        self._publish(shelf, Change(self.revision, "ADDED" if old is None else "MODIFIED", obj, old))
        return obj

    def remove(self, key: Key) -> Obj:
        """Delete; the last state carries the revision of its deletion, as Kubernetes shows it."""
        shelf = self.shelf(key.group, key.plural)
        bucket = shelf.buckets[key.namespace]
        old = bucket.objects.pop(key.name)
        if not bucket.objects:
            del shelf.buckets[key.namespace]
        self.revision += 1
        last = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}}
        self._publish(shelf, Change(self.revision, "DELETED", last, old))
        return last

    def compact(self) -> None:
        """Forget all history: a watch from any earlier revision is Gone."""
        for shelf in self._shelves.values():
            shelf.history.clear()
            shelf.compacted = self.revision

    def _publish(self, shelf: Shelf, change: Change) -> None:
        shelf.history.append(change)
        if len(shelf.history) > HISTORY:
            shelf.compacted = shelf.history.popleft().revision
        for listener in list(shelf.listeners):
            listener(change)
