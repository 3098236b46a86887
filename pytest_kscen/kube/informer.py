"""Informers: keep the cache of a resource by a paged list, then a watch, and a new list when the
watch's version has expired.

A broken watch is opened again at its last version. A new list is compared with the cache,
so that each change is reported exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.kube.api import ForwardingApi, PushWatch
from pytest_kscen.kube.cache import ObjectCache, Ref, is_newer
from pytest_kscen.objects.errors import ApiError, error_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
    from typing import Never

    from pytest_kscen.chance import Chance, Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.actor import RunContext
    from pytest_kscen.kube.api import Api, ApiWrite, Event, Listing
    from pytest_kscen.kube.cache import Handler
    from pytest_kscen.objects.resources import Obj, Resource

T = TypeVar("T")

FIRST_BACKOFF, LONGEST_BACKOFF = 0.8, 30.0
BACKOFF_RESET_TIME = 120.0  # seconds without a failure, after which the back-off is reset
PAGE = 500
MAX_EMPTY_WATCHES = 4  # in a row, that end at once without events; then the informer lists again
WORKING_WATCH_TIME = 60.0  # seconds after which a watch without events counts as working


class Backoff:
    """Delays after failures: longer each time up to a limit, with jitter so that clients do not
    retry at one instant.
    """

    def __init__(self, clock: Clock, jitter: Stream | None) -> None:
        self._clock = clock
        self._jitter = jitter
        self._next = FIRST_BACKOFF
        self._last_failure = 0.0

    async def wait(self) -> None:
        if self._clock.now() - self._last_failure > BACKOFF_RESET_TIME:
            self._next = FIRST_BACKOFF
        seconds = self._next * (self._jitter.between(1, 2) if self._jitter else 1)
        self._next = min(self._next * 2, LONGEST_BACKOFF)
        await self._clock.sleep(seconds)
        self._last_failure = self._clock.now()


class Informer(ObjectCache):
    """Cache of one resource together with the task that keeps it up to date."""

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
        self._empty_watches = 0
        self.refusal = ""
        """Error of the last failed list or watch."""

    async def run(self) -> Never:
        """Follow the resource until it is cancelled."""
        while True:
            try:
                listing = await self._page("")
                items = listing.items
                while listing.continue_token:
                    listing = await self._page(listing.continue_token)
                    items = items + listing.items
                found = {Ref.of(obj): obj for obj in items}
                for ref in [ref for ref in self.objects if ref not in found]:
                    self._remove(ref)
                for ref, obj in found.items():
                    # The object may have been deleted and created again since the last event.
                    before = self.objects[ref]["metadata"] if ref in self.objects else None
                    if before and obj["metadata"]["resourceVersion"] == before["resourceVersion"]:
                        continue
                    if before and obj["metadata"]["uid"] != before["uid"]:
                        self._remove(ref)
                    self._put(ref, obj)
                self._set_version(listing.resource_version)
                await self._follow()
            except (ApiError, OSError) as error:
                self.refusal = str(error)
                await self._backoff.wait()

    async def _page(self, token: str) -> Listing:
        return await self._api.list(
            self.resource, self._namespace, limit=PAGE, continue_token=token, **self._selectors
        )

    async def _follow(self) -> None:
        """Watch, and reopen broken watches at the last version. Returns after MAX_EMPTY_WATCHES;
        a refusal such as 410 is raised.
        """
        while True:
            before, began = self.version, self._clock.now()
            try:
                await self._watch()
            except OSError as error:
                self.refusal = str(error)
            if self.version != before or self._clock.now() - began >= WORKING_WATCH_TIME:
                self._empty_watches = 0
            else:
                self._empty_watches += 1
            if self.version == before:
                await self._backoff.wait()
            if self._empty_watches >= MAX_EMPTY_WATCHES:
                return

    async def _watch(self) -> None:
        watch = self._api.watch(
            self.resource,
            self._namespace,
            resource_version=self.version,
            bookmarks=True,
            **self._selectors,
        )
        try:
            if isinstance(watch, PushWatch):
                await watch.deliver_to(self._handle_event)
                return
            async for event in watch:
                self._handle_event(event)
        finally:
            watch.close()

    def _handle_event(self, event: Event) -> None:
        event_type, obj = event
        if event_type == "ERROR":
            raise error_of(obj)
        version = obj["metadata"]["resourceVersion"]
        if not is_newer(version, self.version):
            return
        if event_type == "DELETED":
            self._remove(Ref.of(obj))
        elif event_type != "BOOKMARK":
            self._put(Ref.of(obj), obj)
        self._set_version(version)


class Informers:
    """Informers by resource, shared by all callers. `run` keeps them up to date until one of them
    crashes.
    """

    def __init__(self, api: Api, clock: Clock, chance: Chance | None = None) -> None:
        self._api = api
        self._clock = clock
        self._chance = chance
        self._informers: dict[Resource, Informer] = {}
        self._tasks: dict[Resource, asyncio.Task[Never]] = {}
        self._crash: asyncio.Future[Never] | None = None

    def of(self, resource: Resource) -> Informer:
        if resource not in self._informers:
            jitter = (
                self._chance.stream(f"informer of {resource.qualified}") if self._chance else None
            )
            self._informers[resource] = Informer(self._api, self._clock, resource, jitter=jitter)
            if self._crash:
                self._start(resource, self._crash.get_loop())
        return self._informers[resource]

    def known(self, resource: Resource) -> Informer | None:
        """Return the resource's informer if one was requested."""
        return self._informers.get(resource)

    def drop(self, resource: Resource) -> None:
        """Stop watching a resource that is no longer served. Keep its listeners, in case it
        returns.
        """
        informer = self._informers[resource]
        informer.release()
        if informer.has_listeners:
            return
        del self._informers[resource]
        if task := self._tasks.pop(resource, None):
            task.cancel()

    def forget(self) -> None:
        """Empty the caches before the informers run again, so that known objects are not
        reported as new.
        """
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
        task = loop.create_task(
            self._informers[resource].run(), name=f"informer of {resource.qualified}"
        )
        self._tasks[resource] = task
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Never]) -> None:
        if (
            not task.cancelled()
            and (error := task.exception())
            and self._crash
            and not self._crash.done()
        ):
            self._crash.set_exception(error)


