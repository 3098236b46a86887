"""The watch verb: past changes since a revision, then live changes until the timeout.

A watch is a position in its resource's history and buffers nothing, so a slow reader costs no
memory; one that falls behind the dropped history ends with Expired. Only a reader waiting at the
end is registered in the store. An object that stops matching the selectors is sent as DELETED, one
that starts to match as ADDED. Called by `server.ApiServer.watch`.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from typing import TYPE_CHECKING, Self

from pytest_kscen.embedded.apiserver.store import at_revision
from pytest_kscen.embedded.apiserver.verbs.reading import (
    parse_version,
    selection_of,
    version_too_large,
)
from pytest_kscen.kube.api import Event
from pytest_kscen.objects.errors import ApiError, Expired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.store import StoreChange
    from pytest_kscen.embedded.apiserver.verbs.reading import ObjectSelection
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj

INITIAL_END = {"k8s.io/initial-events-end": "true"}
# seconds; the range of timeouts for watches without one
SHORTEST_TIMEOUT, LONGEST_TIMEOUT = 1800.0, 3600.0
LAST_BOOKMARK = 2.0  # seconds before the timeout


def watch(core: Core, kind: Kind, request: Request) -> Subscription:
    options = request.options
    subscription = Subscription(
        core,
        kind,
        selection_of(kind, request),
        bookmarks=options.bookmarks,
        unlimited=request.unlimited,
    )
    try:
        since = parse_version(options.resource_version or "0")
    except ValueError as error:
        raise ApiError(str(error)) from None
    if options.send_initial_events or (options.send_initial_events is None and not since):
        subscription.start_with_list(since)
    elif since:
        subscription.start_after(since)
    if options.timeout is not None and not subscription.ended:
        subscription.end_after(options.timeout)
    elif not request.unlimited:
        life = core.chance.stream("watches").between(SHORTEST_TIMEOUT, LONGEST_TIMEOUT)
        subscription.deadline = core.clock.now() + life
    return subscription


class Subscription:
    """Open watch; starts at the end of the history unless positioned elsewhere.

    Implements `kube.api.Watch` for the reader and `store.Listener` for the store. A watch with
    `unlimited` (of an actor in this process) has no deadline.
    """

    def __init__(
        self,
        core: Core,
        kind: Kind,
        selection: ObjectSelection,
        *,
        bookmarks: bool,
        unlimited: bool = False,
    ) -> None:
        self.deadline = math.inf
        self._core, self._store = core, core.store
        self._kind = kind
        self._selection = selection
        self._namespace, self._api_version = selection.namespace, kind.api_version
        self._matches_all = not selection.name and selection.condition is None
        self._resource_store = core.store.resource_store(*kind.home)
        self._position, self._end = self._resource_store.end, math.inf
        self._sent_position = self._position
        self._permanent = unlimited
        self._since = core.store.revision
        self._initial_events: Iterator[Event] | None = None
        self._pending_event: Event | None = None
        self._bookmarks, self._bookmark_is_due = bookmarks, False
        self._bookmarked_revision = 0
        self._reader: asyncio.Future[None] | None = None
        self._callback: Callable[[Event], None] | None = None
        self._context: contextvars.Context | None = None  # the reader's context variables
        self._delivery_scheduled = False
        self._timers: list[asyncio.TimerHandle] = []

    # Start position.

    def start_with_list(self, at_least: int) -> None:
        """Send all present objects as ADDED first; fails if the store is older than `at_least`."""
        now = self._store.revision
        if at_least > now:
            self._fail(version_too_large(at_least, now))
            return
        found = list(
            filter(
                self._selection.matches,
                self._store.all(*self._kind.home, self._selection.namespace),
            )
        )
        self._initial_events = self._initial(found, now)

    def start_after(self, revision: int) -> None:
        if revision < self._resource_store.compacted:
            self._fail(expired_error(revision, self._resource_store.compacted))
        self._since = revision
        self._position = self._sent_position = self._resource_store.position_after(revision)

    def _initial(self, found: list[Obj], revision: int) -> Iterator[Event]:
        for obj in found:
            yield Event("ADDED", self._kind.to_served(obj))
        if self._bookmarks:
            yield self._bookmark(revision, annotations=INITIAL_END)

    # Changes from the store.

    def on_change(self, change: StoreChange) -> None:
        if self._delivery_scheduled:  # the scheduled delivery reads it
            return
        self._position += 1
        event = self._event(change)
        if event:
            self._pending_event = event
            self._sent_position = self._position
            self._wake()

    @property
    def needs_ticks(self) -> bool:
        """True if the store must tick this watch, for its deadline or for bookmarks.

        A permanent watch needs no ticks if it receives every change or no bookmarks.
        """
        return not (self._permanent and (self._matches_all or not self._bookmarks))

    @property
    def has_deadline(self) -> bool:
        return self.deadline < math.inf

    def on_tick(self, now: float) -> None:
        if self._delivery_scheduled:
            return
        if now >= self.deadline:
            self.expire()
        elif self._bookmarks and (
            self._sent_position != self._position
            if self._permanent
            else self._bookmarked_revision != self._store.revision
        ):
            self._request_bookmark()

    def _request_bookmark(self) -> None:
        if self._bookmarks:
            self._bookmark_is_due = True
            self._wake()

    def _event(self, change: StoreChange) -> Event | None:
        """Return a change as this reader sees it, or None if it does not match."""
        if change.revision <= self._since:
            return None
        if self._namespace and change.event.object["metadata"].get("namespace") != self._namespace:
            return None
        event = change.event if self._matches_all else self._filtered(change)
        if event is None or event.object["apiVersion"] == self._api_version:
            return event
        return Event(event.type, self._kind.to_served(event.object))

    def _filtered(self, change: StoreChange) -> Event | None:
        matches, event, new, old = (
            self._selection.matches,
            change.event,
            change.event.object,
            change.old,
        )
        is_in = event.type != "DELETED" and matches(new)
        was_in = old is not None and matches(old)
        if is_in and (was_in or event.type == "ADDED"):
            return event
        if is_in:
            return Event("ADDED", new)
        if was_in:
            return Event(
                "DELETED",
                new if event.type == "DELETED" else at_revision(old or new, change.revision),
            )
        return None

    def _bookmark(self, revision: int, **metadata: Obj) -> Event:
        head = {"kind": self._kind.resource.kind, "apiVersion": self._kind.api_version}
        return Event(
            "BOOKMARK", {**head, "metadata": {"resourceVersion": str(revision), **metadata}}
        )

    # End.

    @property
    def ended(self) -> bool:
        return self._position >= self._end

    def end_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(seconds, self.expire))
        if self._bookmarks and seconds > LAST_BOOKMARK:
            self._timers.append(loop.call_later(seconds - LAST_BOOKMARK, self._request_bookmark))

    def expire(self) -> None:
        """End the watch after the changes that are committed now; the reader still
        receives these.
        """
        self._end = min(self._end, self._resource_store.end)
        self._bookmarks = False
        self._cancel_timers()

    def close(self) -> None:
        self._initial_events = self._pending_event = None
        self._end = self._position = 0
        self._cancel_timers()

    def _fail(self, refusal: ApiError) -> None:
        self._initial_events = iter([Event("ERROR", refusal.status)])
        self._end = self._position = 0
        self._cancel_timers()

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._wake()

    # The reader.

    def _wake(self) -> None:
        """Resume the reader, or schedule its callback.

        With a callback the subscription stays registered until the delivery, which reads all
        changes up to then.
        """
        if self._delivery_scheduled:
            return
        reader = self._reader if self._reader and not self._reader.done() else None
        if reader and self._callback and self._position < self._end:
            self._delivery_scheduled = True
            reader.get_loop().call_soon(self._deliver, context=self._context)
            return
        self._detach()
        if reader:
            reader.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while (event := self._next()) is None:
            if self.ended:
                raise StopAsyncIteration
            self._attach()
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._detach()
        return event

    def _attach(self) -> None:
        if self._reader is None or self.has_deadline:
            self._core.start_housekeeping()
        self._resource_store.listeners[self] = None
        if self.needs_ticks:
            self._store.timed_listeners[self] = None

    def _detach(self) -> None:
        self._resource_store.listeners.pop(self, None)
        self._store.timed_listeners.pop(self, None)

    async def deliver_to(self, callback: Callable[[Event], None]) -> None:
        """Read to the end and pass each event to a callback.

        Cheaper than iteration, as no task is resumed per event. The callback runs in the reader's
        context and must not wait; its exception ends the watch.
        """
        self._context = contextvars.copy_context()
        while True:
            while (event := self._next()) is not None:
                callback(event)
            if self.ended:
                return
            self._attach()
            self._callback, self._reader = callback, asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._callback, self._delivery_scheduled = None, False
                self._detach()

    def _deliver(self) -> None:
        """Pass the waiting events to the callback, in place of resuming the reader's task."""
        self._delivery_scheduled = False
        callback, reader = self._callback, self._reader
        if callback is None or reader is None or reader.done():
            return
        try:
            while (event := self._next()) is not None:
                callback(event)
        except Exception as error:  # noqa: BLE001  # passed to the reader
            if not reader.done():
                self._detach()
                reader.set_exception(error)
            return
        if reader.done():
            return
        if self._position >= self._end:
            self._detach()
            reader.set_result(None)
        else:
            listeners = self._resource_store.listeners
            del listeners[self]
            listeners[self] = (
                None  # moves to the end of the order, as a reader that registers again does
            )

    def _next(self) -> Event | None:
        """Return the next event that needs no waiting, or None at the end of the history.

        Order: the event just noticed, the initial list, the history, a due bookmark.
        """
        event = self._pending_event
        if event is not None:
            self._pending_event = None
            return event
        if self._initial_events:
            for event in self._initial_events:
                return event
            self._initial_events = None
        resource_store = self._resource_store
        while (index := self._position - resource_store.forgotten) < len(
            resource_store.changes
        ) and self._position < self._end:
            if index < 0:
                self._fail(expired_error(self._since, resource_store.compacted))
                return self._next()
            change = resource_store.changes[index]
            self._position += 1
            if event := self._event(change):
                self._since = change.revision
                self._sent_position = self._position
                return event
        if not self._bookmark_is_due:
            return None
        self._bookmark_is_due, self._bookmarked_revision = False, self._store.revision
        self._sent_position = self._position
        return self._bookmark(self._bookmarked_revision)


def expired_error(revision: int, oldest: int) -> Expired:
    return Expired(f"too old resource version: {revision} ({oldest})")
