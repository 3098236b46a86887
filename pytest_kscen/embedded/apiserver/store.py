"""Object store: the objects and change history of each resource, with one revision counter.

Used by the verbs, watches and admission plugins. Committed objects are never changed again. Also
tunes Python's garbage collector, so that large stores are not scanned over and over.
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

from pytest_kscen.embedded.apiserver.patching.managed_fields import compact_managed_fields
from pytest_kscen.kube.api import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj


# changes kept per resource, of any age; dropped in bulk at twice this number
HISTORY = 10_000

NamespacedName: TypeAlias = tuple[str, str]
"""A namespace and a name."""


@dataclass(slots=True)
class StoreChange:
    """Commit: the event that watches receive, and the object before it.

    The event's object is the new state, or the last state on deletion. `old` is None on creation.
    """

    revision: int
    event: Event
    old: Obj | None


class Listener(Protocol):
    """Receiver of changes at the end of a resource's history, registered in
    `ResourceStore.listeners`.

    Stays registered until it removes itself. Must not write to the store.
    """

    @property
    def has_deadline(self) -> bool:
        """True if the listener ends at some time even if nothing changes."""

    def on_change(self, change: StoreChange) -> None:
        """Receive one committed change, during the commit and in the order of registration."""

    def on_tick(self, now: float) -> None: ...


class NamespaceObjects:
    """Objects of one resource in one namespace, sorted by name only when a reader needs the order.

    Additions and removals are collected and merged into the sorted list at the next read.
    """

    __slots__ = ("_new", "_removed", "_sorted", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self._sorted: list[str] = []
        self._new: dict[str, None] = {}
        self._removed: set[str] = set()  # of the names in `_sorted`

    def put(self, name: str, obj: Obj) -> Obj | None:
        """Store an object and return the previous one of the same name."""
        old = self.objects.get(name)
        self.objects[name] = obj
        if old is None:
            if name in self._removed:
                self._removed.discard(name)
            else:
                self._new[name] = None
        return old

    def pop(self, name: str) -> Obj:
        if name in self._new:
            del self._new[name]
        else:
            self._removed.add(name)
        return self.objects.pop(name)

    def names(self) -> list[str]:
        if self._new:
            self._sorted.extend(self._new)
            self._sorted.sort()
            self._new.clear()
        if self._removed:
            self._sorted = [name for name in self._sorted if name not in self._removed]
            self._removed.clear()
        return self._sorted


class ResourceStore:
    """Objects of one resource by namespace, and the history of their changes.

    A position in the history counts all changes before it, including dropped ones. A watch is such
    a position; a past state is the present one with later changes undone.
    """

    __slots__ = ("buckets", "changes", "compacted", "forgotten", "listeners")

    def __init__(self, compacted: int) -> None:
        self.buckets: dict[str, NamespaceObjects] = {}
        self.changes: list[StoreChange] = []
        self.listeners: dict[Listener, None] = {}
        self.compacted = compacted  # the last revision whose history was dropped
        self.forgotten = 0  # number of dropped changes

    @property
    def end(self) -> int:
        return self.forgotten + len(self.changes)

    def position_after(self, revision: int) -> int:
        return self.forgotten + bisect.bisect_right(
            self.changes, revision, key=lambda change: change.revision
        )

    def at(self, position: int) -> StoreChange | None:
        """Return the change at a position, or None if it was dropped from the history."""
        index = position - self.forgotten
        return self.changes[index] if index >= 0 else None

    def publish(self, change: StoreChange) -> None:
        self.changes.append(change)
        if len(self.changes) > 2 * HISTORY:
            self.forget(HISTORY)
        for listener in list(self.listeners):
            listener.on_change(change)

    def forget(self, count: int) -> None:
        """Drop the oldest changes; called in bulk, because each call moves all remaining
        entries.
        """
        if count:
            self.compacted = self.changes[count - 1].revision
            self.forgotten += count
            del self.changes[:count]

    def namespaces(self) -> list[str]:
        """Return the namespaces in the order of etcd's keys, where a slash follows the
        namespace.
        """
        return sorted(self.buckets, key=lambda name: f"{name}/")

    def names_after(self, namespace: str, after: NamespacedName | None) -> Iterator[NamespacedName]:
        """Yield the names of existing objects in key order, of one namespace or of all."""
        for each in [namespace] if namespace else self.namespaces():
            if each in self.buckets and (after is None or f"{each}/" >= f"{after[0]}/"):
                names = self.buckets[each].names()
                start = bisect.bisect_right(names, after[1]) if after and after[0] == each else 0
                yield from zip(
                    itertools.repeat(each), itertools.islice(names, start, None), strict=False
                )

    def count_after(self, namespace: str, after: NamespacedName | None) -> int:
        count = 0
        for each in [namespace] if namespace else self.buckets:
            if each in self.buckets and (after is None or f"{each}/" >= f"{after[0]}/"):
                names = self.buckets[each].names()
                count += len(names) - (
                    bisect.bisect_right(names, after[1]) if after and after[0] == each else 0
                )
        return count

    def has(self, place: NamespacedName) -> bool:
        return place[0] in self.buckets and place[1] in self.buckets[place[0]].objects

    def past_states(self, revision: int, namespace: str) -> dict[NamespacedName, Obj | None]:
        """Return the state at a revision of each object that changed since; None if it did not
        exist.
        """
        past: dict[NamespacedName, Obj | None] = {}
        for change in reversed(self.changes[self.position_after(revision) - self.forgotten :]):
            metadata = change.event.object["metadata"]
            place = metadata.get("namespace", ""), metadata["name"]
            if not namespace or place[0] == namespace:
                past[place] = change.old
        return past


def sort_key(place: NamespacedName) -> tuple[str, str]:
    """Return the sort key of a name: in etcd's keys a slash follows the namespace."""
    return f"{place[0]}/", place[1]


