"""What becomes of an event before it is written, as client-go's correlator decides: dropped, combined, counted or new.

A source may say 25 things about one object, then one every five minutes; the tenth message of one reason within ten
minutes and all after it are combined into one event; and what was said before is one more count of the same event.
"""

from __future__ import annotations

import collections
import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pytest_kscen.objects.resources import Obj

T = TypeVar("T")

CACHE = 4096  # entries that each memory holds at most
ALIKE, ALIKE_WITHIN = 10, 600.0  # so many messages of one reason within so many seconds are combined
IDENTITY = ("kind", "namespace", "name", "uid", "apiVersion")
BURST, REFILL = 25, 300.0  # events that one object may have at once, and seconds until it may have one more


class Recent(Generic[T]):
    """A dict that forgets what was put in before a while, and of too many entries the oldest."""

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        self._entries: collections.OrderedDict[Hashable, tuple[float, T]] = collections.OrderedDict()

    def get(self, key: Hashable, now: float) -> T | None:
        since, value = self._entries.get(key, (-math.inf, None))
        return value if now - since <= self._lifetime else None

    def put(self, key: Hashable, value: T, now: float) -> None:
        entries = self._entries
        entries[key] = now, value
        entries.move_to_end(key)
        while len(entries) > CACHE or now - next(iter(entries.values()))[0] > self._lifetime:
            entries.popitem(last=False)


@dataclass(slots=True)
class _Bucket:
    """How many more events an object may have."""

    tokens: float
    since: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """An event that is being written: its name may still change."""

    metadata: Obj
    first: str
    count: int


class _Memory:
    """What was said before, for ever, unless it is too much. Of what is written no more is kept than it takes to count it again."""

    def __init__(self) -> None:
        self._entries: collections.OrderedDict[Hashable, _Seen | str] = collections.OrderedDict()
        self._unwritten: list[Hashable] = []

    def get(self, key: Hashable, metadata: Obj) -> _Seen | None:
        """`metadata` is what the event would have if it were the first; its name is the earlier one's but for the number."""
        seen = self._entries.get(key)
        if not isinstance(seen, str):
            return seen
        count, first, number = seen.split()
        return _Seen({**metadata, "name": f"{metadata['name'].rpartition('.')[0]}.{number}"}, first, int(count))

    def put(self, key: Hashable, seen: _Seen) -> None:
        self._entries[key] = seen
        self._entries.move_to_end(key)
        self._unwritten.append(key)
        if len(self._entries) > CACHE:
            self._entries.popitem(last=False)

    def settle(self) -> None:
        for key in self._unwritten:
            seen = self._entries.get(key)
            if isinstance(seen, _Seen):
                self._entries[key] = f"{seen.count} {seen.first} {seen.metadata['name'].rpartition('.')[2]}"
        self._unwritten.clear()


class Correlator:
    """Decides what becomes of an event: nothing, a new object, or one more count of an old one."""

    def __init__(self) -> None:
        self._buckets: Recent[_Bucket] = Recent(BURST * REFILL)  # then it is full again
        self._alike: Recent[dict[str, None]] = Recent(ALIKE_WITHIN)  # the messages that were seen for one reason
        self._seen = _Memory()

    def correlate(self, event: Obj, now: float) -> Obj | None:
        """The event to write, with the name and the count of an earlier one if it is one more of those."""
        involved = event["involvedObject"]
        about = _mark(event["source"].get("host"), event["type"], *(involved.get(part) for part in IDENTITY))
        if not self._may_pass(about, now):
            return None
        message, alike = event["message"], _mark(about, involved.get("fieldPath"), event["reason"])
        key = _mark(alike, message)
        if self._are_many(alike, message, now):
            event, key = {**event, "message": f"(combined from similar events): {message}"}, alike
        seen = self._seen.get(key, event["metadata"])
        if seen:
            event = {**event, "metadata": seen.metadata, "firstTimestamp": seen.first, "count": seen.count + 1}
        self._seen.put(key, _Seen(event["metadata"], event["firstTimestamp"], event["count"]))
        return event

    def settle(self) -> None:
        """All that was to be written is."""
        self._seen.settle()

    def _may_pass(self, about: Hashable, now: float) -> bool:
        bucket = self._buckets.get(about, now) or _Bucket(BURST, now)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.since) / REFILL)
        bucket.since = now
        self._buckets.put(about, bucket, now)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _are_many(self, alike: Hashable, message: str, now: float) -> bool:
        messages = self._alike.get(alike, now) or {}
        messages[message] = None
        self._alike.put(alike, messages, now)
        if len(messages) < ALIKE:
            return False
        messages.popitem()
        return True


def _mark(*parts: object) -> bytes:
    """What stands for them in memory, where they are kept for long and many."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
