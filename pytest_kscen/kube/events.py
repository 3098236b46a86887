"""Events as client-go's recorder writes them: what happens again is counted, what is alike is combined, a flood is cut.

A controller reports without waiting; what it reports is written in order by a task that lives while there is something
to write. An event that the API refuses is lost, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import zlib
from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.kube.correlation import Correlator
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import EVENTS

if TYPE_CHECKING:
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

logger = logging.getLogger(__name__)

TRIES, RETRY = 12, 10.0
INSTANCE = "kscen"  # the host of those that report in the newer way


class _Writer:
    """Writes events in the order in which they were reported."""

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
                await self._insist(event)
            except ApiError as error:
                logger.debug("%s: the event %s was refused: %s", self.component, event["reason"], error)
        self.correlator.settle()

    async def _insist(self, event: Obj) -> None:
        for _ in range(TRIES):
            try:
                return await self._write(event)
            except (ConnectionError, TimeoutError):
                await self.clock.sleep(RETRY, background=True)
        return None

    async def _write(self, event: Obj) -> None:
        metadata = event["metadata"]
        if event.get("count", 1) > 1:
            again = {name: event[name] for name in ("count", "lastTimestamp", "message")}
            try:
                await self._api.patch(EVENTS, metadata["name"], again, metadata["namespace"])
            except NotFound:
                pass
            else:
                return
        await self._create(event)

    async def _create(self, event: Obj) -> None:
        """Two events of one instant may have drawn one name: the later takes the next free one."""
        metadata = event["metadata"]
        while True:
            try:
                await self._api.create(EVENTS, event)
            except AlreadyExists:
                stem, _, number = metadata["name"].rpartition(".")
                metadata["name"] = f"{stem}.{int(number, 16) + 1:x}"
            else:
                return


class Recorder:
    """What a controller reports with: `recorder.normal(pod, "Started", "Container started")`."""

    def __init__(self, api: Api, clock: Clock, component: str, host: str = "", *, writer: _Writer | None = None) -> None:
        self._writer = writer or _Writer(api, clock, component)
        self._source = {"component": component, **({"host": host} if host else {})}
        self._api = api

    def on(self, host: str) -> Recorder:
        """The same recorder, reporting from this machine."""
        return Recorder(self._api, self._writer.clock, self._writer.component, host, writer=self._writer)

    def normal(self, about: Obj, reason: str, message: str, *, field_path: str = "") -> None:
        self._report("Normal", about, reason, message, field_path)

    def warning(self, about: Obj, reason: str, message: str, *, field_path: str = "") -> None:
        self._report("Warning", about, reason, message, field_path)

    def did(self, about: Obj, reason: str, message: str, *, action: str, kind: str = "Normal", related: Obj | None = None) -> None:
        """Report in the newer way, as the scheduler does: what was done, to the microsecond, and nothing is counted."""
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
        name = event_name(involved["name"], self._writer.clock.now(), f"{self._source}/{reason}/{message}")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": involved.get("namespace", "default")},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
        }


def reference_to(obj: Obj, field_path: str = "") -> Obj:
    """An ObjectReference."""
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
    """The object's name and the instant in nanoseconds; below the microsecond stands what was said, not when."""
    nanoseconds = int(now * 1_000_000) * 1000 + zlib.crc32(what.encode()) % 1000
    return f"{about}.{nanoseconds:x}"