# Python's garbage collector belongs to the whole process. While a store is open it collects
# seldom, and long-lived objects are frozen; a full collection runs when memory has doubled since
# the last one.


GC_THRESHOLD = 100_000  # new objects before the collector runs, while a store is open
COLLECT_GROWTH = 2.0

_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_frozen_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_original_threshold: tuple[int, int, int] | None = (
    None  # the process's own thresholds, kept while any store is open
)
_collected_blocks = 0  # allocated blocks after the last full collection


def raise_gc_threshold(store: Store) -> None:
    """Make the garbage collector run seldom until the store is closed or dropped.

    Applies to the whole process; the first store saves the original thresholds.
    """
    global _original_threshold  # noqa: PLW0603  # as the collector is
    if _original_threshold is None:
        _original_threshold = gc.get_threshold()
        gc.set_threshold(GC_THRESHOLD, *_original_threshold[1:])
    _open_stores.add(store)
    weakref.finalize(store, _restore_gc_threshold).atexit = False


def _restore_gc_threshold() -> None:
    """Restore the thresholds when no store is open, unless other code has set its own meanwhile."""
    global _original_threshold  # noqa: PLW0603  # as the collector is
    if _original_threshold is not None and not list(_open_stores):
        if gc.get_threshold() == (GC_THRESHOLD, *_original_threshold[1:]):
            gc.set_threshold(*_original_threshold)
        _original_threshold = None


def freeze_objects(holder: Store) -> None:
    """Exclude all present objects from garbage collection, after a full one if memory has
    doubled.
    """
    global _collected_blocks  # noqa: PLW0603  # as the collector is
    blocks = sys.getallocatedblocks()
    # Memory before the first freeze is mostly modules.
    _collected_blocks = _collected_blocks or blocks
    _frozen_stores.add(holder)
    if blocks >= COLLECT_GROWTH * _collected_blocks:
        gc.unfreeze()
        gc.collect()
        _collected_blocks = sys.getallocatedblocks()
    gc.freeze()


def unfreeze_objects(holder: Store) -> None:
    """Return all objects to the garbage collector when the last store that froze some is closed.

    Collects at once, since the next run's store may freeze everything again soon.
    """
    global _collected_blocks  # noqa: PLW0603  # as the collector is
    if holder in _frozen_stores:
        _frozen_stores.discard(holder)
        if not _frozen_stores:
            gc.unfreeze()
            gc.collect()
            _collected_blocks = sys.getallocatedblocks()
    _open_stores.discard(holder)
    _restore_gc_threshold()


FREEZE_INTERVAL = 5_000  # revisions after which stored objects count as long-lived


Key: TypeAlias = tuple[str, str, str, str]
"""Identity of an object in the store: group, plural, namespace and name.

All versions of a resource share it.
"""


