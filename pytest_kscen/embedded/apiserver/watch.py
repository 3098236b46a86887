"""watch: what has happened since a revision, then what happens, until the time-out.

A watch is a place in its resource's history and holds nothing of its own: a slow reader costs no
memory, and one that the history has left behind is told that its place is gone. Only a reader who
waits at the end is known to the store. An object that stops matching the selectors is DELETED to
this reader, one that starts to match is ADDED."""

from __future__ import annotations

import asyncio
import contextvars
import math
from typing import TYPE_CHECKING, Self

from pytest_kscen.embedded.apiserver.store import at_revision
from pytest_kscen.embedded.apiserver.verbs.reading import selection_of, too_large, version_in
from pytest_kscen.kube.api import Event
from pytest_kscen.objects.errors import ApiError, Expired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.store import Change
    from pytest_kscen.embedded.apiserver.verbs.reading import Selection
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj

INITIAL_END = {"k8s.io/initial-events-end": "true"}
SHORTEST_LIFE, LONGEST_LIFE = 1800.0, 3600.0  # of a watch that asks for no time-out
LAST_BOOKMARK = 2.0  # before the time-out


def watch(core: Core, kind: Kind, request: Request) -> Subscription:
    options = request.options
    subscription = Subscription(
        core, kind, selection_of(kind, request), bookmarks=options.bookmarks, stays=request.stays
    )
    try:
        since = version_in(options.resource_version or "0")
    except ValueError as error:
        raise ApiError(str(error)) from None
    if options.send_initial_events or (options.send_initial_events is None and not since):
        subscription.begin_with_all(since)
    elif since:
        subscription.begin_after(since)
    if options.timeout is not None and not subscription.is_over:
        subscription.end_in(options.timeout)
    elif not request.stays:
        life = core.chance.stream("watches").between(SHORTEST_LIFE, LONGEST_LIFE)
        subscription.until = core.clock.now() + life
    return subscription