SHARED_INFORMERS_ACTOR = "onlookers"
"""Name of the actor whose API they use. Recorded journals contain it."""


class SharedInformers(Informers):
    """Informers with one watch of each resource for a whole run, while any listener needs them."""

    _users = 0
    _task: asyncio.Task[None] | None = None

    @classmethod
    def of_run(cls, context: RunContext) -> SharedInformers:
        """Return the shared informers of the tested cluster; the first call makes them."""
        if SHARED_INFORMERS_ACTOR not in context.shared:
            actor = context.actor(SHARED_INFORMERS_ACTOR)
            context.shared[SHARED_INFORMERS_ACTOR] = cls(actor.api, actor.clock, context.chance)
        informers: SharedInformers = context.shared[SHARED_INFORMERS_ACTOR]
        return informers

    def acquire(self) -> asyncio.Task[None]:
        """Add a user, and start watching for the first one. The returned task ends when the last
        user has released the informers, or when a handler has crashed.
        """
        self._users += 1
        if self._task is None or self._task.done():
            self.forget()
            self._task = asyncio.get_running_loop().create_task(
                self.run(), name="informers shared by actors"
            )
        return self._task

    async def release(self) -> None:
        """Remove a user, and stop watching after the last one."""
        self._users -= 1
        if not self._users and self._task:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait((task,))

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[ListenerHandlers]:
        """Acquire the informers for the block, and return the handlers of a new listener."""
        handlers = ListenerHandlers(self.acquire())
        try:
            yield handlers
        finally:
            handlers.close()
            await self.release()


