"""Events as client-go's recorder writes them: repeated ones counted, similar ones combined,
floods limited.

A controller reports without waiting. A task writes the events in order while there are any. An
event that the API refuses is lost, as in Kubernetes.
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

CACHE = 4096  # entries that each memory holds at most
ALIKE, ALIKE_WITHIN = (
    10,
    600.0,
)  # so many messages of one reason within so many seconds are combined
IDENTITY = ("kind", "namespace", "name", "uid", "apiVersion")
BURST, REFILL = (
    25,
    300.0,
)  # events that one object may have at once, and seconds until it may have one more


class Recent(Generic[T]):
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
        while len(entries) > CACHE or now - next(iter(entries.values()))[0] > self._lifetime:
            entries.popitem(last=False)


@dataclass(slots=True)
class _Bucket:
    """Token bucket: how many more events an object may have now."""

    tokens: float
    since: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """Event that is being written; its name may still change."""

    metadata: Obj
    first: str
    count: int


class _Memory:
    """Earlier events, by what makes two events equal. Of each only what counting it again needs
    is kept.
    """

    def __init__(self) -> None:
        self._entries: collections.OrderedDict[Hashable, _Seen | str] = collections.OrderedDict()
        self._unwritten: list[Hashable] = []

    def get(self, key: Hashable, metadata: Obj) -> _Seen | None:
        """Return the earlier event of this key, if any. `metadata` is what the event would have
        as the first of its kind; the name of the earlier one differs in its number alone.
        """
        seen = self._entries.get(key)
        if not isinstance(seen, str):
            return seen
        count, first, number = seen.split()
        return _Seen(
            {**metadata, "name": f"{metadata['name'].rpartition('.')[0]}.{number}"},
            first,
            int(count),
        )

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
                self._entries[key] = (
                    f"{seen.count} {seen.first} {seen.metadata['name'].rpartition('.')[2]}"
                )
        self._unwritten.clear()


class Correlator:
    """Decide, like client-go's correlator, what becomes of an event.

    A source may report BURST events about one object, then one every REFILL seconds; more are
    dropped. From the ALIKE-th message of one reason on, messages are combined into one event. A
    repeated message is one more count of its event, any other message a new object.
    """

    def __init__(self) -> None:
        self._buckets: Recent[_Bucket] = Recent(BURST * REFILL)  # then it is full again
        self._alike: Recent[dict[str, None]] = Recent(
            ALIKE_WITHIN
        )  # the messages that were seen for one reason
        self._seen = _Memory()

    def correlate(self, event: Obj, now: float) -> Obj | None:
        """Return the event to write, with name and count of the earlier one if it repeats it;
        None if it is dropped.
        """
        involved = event["involvedObject"]
        about = _mark(
            event["source"].get("host"), event["type"], *(involved.get(part) for part in IDENTITY)
        )
        if not self._may_pass(about, now):
            return None
        message, alike = event["message"], _mark(about, involved.get("fieldPath"), event["reason"])
        key = _mark(alike, message)
        if self._are_many(alike, message, now):
            event, key = {**event, "message": f"(combined from similar events): {message}"}, alike
        seen = self._seen.get(key, event["metadata"])
        if seen:
            event = {
                **event,
                "metadata": seen.metadata,
                "firstTimestamp": seen.first,
                "count": seen.count + 1,
            }
        self._seen.put(key, _Seen(event["metadata"], event["firstTimestamp"], event["count"]))
        return event

    def settle(self) -> None:
        """Note that all pending events have been written."""
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
    """Return a short digest that stands for these parts, since many are kept for long."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


logger = logging.getLogger(__name__)

TRIES, RETRY = 12, 10.0
INSTANCE = "kscen"  # the host of those that report in the newer way


class _Writer:
    """Write events in the order in which they were reported."""

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
                for _ in range(TRIES):
                    try:
                        await self._write(event)
                        break
                    except (ConnectionError, TimeoutError):
                        await self.clock.sleep(RETRY, background=True)
            except ApiError as error:
                logger.debug(
                    "%s: the event %s was refused: %s", self.component, event["reason"], error
                )
        self.correlator.settle()

    async def _write(self, event: Obj) -> None:
        """Add to the count of the event, or create it; if another of the same instant has its
        name, take the next free one.
        """
        metadata = event["metadata"]
        if event.get("count", 1) > 1:
            again = {name: event[name] for name in ("count", "lastTimestamp", "message")}
            try:
                await self._api.patch(EVENTS, metadata["name"], again, metadata["namespace"])
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
    """Recorder that a controller reports with: `recorder.normal(pod, "Started", "Container
    started")`.
    """

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
        """Return the same recorder, reporting from this machine."""
        return EventRecorder(
            self._api, self._writer.clock, self._writer.component, host, writer=self._writer
        )

    def normal(self, about: Obj, reason: str, message: str, *, field_path: str = "") -> None:
        self._report("Normal", about, reason, message, field_path)

    def warning(self, about: Obj, reason: str, message: str, *, field_path: str = "") -> None:
        self._report("Warning", about, reason, message, field_path)

    def did(
        self,
        about: Obj,
        reason: str,
        message: str,
        *,
        action: str,
        kind: str = "Normal",
        related: Obj | None = None,
    ) -> None:
        """Report in the newer form, as the scheduler does: an action, to the microsecond, never
        counted.
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
    """Return an event's name: the object's name and the instant in nanoseconds, of which the
    digits below the microsecond come from the message.
    """
    nanoseconds = int(now * 1_000_000) * 1000 + zlib.crc32(what.encode()) % 1000
    return f"{about}.{nanoseconds:x}"
