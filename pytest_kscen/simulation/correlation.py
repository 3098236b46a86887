"""What becomes of an event before it is written, as client-go's correlator decides: dropped, combined, counted or new.

A source may say 25 things about one object, then one every five minutes; the tenth message of one reason within ten
minutes and all after it are combined into one event; and what was said before is one more count of the same event.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pytest_kscen.objects.resources import Obj

T = TypeVar("T")

CACHE = 4096  # entries that each memory holds
ALIKE, ALIKE_WITHIN = 10, 600.0  # so many messages of one reason within so many seconds are combined
IDENTITY = ("kind", "namespace", "name", "uid", "apiVersion")
BURST, REFILL = 25, 300.0  # events that one object may have at once, and seconds until it may have one more


class Recent(Generic[T]):
    """A dict that forgets what was not used for longest."""

    def __init__(self) -> None:
        self._entries: collections.OrderedDict[Hashable, T] = collections.OrderedDict()

    def get(self, key: Hashable) -> T | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: Hashable, value: T) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > CACHE:
            self._entries.popitem(last=False)


@dataclass(slots=True)
class _Bucket:
    """How many more events an object may have."""

    tokens: float
    since: float


@dataclass(slots=True)
class _Alike:
    """The messages that were seen for one reason."""

    messages: dict[str, None]
    last: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """An event that was written; its name may still change while it is."""

    metadata: Obj
    first: str
    count: int


class Correlator:
    """Decides what becomes of an event: nothing, a new object, or one more count of an old one."""

    def __init__(self) -> None:
        self._buckets: Recent[_Bucket] = Recent()
        self._alike: Recent[_Alike] = Recent()
        self._seen: Recent[_Seen] = Recent()

    def correlate(self, event: Obj, now: float) -> Obj | None:
        """The event to write, with the name and the count of an earlier one if it is one more of those."""
        involved = event["involvedObject"]
        about = (event["source"].get("host"), event["type"], *(involved.get(part) for part in IDENTITY))
        if not self._may_pass(about, now):
            return None
        message, alike = event["message"], (*about, involved.get("fieldPath"), event["reason"])
        key = (*alike, message)
        if self._are_many(alike, message, now):
            event, key = {**event, "message": f"(combined from similar events): {message}"}, alike
        seen = self._seen.get(key)
        if seen:
            event = {**event, "metadata": seen.metadata, "firstTimestamp": seen.first, "count": seen.count + 1}
        self._seen.put(key, _Seen(event["metadata"], event["firstTimestamp"], event["count"]))
        return event

    def _may_pass(self, about: Hashable, now: float) -> bool:
        bucket = self._buckets.get(about) or _Bucket(BURST, now)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.since) / REFILL)
        bucket.since = now
        self._buckets.put(about, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _are_many(self, alike: Hashable, message: str, now: float) -> bool:
        record = self._alike.get(alike)
        if record is None or now - record.last > ALIKE_WITHIN:
            record = _Alike({}, now)
        record.messages[message] = None
        record.last = now
        self._alike.put(alike, record)
        if len(record.messages) < ALIKE:
            return False
        record.messages.popitem()
        return True
