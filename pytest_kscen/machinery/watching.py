"""watch: what has happened since a revision, then what happens, until the time-out.

The store shows a subscription each change at once; it keeps what its selectors let through and wakes its reader, who
may be far behind. An object that stops matching is DELETED to this reader, one that starts to match is ADDED.
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Self

from pytest_kscen.kube.requests import Event
from pytest_kscen.objects.errors import Expired
from pytest_kscen.objects.selectors import predicate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.store import Change, Shelf
    from pytest_kscen.objects.resources import Obj


def watch(core: Core, request: Request) -> Subscription:
    resource = core.kind_of(request).resource
    shelf = core.store.shelf(resource.group, resource.plural)
    subscription = Subscription(shelf, request.namespace, predicate(request.options.labels, request.options.fields))
    start = request.options.resource_version
    if start in {"", "0"}:
        for obj in core.store.all(resource.group, resource.plural, request.namespace):
            subscription.offer("ADDED", obj, None)
    else:
        if int(start) < shelf.compacted:
            raise Expired(f"too old resource version: {start} ({shelf.compacted})")
        for change in shelf.history:
            if change.revision > int(start):
                subscription.see(change)
    if request.options.timeout is not None:
        subscription.end_after(request.options.timeout)
    return subscription


class Subscription:
    """One open watch."""

    def __init__(self, shelf: Shelf, namespace: str, lets_through: Callable[[Obj], bool] | None) -> None:
        self._shelf = shelf
        self._namespace = namespace
        self._lets_through = lets_through
        self._events: collections.deque[Event] = collections.deque()
        self._reader: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._open = True
        shelf.listeners.append(self.see)

    def see(self, change: Change) -> None:
        if not self._namespace or change.new["metadata"].get("namespace") == self._namespace:
            self.offer(change.type, change.new, change.old)

    def offer(self, type_: str, new: Obj, old: Obj | None) -> None:
        if self._lets_through:
            matched = old is not None and self._lets_through(old)
            if type_ == "DELETED" or not self._lets_through(new):
                if not matched:
                    return
                type_ = "DELETED"
            else:
                type_ = "MODIFIED" if matched else "ADDED"
        self._events.append(Event(type_, new))
        self._wake()

    def end_after(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.close)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._shelf.listeners.remove(self.see)
            if self._timer:
                self._timer.cancel()
            self._wake()

    def _wake(self) -> None:
        if self._reader and not self._reader.done():
            self._reader.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if not self._open:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._events.popleft()
