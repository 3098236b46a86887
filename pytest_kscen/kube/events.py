"""Event recorder that follows client-go: repeated events are counted, similar ones combined, and
their rate is limited.

A controller reports without waiting. A task writes the queued events in order. An event that the
API refuses is lost, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
import collections
import hashlib
import logging
import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kscen.clock import timestamp_of
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj


T = TypeVar("T")

MAX_ENTRIES = 4096  # of each cache
SIMILAR_LIMIT, SIMILAR_PERIOD = (
    10,
    600.0,
)  # number of messages of one reason, and seconds, from which on they are combined
IDENTITY = ("kind", "namespace", "name", "uid", "apiVersion")
BURST, REFILL_TIME = (
    25,
    300.0,
)  # events per object at once, and seconds until one more is allowed


class ExpiringDict(Generic[T]):
    """Dict that drops entries older than a limit, and the oldest when there are too many."""

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        self._entries: collections.OrderedDict[Hashable, tuple[float, T]] = (
            collections.OrderedDict()
        )

    def get(self, key: Hashable, now: float) -> T | None:
        since, value = self._entries.get(key, (-math.inf, None))
        return value if now - since <= self._lifetime else None

    def put(self, key: Hashable, value: T, now: float) -> None:
        entries = self._entries
        entries[key] = now, value
        entries.move_to_end(key)
        while len(entries) > MAX_ENTRIES or now - next(iter(entries.values()))[0] > self._lifetime:
            entries.popitem(last=False)


@dataclass(slots=True)
class _Bucket:
    """Token bucket: number of events that an object may still have now."""

    tokens: float
    since: float


@dataclass(frozen=True, slots=True)
class _CachedEvent:
    """Earlier event. Its metadata is shared with the event in the queue, since the writer may still
    change its name.
    """

    metadata: Obj
    first: str
    count: int


class _EventCache:
    """Earlier events by a digest of the fields in which repeated events are equal. Of a written
    event only a short text is kept: count, first timestamp and number.
    """

    def __init__(self) -> None:
        self._entries: collections.OrderedDict[Hashable, _CachedEvent | str] = (
            collections.OrderedDict()
        )
        self._unwritten: list[Hashable] = []

    def get(self, key: Hashable, metadata: Obj) -> _CachedEvent | None:
        """Return the earlier event of this key, if any. `metadata` is that of the new event: the
        earlier one's name differs only in its number.
        """
        earlier = self._entries.get(key)
        if not isinstance(earlier, str):
            return earlier
        count, first, number = earlier.split()
        return _CachedEvent(
            {**metadata, "name": f"{metadata['name'].rpartition('.')[0]}.{number}"},
            first,
            int(count),
        )

    def put(self, key: Hashable, earlier: _CachedEvent) -> None:
        self._entries[key] = earlier
        self._entries.move_to_end(key)
        self._unwritten.append(key)
        if len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)

    def mark_written(self) -> None:
        for key in self._unwritten:
            earlier = self._entries.get(key)
            if isinstance(earlier, _CachedEvent):
                self._entries[key] = (
                    f"{earlier.count} {earlier.first} {earlier.metadata['name'].rpartition('.')[2]}"
                )
        self._unwritten.clear()


class Correlator:
    """Count, combine or drop events, like client-go's correlator.

    A source may report BURST events about one object, then one every REFILL_TIME seconds; more are
    dropped. From the SIMILAR_LIMIT-th message of one reason on, messages are combined into one
    event. A repeated message increases the count of its event; any other message is a new event.
    """

    def __init__(self) -> None:
        self._buckets: ExpiringDict[_Bucket] = ExpiringDict(
            BURST * REFILL_TIME
        )  # after that time a bucket is full again
        self._alike: ExpiringDict[dict[str, None]] = ExpiringDict(
            SIMILAR_PERIOD
        )  # the messages that were seen for one reason
        self._earlier = _EventCache()

    def correlate(self, event: Obj, now: float) -> Obj | None:
        """Return the event to write, with name and count of the earlier one if it repeats it;
        None if it is dropped.
        """
        involved = event["involvedObject"]
        about = _digest(
            event["source"].get("host"), event["type"], *(involved.get(part) for part in IDENTITY)
        )
        if not self._may_pass(about, now):
            return None
        message, alike = (
            event["message"],
            _digest(about, involved.get("fieldPath"), event["reason"]),
        )
        key = _digest(alike, message)
        if self._are_many(alike, message, now):
            event, key = {**event, "message": f"(combined from similar events): {message}"}, alike
        earlier = self._earlier.get(key, event["metadata"])
        if earlier:
            event = {
                **event,
                "metadata": earlier.metadata,
                "firstTimestamp": earlier.first,
                "count": earlier.count + 1,
            }
        self._earlier.put(
            key, _CachedEvent(event["metadata"], event["firstTimestamp"], event["count"])
        )
        return event

    def mark_written(self) -> None:
        """Note that all pending events have been written."""
        self._earlier.mark_written()

    def _may_pass(self, about: Hashable, now: float) -> bool:
        bucket = self._buckets.get(about, now) or _Bucket(BURST, now)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.since) / REFILL_TIME)
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
        if len(messages) < SIMILAR_LIMIT:
            return False
        messages.popitem()
        return True


def _digest(*parts: object) -> bytes:
    """Return a digest of these parts: a short key, since many are kept for long."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