class Subscription:
    """One open watch, at first at the end of the history."""

    def __init__(
        self, core: Core, kind: Kind, selection: Selection, *, bookmarks: bool, stays: bool = False
    ) -> None:
        self.until = math.inf
        self._core, self._store = core, core.store
        self._kind = kind
        self._selection = selection
        self._namespace, self._api_version = selection.namespace, kind.api_version
        self._takes_all = not selection.name and selection.lets_through is None
        self._shelf = core.store.shelf(*kind.home)
        self._position, self._end = self._shelf.end, math.inf
        self._told = self._position
        self._stays = stays
        self._since = core.store.revision
        self._first: Iterator[Event] | None = None
        self._given: Event | None = None
        self._bookmarks, self._bookmark_is_due = bookmarks, False
        self._marked = 0
        self._reader: asyncio.Future[None] | None = None
        self._taker: Callable[[Event], None] | None = None
        self._context: contextvars.Context | None = None  # the reader's
        self._is_called = False
        self._timers: list[asyncio.TimerHandle] = []

    # --- where it begins ---

    def begin_with_all(self, at_least: int) -> None:
        """With what is there, as if it were new."""
        now = self._store.revision
        if at_least > now:
            self._fail(too_large(at_least, now))
            return
        found = list(
            filter(
                self._selection.takes, self._store.all(*self._kind.home, self._selection.namespace)
            )
        )
        self._first = self._initial(found, now)

    def begin_after(self, revision: int) -> None:
        if revision < self._shelf.compacted:
            self._fail(gone(revision, self._shelf.compacted))
        self._since = revision
        self._position = self._told = self._shelf.position_after(revision)

    def _initial(self, found: list[Obj], revision: int) -> Iterator[Event]:
        for obj in found:
            yield Event("ADDED", self._kind.shown(obj))
        if self._bookmarks:
            yield self._bookmark(revision, annotations=INITIAL_END)

    # --- what the store tells of ---

    def notice(self, change: Change) -> None:
        if self._is_called:  # and reads it then
            return
        self._position += 1
        event = self._event(change)
        if event:
            self._given = event
            self._told = self._position
            self._wake()

    @property
    def needs_reminding(self) -> bool:
        """Whoever stays and is told of every change has no use for it."""
        return not (self._stays and (self._takes_all or not self._bookmarks))

    @property
    def is_mortal(self) -> bool:
        return self.until < math.inf

    def remind(self, now: float) -> None:
        if self._is_called:
            return
        if now >= self.until:
            self.expire()
        elif self._bookmarks and self._has_news():
            self._mark()

    def _has_news(self) -> bool:
        """Whether a bookmark would say anything new; to one who stays it does if there were
        changes that he was not told of.
        """
        return self._told != self._position if self._stays else self._marked != self._store.revision

    def _mark(self) -> None:
        if self._bookmarks:
            self._bookmark_is_due = True
            self._wake()

    def _event(self, change: Change) -> Event | None:
        """How this reader sees a change; None if it does not."""
        if change.revision <= self._since:
            return None
        if self._namespace and change.event.object["metadata"].get("namespace") != self._namespace:
            return None
        event = change.event if self._takes_all else self._filtered(change)
        if event is None or event.object["apiVersion"] == self._api_version:
            return event
        return Event(event.type, self._kind.shown(event.object))

    def _filtered(self, change: Change) -> Event | None:
        takes, event, new, old = (
            self._selection.takes,
            change.event,
            change.event.object,
            change.old,
        )
        is_in = event.type != "DELETED" and takes(new)
        was_in = old is not None and takes(old)
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

    # --- how it ends ---

    @property
    def is_over(self) -> bool:
        return self._position >= self._end

    def end_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(seconds, self.expire))
        if self._bookmarks and seconds > LAST_BOOKMARK:
            self._timers.append(loop.call_later(seconds - LAST_BOOKMARK, self._mark))

    def expire(self) -> None:
        """End after what has happened so far."""
        self._end = min(self._end, self._shelf.end)
        self._bookmarks = False
        self._settle()

    def close(self) -> None:
        self._first = self._given = None
        self._end = self._position = 0
        self._settle()

    def _fail(self, refusal: ApiError) -> None:
        self._first = iter([Event("ERROR", refusal.status)])
        self._end = self._position = 0
        self._settle()

    def _settle(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._wake()

    # --- the reader ---

    def _wake(self) -> None:
        """Whoever is called stays where he is told of changes, and reads all that there are by
        then.
        """
        if self._is_called:
            return
        reader = self._reader if self._reader and not self._reader.done() else None
        if reader and self._taker and self._position < self._end:
            self._is_called = True
            reader.get_loop().call_soon(self._hand_over, context=self._context)
            return
        self._leave()
        if reader:
            reader.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while (event := self._next()) is None:
            if self.is_over:
                raise StopAsyncIteration
            self._stand_by()
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._leave()
        return event

    def _stand_by(self) -> None:
        if self._reader is None or self.is_mortal:
            self._core.keep_house()
        self._shelf.idle[self] = None
        if self.needs_reminding:
            self._store.forgetful[self] = None

    def _leave(self) -> None:
        self._shelf.idle.pop(self, None)
        self._store.forgetful.pop(self, None)

    async def hand_to(self, taker: Callable[[Event], None]) -> None:
        """Read to the end for one who does nothing else: he is called where a reader would be
        woken, which costs less.
        """
        self._context = contextvars.copy_context()
        while True:
            while (event := self._next()) is not None:
                taker(event)
            if self.is_over:
                return
            self._stand_by()
            self._taker, self._reader = taker, asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._taker, self._is_called = None, False
                self._leave()

    def _hand_over(self) -> None:
        """What the reader would have done."""
        self._is_called = False
        taker, reader = self._taker, self._reader
        if taker is None or reader is None or reader.done():
            return
        try:
            while (event := self._next()) is not None:
                taker(event)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the reader's
            if not reader.done():
                self._leave()
                reader.set_exception(error)
            return
        if reader.done():
            return
        if self._position >= self._end:
            self._leave()
            reader.set_result(None)
        else:
            idle = self._shelf.idle
            del idle[self]
            idle[self] = None  # who has been told takes his place anew, as plain readers do

    def _next(self) -> Event | None:
        """What can be read without waiting."""
        event = self._given
        if event is not None:
            self._given = None
            return event
        if self._first:
            for event in self._first:
                return event
            self._first = None
        shelf = self._shelf
        if self._position < shelf.forgotten + len(shelf.changes) and (
            event := self._from_history()
        ):
            return event
        return self._due_bookmark() if self._bookmark_is_due else None

    def _from_history(self) -> Event | None:
        shelf = self._shelf
        while (index := self._position - shelf.forgotten) < len(
            shelf.changes
        ) and self._position < self._end:
            if index < 0:
                self._fail(gone(self._since, shelf.compacted))
                return self._next()
            change = shelf.changes[index]
            self._position += 1
            if event := self._event(change):
                self._since = change.revision
                self._told = self._position
                return event
        return None

    def _due_bookmark(self) -> Event:
        self._bookmark_is_due, self._marked = False, self._store.revision
        self._told = self._position
        return self._bookmark(self._marked)


def gone(revision: int, oldest: int) -> Expired:
    return Expired(f"too old resource version: {revision} ({oldest})")