class ListenerHandlers:
    """Handlers of one listener. An exception of one of them ends this listener, and no other
    listener of the shared informers.
    """

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task
        self._crash: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handlers: list[tuple[Informer, Handler]] = []

    def on_change(self, informer: Informer, handler: Handler) -> None:
        def handle(new: Obj | None, old: Obj | None) -> None:
            if self._crash.done():
                return
            try:
                handler(new, old)
            except Exception as error:  # noqa: BLE001  # other listeners go on
                self._crash.set_exception(error)

        self._handlers.append((informer, handle))
        informer.on_change(handle)

    async def run(self) -> None:
        """Run until a handler or the informers crash."""
        await asyncio.wait((self._crash, self._task), return_when=asyncio.FIRST_COMPLETED)
        (self._crash if self._crash.done() else self._task).result()

    def close(self) -> None:
        for informer, handler in self._handlers:
            informer.off_change(handler)


MAX_REMEMBERED_SUBJECTS = 100  # then subjects whose writes the caches show are dropped


class OwnWrites(ForwardingApi):
    """Api that remembers the versions it wrote and the objects it removed, by subject.

    A subject is a controller's reconcile key. The controller waits until the informers show its
    own writes for this key before it reads the caches; writes for other keys do not delay it.
    """

    def __init__(self, api: Api, informers: Informers) -> None:
        super().__init__(api)
        self._informers = informers
        self._subject: Hashable = None
        self._written: dict[Hashable, dict[Resource, str]] = {}
        self._removed: dict[Hashable, list[tuple[Resource, Ref, str]]] = {}

    @property
    def plain(self) -> Api:
        """The wrapped Api, for writes that need not be visible before the next read."""
        return self._api

    async def select_subject(self, subject: Hashable) -> None:
        """Attribute further writes to this subject. Wait first until the caches show earlier writes
        for it.
        """
        if subject in self._written or subject in self._removed:
            await self._wait_until_visible(subject)
        self._subject = subject
        if len(self._written) + len(self._removed) <= MAX_REMEMBERED_SUBJECTS:
            return
        # Drop writes that the caches show: their subjects may never be selected again.
        known = self._informers.known
        for each in [*self._written]:
            seen = ((known(resource), version) for resource, version in self._written[each].items())
            if all(informer is None or informer.has_reached(version) for informer, version in seen):
                del self._written[each]
        for each in [*self._removed]:
            gone = ((known(resource), ref, uid) for resource, ref, uid in self._removed[each])
            if all(informer is None or informer.has_lost(ref, uid) for informer, ref, uid in gone):
                del self._removed[each]

    async def wait_until_visible(self) -> None:
        """Wait until the caches show every write of this Api."""
        for subject in [*self._written, *self._removed]:
            await self._wait_until_visible(subject)

    async def _wait_until_visible(self, subject: Hashable) -> None:
        for resource, version in self._written.pop(subject, {}).items():
            informer = self._informers.known(resource)
            if informer and not informer.has_reached(version):
                await informer.reached(version)
        for resource, ref, uid in self._removed.pop(subject, ()):
            if informer := self._informers.known(resource):
                await informer.lost(ref, uid)

    async def _write(self, write: ApiWrite, send: Callable[[], Awaitable[T]]) -> T:
        answer = await send()
        if not isinstance(answer, dict):
            return answer  # deletecollection returns no object
        if write.verb == "delete" and (uid := (answer.get("details") or {}).get("uid")):
            # a Status: the object is gone, at an unknown version
            removed = self._removed.setdefault(self._subject, [])
            removed.append((write.resource, Ref(write.namespace, write.name), uid))
        version = (answer.get("metadata") or {}).get("resourceVersion", "")
        written = self._written.setdefault(self._subject, {})
        if is_newer(version, written.get(write.resource, "")):
            written[write.resource] = version
        return answer