logger = logging.getLogger(__name__)

ATTEMPTS, RETRY_DELAY = 12, 10.0
INSTANCE = "kscen"  # suffix of reportingInstance in events of the newer form


class _Writer:
    """Queue of one component's events, written in the order in which they were reported."""

    def __init__(self, api: Api, clock: Clock, component: str) -> None:
        self.component = component
        self.clock = clock
        self.correlator = Correlator()
        self._api = api
        self._queue: collections.deque[Obj] = collections.deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, event: Obj) -> None:
        self._queue.append(event)
        if self._task is None or self._task.done():
            name = f"events of {self.component}"
            self._task = asyncio.get_running_loop().create_task(self._drain(), name=name)

    async def _drain(self) -> None:
        while self._queue:
            event = self._queue.popleft()
            try:
                for _ in range(ATTEMPTS):
                    try:
                        await self._write(event)
                        break
                    except (ConnectionError, TimeoutError):
                        await self.clock.sleep(RETRY_DELAY, background=True)
            except ApiError as error:
                logger.debug(
                    "%s: the event %s was refused: %s", self.component, event["reason"], error
                )
        self.correlator.mark_written()

    async def _write(self, event: Obj) -> None:
        """Increase the count of the event, or create it. If its name is in use by an event of the
        same instant, use the next free name.
        """
        metadata = event["metadata"]
        if event.get("count", 1) > 1:
            changes = {name: event[name] for name in ("count", "lastTimestamp", "message")}
            try:
                await self._api.patch(EVENTS, metadata["name"], changes, metadata["namespace"])
            except NotFound:
                pass
            else:
                return
        while True:
            try:
                await self._api.create(EVENTS, event)
            except AlreadyExists:
                stem, _, number = metadata["name"].rpartition(".")
                metadata["name"] = f"{stem}.{int(number, 16) + 1:x}"
            else:
                return


class EventRecorder:
    """Recorder of a controller's events: `recorder.normal(pod, "Started", "Container started")`."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        component: str,
        host: str = "",
        *,
        writer: _Writer | None = None,
    ) -> None:
        self._writer = writer or _Writer(api, clock, component)
        self._source = {"component": component, **({"host": host} if host else {})}
        self._api = api

    def on(self, host: str) -> EventRecorder:
        """Return the same recorder with this machine as the source."""
        return EventRecorder(
            self._api, self._writer.clock, self._writer.component, host, writer=self._writer
        )

    def normal(self, about: Obj, reason: str, message: str, *, field_path: str = "") -> None:
        self._report("Normal", about, reason, message, field_path)

    def warning(self, about: Obj, reason: str, message: str, *, field_path: str = "") -> None:
        self._report("Warning", about, reason, message, field_path)

    def report_action(
        self,
        about: Obj,
        reason: str,
        message: str,
        *,
        action: str,
        kind: str = "Normal",
        related: Obj | None = None,
    ) -> None:
        """Report in the newer form, as the scheduler does: with an action and a time in
        microseconds, never counted.
        """
        component = self._source["component"]
        event = self._event(about, reason, message, "")
        event |= {
            "eventTime": timestamp_of(self._writer.clock.now(), micro=True),
            "action": action,
            "type": kind,
            "reportingComponent": component,
            "reportingInstance": f"{component}-{INSTANCE}",
        }
        if related is not None:
            event["related"] = reference_to(related)
        self._writer.put(event)

    def _report(self, kind: str, about: Obj, reason: str, message: str, field_path: str) -> None:
        now = self._writer.clock.now()
        stamp = timestamp_of(now)
        event = self._event(about, reason, message, field_path)
        event |= {
            "source": self._source,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "type": kind,
            "reportingComponent": self._source["component"],
            "reportingInstance": self._source.get("host", ""),
        }
        if correlated := self._writer.correlator.correlate(event, now):
            self._writer.put(correlated)

    def _event(self, about: Obj, reason: str, message: str, field_path: str) -> Obj:
        involved = reference_to(about, field_path)
        name = event_name(
            involved["name"], self._writer.clock.now(), f"{self._source}/{reason}/{message}"
        )
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": involved.get("namespace", "default")},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
        }


def reference_to(obj: Obj, field_path: str = "") -> Obj:
    """Return an ObjectReference to this object."""
    metadata = obj["metadata"]
    reference = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
        "fieldPath": field_path,
    }
    return {name: value for name, value in reference.items() if value}


def event_name(about: str, now: float, what: str) -> str:
    """Return an event's name: the object's name and the instant in nanoseconds. The digits below
    the microsecond are a checksum of the message.
    """
    nanoseconds = int(now * 1_000_000) * 1000 + zlib.crc32(what.encode()) % 1000
    return f"{about}.{nanoseconds:x}"