class Store:
    """Objects of one API server, and the revision counter of their changes.

    Every write goes through `commit`, `replace` or `remove`; each commit and removal takes the next
    revision and notifies the resource's listeners before it returns.
    """

    def __init__(self) -> None:
        self.revision = 1
        self._compacted = 0
        self._resource_stores: dict[tuple[str, str], ResourceStore] = {}
        self._objects: dict[Key, Obj] = {}
        """Same objects as in the resource stores, for the frequent lookup by key."""
        self.timed_listeners: dict[Listener, None] = {}
        """Registered listeners that receive ticks."""
        self.on_commit: Callable[[], None] | None = None
        """Called at each change while set; wakes the housekeeping task."""
        self.recorders: list[Callable[[Key, Obj | None, Obj | None], object]] = []
        """Called at each change, with the object before and after it. They must not write."""
        self._written: dict[Key, None] = {}  # since the last freeze
        self._written_earlier: dict[Key, None] = {}  # in the interval before it
        raise_gc_threshold(self)

    def resource_store(self, group: str, plural: str) -> ResourceStore:
        resource_store = self._resource_stores.get((group, plural))
        if resource_store is None:
            resource_store = self._resource_stores[group, plural] = ResourceStore(self._compacted)
        return resource_store

    def get(self, key: Key) -> Obj | None:
        return self._objects.get(key)

    def everything(self) -> Iterator[tuple[Key, Obj]]:
        """Yield all objects of all resources, in the order in which they were made."""
        yield from self._objects.items()

    def all(self, group: str, plural: str, namespace: str = "") -> Iterator[Obj]:
        """Yield the objects in key order, of one namespace or of all.

        The store must not be written during the iteration.
        """
        resource_store = self.resource_store(group, plural)
        for each in [namespace] if namespace else resource_store.namespaces():
            if each in resource_store.buckets:
                yield from map(
                    resource_store.buckets[each].objects.__getitem__,
                    resource_store.buckets[each].names(),
                )

    def all_at(
        self,
        group: str,
        plural: str,
        namespace: str,
        revision: int,
        after: NamespacedName | None = None,
    ) -> Iterator[tuple[NamespacedName, Obj]]:
        """Yield the objects as of a revision, from behind a name on; the history must reach back to
        it.
        """
        resource_store = self.resource_store(group, plural)
        past = resource_store.past_states(revision, namespace)
        names_after: Iterable[NamespacedName] = resource_store.names_after(namespace, after)
        if past:
            since = sorted(
                (place for place in past if after is None or sort_key(place) > sort_key(after)),
                key=sort_key,
            )
            names_after = (
                place
                for place, _ in itertools.groupby(heapq.merge(names_after, since, key=sort_key))
            )
        for place in names_after:
            obj = (
                past[place] if place in past else resource_store.buckets[place[0]].objects[place[1]]
            )
            if obj is not None:
                yield place, obj

    def count_at(
        self, group: str, plural: str, namespace: str, revision: int, after: NamespacedName
    ) -> int:
        """Count the objects at a revision after a name."""
        resource_store = self.resource_store(group, plural)
        past = resource_store.past_states(revision, namespace)
        changed = sum(
            (obj is not None) - resource_store.has(place)
            for place, obj in past.items()
            if sort_key(place) > sort_key(after)
        )
        return resource_store.count_after(namespace, after) + changed

    def commit(self, key: Key, obj: Obj) -> Obj:
        """Create or replace an object, notify the listeners, and return it.

        The store takes ownership of the object. Its `metadata` must be a new dict, since the
        revision is written into it. Neither admission nor validation happens here.
        """
        group, plural, namespace, name = key
        resource_store = self.resource_store(group, plural)
        bucket = resource_store.buckets.get(namespace)
        if bucket is None:
            bucket = resource_store.buckets[namespace] = NamespaceObjects()
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        old = bucket.put(name, obj)
        self._objects[key] = obj
        # Twice as fast as Event(...), on the hottest path.
        event = tuple.__new__(Event, ("ADDED" if old is None else "MODIFIED", obj))
        resource_store.publish(StoreChange(self.revision, event, old))
        self._written[key] = None
        for recorder in self.recorders:
            recorder(key, old, obj)
        if self.on_commit:
            self.on_commit()
        if not self.revision % FREEZE_INTERVAL:
            for settled in self._written_earlier:
                if settled not in self._written and (lasting := self.get(settled)):
                    compact_managed_fields(lasting)
            self._written_earlier, self._written = self._written, {}
            freeze_objects(self)
        return obj

    def replace(self, key: Key, obj: Obj) -> None:
        """Exchange an object for another form of itself, such as one decoded by a new schema.

        The exchange is no change: it has no revision, and no listener is notified.
        """
        group, plural, namespace, name = key
        self._resource_stores[group, plural].buckets[namespace].put(name, obj)
        self._objects[key] = obj

    def remove(self, key: Key) -> Obj:
        """Delete an object and return its last state, which carries the revision of the
        deletion.
        """
        group, plural, namespace, name = key
        resource_store = self.resource_store(group, plural)
        bucket = resource_store.buckets[namespace]
        old = bucket.pop(name)
        del self._objects[key]
        self._written.pop(key, None)
        self._written_earlier.pop(key, None)
        if not bucket.objects:
            del resource_store.buckets[namespace]
        self.revision += 1
        last = at_revision(old, self.revision)
        resource_store.publish(StoreChange(self.revision, Event("DELETED", last), old))
        for recorder in self.recorders:
            recorder(key, old, None)
        if self.on_commit:
            self.on_commit()
        return last

    def compact(self) -> None:
        """Drop all history: watches and list pages from earlier revisions become Gone (410)."""
        self._compacted = self.revision
        for resource_store in self._resource_stores.values():
            resource_store.forget(len(resource_store.changes))
            resource_store.compacted = self.revision

    def forget(self, revision: int) -> None:
        """Drop the history up to a revision; resources unchanged since then lose nothing."""
        for resource_store in self._resource_stores.values():
            resource_store.forget(
                resource_store.position_after(revision) - resource_store.forgotten
            )

    def close(self) -> None:
        """Return all objects to the garbage collector; the store must not be used afterwards.

        Without it they are returned when the store itself is collected.
        """
        unfreeze_objects(self)

    def listeners(self) -> list[Listener]:
        return [
            listener
            for resource_store in self._resource_stores.values()
            for listener in resource_store.listeners
        ]


def at_revision(obj: Obj, revision: int) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
