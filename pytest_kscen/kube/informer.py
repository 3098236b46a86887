"""How a picture of one resource is kept: a list in pages, then a watch, and again from the list when the watch lost its place.

A watch that breaks off is opened again where it stood. What a new list shows is compared with the picture, so that no
change is told twice and none is missed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.kube.picture import Index, Picture, Ref, age, is_newer
from pytest_kscen.kube.requests import Handing
from pytest_kscen.objects.errors import ApiError, error_of

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.chance import Chance, Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api, Listing
    from pytest_kscen.kube.requests import Event
    from pytest_kscen.objects.resources import Obj, Resource

__all__ = ["Index", "Informer", "Informers", "Ref", "age", "is_newer"]

FIRST_BACKOFF, LONGEST_BACKOFF = 0.8, 30.0
CALM = 120.0  # seconds without a failure, after which back-off begins anew
PAGE = 500
VAIN = 4  # watches that end at once and tell nothing, after which lists do, until one works again
LASTS = 60.0  # seconds after which a watch that told nothing is one that works


class Backoff:
    """How long to wait after a failure: longer each time, up to a limit, with a little chance so that not all come at once."""

    def __init__(self, clock: Clock, jitter: Stream | None) -> None:
        self._clock = clock
        self._jitter = jitter
        self._next = FIRST_BACKOFF
        self._last_failure = 0.0

    async def wait(self) -> None:
        if self._clock.now() - self._last_failure > CALM:
            self._next = FIRST_BACKOFF
        seconds = self._next * (self._jitter.between(1, 2) if self._jitter else 1)
        self._next = min(self._next * 2, LONGEST_BACKOFF)
        await self._clock.sleep(seconds)
        self._last_failure = self._clock.now()


class Informer(Picture):
    """A picture, and the life that keeps it."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        jitter: Stream | None = None,
    ) -> None:
        super().__init__(resource)
        self._api = api
        self._namespace = namespace
        self._selectors = {"labels": labels, "fields": fields}
        self._clock = clock
        self._backoff = Backoff(clock, jitter)
        self._vain = 0
        self.refusal = ""
        """Why the picture could not be had, or followed, when that was tried last."""

    async def run(self) -> Never:
        """Follow the resource for ever."""
        while True:
            try:
                await self._list()
                await self._follow()
            except (ApiError, OSError) as error:
                self.refusal = str(error)
                await self._backoff.wait()

    async def _list(self) -> None:
        listing = await self._page("")
        items = listing.items
        while listing.continue_token:
            listing = await self._page(listing.continue_token)
            items = items + listing.items
        found = {Ref.of(obj): obj for obj in items}
        for ref in [ref for ref in self.objects if ref not in found]:
            self._remove(ref)
        for ref, obj in found.items():
            self._find(ref, obj)
        self._stand_at(listing.resource_version)

    def _find(self, ref: Ref, obj: Obj) -> None:
        """A list shows no more than what has become of an object: nothing, or it is another one now."""
        if before := self.objects.get(ref):
            was, now = before["metadata"], obj["metadata"]
            if now["resourceVersion"] == was["resourceVersion"]:
                return
            if now["uid"] != was["uid"]:
                self._remove(ref)
        self._put(ref, obj)

    async def _page(self, token: str) -> Listing:
        return await self._api.list(self.resource, self._namespace, limit=PAGE, continue_token=token, **self._selectors)

    async def _follow(self) -> None:
        """Watch, and again from where the last one broke off; a refusal, such as 410, ends it; so do watches that tell nothing."""
        while True:
            before, began = self.version, self._clock.now()
            try:
                await self._watch()
            except OSError as error:
                self.refusal = str(error)
            if self.version != before or self._clock.now() - began >= LASTS:
                self._vain = 0
            else:
                self._vain += 1
            if self.version == before:
                await self._backoff.wait()
            if self._vain >= VAIN:
                return

    async def _watch(self) -> None:
        watch = self._api.watch(self.resource, self._namespace, resource_version=self.version, bookmarks=True, **self._selectors)
        try:
            if isinstance(watch, Handing):
                await watch.hand_to(self._take)
                return
            async for event in watch:
                self._take(event)
        finally:
            watch.close()

    def _take(self, event: Event) -> None:
        what, obj = event
        if what == "ERROR":
            raise error_of(obj)
        version = obj["metadata"]["resourceVersion"]
        if not is_newer(version, self.version):
            return
        if what == "DELETED":
            self._remove(Ref.of(obj))
        elif what != "BOOKMARK":
            self._put(Ref.of(obj), obj)
        self._stand_at(version)


class Informers:
    """One informer for each resource, shared by all who ask. Running it keeps them all alive; a crash of one ends it."""

    def __init__(self, api: Api, clock: Clock, chance: Chance | None = None) -> None:
        self._api = api
        self._clock = clock
        self._chance = chance
        self._informers: dict[Resource, Informer] = {}
        self._tasks: dict[Resource, asyncio.Task[Never]] = {}
        self._crash: asyncio.Future[Never] | None = None

    def of(self, resource: Resource) -> Informer:
        if resource not in self._informers:
            jitter = self._chance.stream(f"informer of {resource.qualified}") if self._chance else None
            self._informers[resource] = Informer(self._api, self._clock, resource, jitter=jitter)
            if self._crash:
                self._start(resource, self._crash.get_loop())
        return self._informers[resource]

    def known(self, resource: Resource) -> Informer | None:
        """The informer, if somebody has asked for it."""
        return self._informers.get(resource)

    def drop(self, resource: Resource) -> None:
        """Follow this resource no more, which is served no longer; but for those who are still told of it, should it come back."""
        informer = self._informers[resource]
        informer.release()
        if informer.has_listeners:
            return
        del self._informers[resource]
        if task := self._tasks.pop(resource, None):
            task.cancel()

    def forget(self) -> None:
        """What was seen before they run anew is no news then."""
        for informer in self._informers.values():
            informer.forget()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._crash = loop.create_future()
        try:
            for resource in list(self._informers):
                self._start(resource, loop)
            await self._crash
        finally:
            self._crash = None
            while self._tasks:
                self._tasks.popitem()[1].cancel()

    def _start(self, resource: Resource, loop: asyncio.AbstractEventLoop) -> None:
        task = loop.create_task(self._informers[resource].run(), name=f"informer of {resource.qualified}")
        self._tasks[resource] = task
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Never]) -> None:
        if not task.cancelled() and (error := task.exception()) and self._crash and not self._crash.done():
            self._crash.set_exception(error)
