"""The object store: one shelf per resource with its history, one revision counter, and garbage-
collector freezing of settled objects.
"""

from __future__ import annotations

import bisect
import gc
import heapq
import itertools
import sys
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pytest_kscen.embedded.apiserver.patching.managed_fields import settle
from pytest_kscen.kube.api import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj


# Everything about one resource: its objects by namespace, and the history of their changes. A
# committed object is never changed again. A watch is a place in the history, and the past is
# what is there now with the history undone. Readers who wait at its end are told of each change
# at once.


# changes of one resource that are kept, and up to twice as many, however short a time ago they were
HISTORY = 10_000

Place: TypeAlias = tuple[str, str]
"""A namespace and a name."""


@dataclass(slots=True)
class Change:
    """One commit: what everybody is told of what is there now (on deletion: the last state), and
    what was there before.
    """

    revision: int
    event: Event
    old: Obj | None  # None when created


class Listener(Protocol):
    """Who waits at the end of a history, in `Shelf.idle`, until it leaves by itself.

    It must not write.
    """

    @property
    def is_mortal(self) -> bool:
        """Whether it has to leave some time though nothing happens."""

    def notice(self, change: Change) -> None:
        """Something was committed."""

    def remind(self, now: float) -> None:
        """A minute has passed."""


class Bucket:
    """The objects of one resource in one namespace; names are put in order when somebody asks
    for it.
    """

    __slots__ = ("_gone", "_new", "_sorted", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self._sorted: list[str] = []
        self._new: dict[str, None] = {}
        self._gone: set[str] = set()  # of those that are sorted in

    def put(self, name: str, obj: Obj) -> Obj | None:
        """Gives what was there before."""
        old = self.objects.get(name)
        self.objects[name] = obj
        if old is None:
            if name in self._gone:
                self._gone.discard(name)
            else:
                self._new[name] = None
        return old

    def pop(self, name: str) -> Obj:
        if name in self._new:
            del self._new[name]
        else:
            self._gone.add(name)
        return self.objects.pop(name)

    def names(self) -> list[str]:
        if self._new:
            self._sorted.extend(self._new)
            self._sorted.sort()
            self._new.clear()
        if self._gone:
            self._sorted = [name for name in self._sorted if name not in self._gone]
            self._gone.clear()
        return self._sorted


class Shelf:
    """Everything about one resource.

    A position counts the changes before it, forgotten ones too.
    """

    __slots__ = ("buckets", "changes", "compacted", "forgotten", "idle")

    def __init__(self, compacted: int) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.changes: list[Change] = []
        self.idle: dict[Listener, None] = {}
        self.compacted = compacted  # the last revision of which the history is forgotten
        self.forgotten = 0  # changes

    @property
    def end(self) -> int:
        return self.forgotten + len(self.changes)

    def position_after(self, revision: int) -> int:
        return self.forgotten + bisect.bisect_right(self.changes, revision, key=_revision)

    def at(self, position: int) -> Change | None:
        """The change at a position; None if it is forgotten."""
        index = position - self.forgotten
        return self.changes[index] if index >= 0 else None

    def publish(self, change: Change) -> None:
        self.changes.append(change)
        if len(self.changes) > 2 * HISTORY:
            self.forget(HISTORY)
        for listener in list(self.idle):
            listener.notice(change)

    def forget(self, count: int) -> None:
        """Drop the oldest changes; in bulk, because each time costs a move of all that stay."""
        if count:
            self.compacted = self.changes[count - 1].revision
            self.forgotten += count
            del self.changes[:count]

    def namespaces(self) -> list[str]:
        """In the order of their keys, where a slash follows the name."""
        return sorted(self.buckets, key=lambda name: f"{name}/")

    def places(self, namespace: str, after: Place | None) -> Iterator[Place]:
        """Where there are objects, in order, of one namespace or of all."""
        for each in [namespace] if namespace else self.namespaces():
            if each in self.buckets and (after is None or f"{each}/" >= f"{after[0]}/"):
                names = self.buckets[each].names()
                start = bisect.bisect_right(names, after[1]) if after and after[0] == each else 0
                yield from zip(
                    itertools.repeat(each), itertools.islice(names, start, None), strict=False
                )

    def count_after(self, namespace: str, after: Place | None) -> int:
        """How many objects there are now behind a place."""
        count = 0
        for each in [namespace] if namespace else self.buckets:
            if each in self.buckets and (after is None or f"{each}/" >= f"{after[0]}/"):
                names = self.buckets[each].names()
                count += len(names) - (
                    bisect.bisect_right(names, after[1]) if after and after[0] == each else 0
                )
        return count

    def has(self, place: Place) -> bool:
        return place[0] in self.buckets and place[1] in self.buckets[place[0]].objects

    def undone(self, revision: int, namespace: str) -> dict[Place, Obj | None]:
        """What was at each place that has changed since then."""
        past: dict[Place, Obj | None] = {}
        for change in reversed(self.changes[self.position_after(revision) - self.forgotten :]):
            metadata = change.event.object["metadata"]
            place = metadata.get("namespace", ""), metadata["name"]
            if not namespace or place[0] == namespace:
                past[place] = change.old
        return past


def in_order(place: Place) -> tuple[str, str]:
    """What places are sorted by: in the key of an object, a slash follows the namespace."""
    return f"{place[0]}/", place[1]


def _revision(change: Change) -> int:
    return change.revision


# The garbage collector belongs to the whole process: while any store wants that, what is
# settled stays out of its sight. What ends here leaves it next to nothing. So while there is a
# store it seldom looks by itself; for a large one it looks at everything when there is twice as
# much as when it last did.


YOUNG = 100_000  # new objects that are worth a look before a store asks for one
GROWTH = 2.0

_open: weakref.WeakSet[Store] = weakref.WeakSet()
_holders: weakref.WeakSet[Store] = weakref.WeakSet()
_usual: tuple[int, int, int] | None = None  # while any is open: what was so before
_left = 0  # blocks of memory, when it had looked last


def ease(store: Store) -> None:
    """Let it look at so much at once that it is worth the time, until the store is closed, or
    nobody has it any more.
    """
    global _usual  # noqa: PLW0603  # as the collector is
    if _usual is None:
        _usual = gc.get_threshold()
        gc.set_threshold(YOUNG, *_usual[1:])
    _open.add(store)
    weakref.finalize(store, _restore).atexit = False


def _restore() -> None:
    """When none is open; what somebody else has set meanwhile stays."""
    global _usual  # noqa: PLW0603  # as the collector is
    if _usual is not None and not list(_open):
        if gc.get_threshold() == (YOUNG, *_usual[1:]):
            gc.set_threshold(*_usual)
        _usual = None


def freeze(holder: Store) -> None:
    """Keep it from walking through all that is there now, which it does by itself no more until
    there is twice as much.
    """
    global _left  # noqa: PLW0603  # as the collector is
    blocks = sys.getallocatedblocks()
    _left = _left or blocks  # what was there before the first is mostly modules
    _holders.add(holder)
    if blocks >= GROWTH * _left:
        gc.unfreeze()
        gc.collect()
        _left = sys.getallocatedblocks()
    gc.freeze()


def thaw(holder: Store) -> None:
    """Hand everything back to it, once nobody else wants it kept away; it looks at once, for
    others may come soon.
    """
    global _left  # noqa: PLW0603  # as the collector is
    if holder in _holders:
        _holders.discard(holder)
        if not _holders:
            gc.unfreeze()
            gc.collect()
            _left = sys.getallocatedblocks()
    _open.discard(holder)
    _restore()


SETTLED = 5_000  # revisions after which what is stored is taken for lasting


Key: TypeAlias = tuple[str, str, str, str]
"""An object's place among all: its group, plural, namespace and name.

All versions of a resource share it.
"""


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
        """The objects as they were at a revision, from a place on; the history must still reach
        back to it.
        """
        shelf = self.shelf(group, plural)
        past = shelf.undone(revision, namespace)
        places: Iterable[Place] = shelf.places(namespace, after)
        if past:
            since = sorted(
                (place for place in past if after is None or in_order(place) > in_order(after)),
                key=in_order,
            )
            places = (
                place for place, _ in itertools.groupby(heapq.merge(places, since, key=in_order))
            )
        for place in places:
            obj = past[place] if place in past else shelf.buckets[place[0]].objects[place[1]]
            if obj is not None:
                yield place, obj

    def count_at(self, group: str, plural: str, namespace: str, revision: int, after: Place) -> int:
        """How many objects there were at a revision behind a place."""
        shelf = self.shelf(group, plural)
        past = shelf.undone(revision, namespace)
        changed = sum(
            (obj is not None) - shelf.has(place)
            for place, obj in past.items()
            if in_order(place) > in_order(after)
        )
        return shelf.count_after(namespace, after) + changed

    def commit(self, key: Key, obj: Obj) -> Obj:
        """Create or replace.

        The caller gives up the object, whose metadata it made anew: the revision is written into
        it.
        """
        group, plural, namespace, name = key
        shelf = self.shelf(group, plural)
        bucket = shelf.buckets.get(namespace)
        if bucket is None:
            bucket = shelf.buckets[namespace] = Bucket()
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        old = bucket.put(name, obj)
        self._objects[key] = obj
        event = tuple.__new__(
            Event, ("ADDED" if old is None else "MODIFIED", obj)
        )  # twice as fast as Event(...): so many are made
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
        """Forget how it came to what was there at a revision; resources that have not changed
        since lose nothing.
        """
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
