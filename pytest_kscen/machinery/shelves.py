"""Everything about one resource: its objects by namespace, and the history of their changes.

A committed object is never changed again. A watch is a place in the history, and the past is what is there now with the
history undone. Readers who wait at its end are told of each change at once.
"""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.kube.requests import Event
    from pytest_kscen.objects.resources import Obj

HISTORY = 10_000  # changes of one resource that are kept, and up to twice as many, however short a time ago they were

Place: TypeAlias = tuple[str, str]
"""A namespace and a name."""


@dataclass(slots=True)
class Change:
    """One commit: what everybody is told of what is there now (on deletion: the last state), and what was there before."""

    revision: int
    event: Event
    old: Obj | None  # None when created


class Listener(Protocol):
    """Who waits at the end of a history, in `Shelf.idle`, until it leaves by itself. It must not write."""

    @property
    def is_mortal(self) -> bool:
        """Whether it has to leave some time though nothing happens."""

    def notice(self, change: Change) -> None:
        """Something was committed."""

    def remind(self, now: float) -> None:
        """A minute has passed."""


class Bucket:
    """The objects of one resource in one namespace; names are put in order when somebody asks for it."""

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
    """Everything about one resource. A position counts the changes before it, forgotten ones too."""

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
                yield from zip(itertools.repeat(each), itertools.islice(names, start, None), strict=False)

    def count_after(self, namespace: str, after: Place | None) -> int:
        """How many objects there are now behind a place."""
        count = 0
        for each in [namespace] if namespace else self.buckets:
            if each in self.buckets and (after is None or f"{each}/" >= f"{after[0]}/"):
                names = self.buckets[each].names()
                count += len(names) - (bisect.bisect_right(names, after[1]) if after and after[0] == each else 0)
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
