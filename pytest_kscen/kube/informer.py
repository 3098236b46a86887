"""A local picture of one resource: a list in pages, then a watch, and again from the list when the watch lost its place.

A watch that breaks off is opened again where it stood. What a new list shows is compared with the picture, so handlers
hear (new, old) of each change exactly once, None standing for "not there". They must not wait and must not write.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects.errors import ApiError, error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from typing import Never

    from pytest_kscen.chance import Chance, Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api, Listing
    from pytest_kscen.kube.requests import Event
    from pytest_kscen.objects.resources import Obj, Resource

    Handler = Callable[[Obj | None, Obj | None], None]
    Keys = Callable[[Obj], Iterable[Hashable]]

FIRST_BACKOFF, LONGEST_BACKOFF = 0.8, 30.0
CALM = 120.0  # seconds without a failure, after which back-off begins anew
PAGE = 500


class Ref(NamedTuple):
    """An object's place within its resource."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Obj) -> Ref:
        metadata = obj["metadata"]
        return cls(metadata.get("namespace", ""), metadata["name"])


def age(version: str) -> tuple[int, str]:
    """Resource versions are whole numbers of any length; this orders them."""
    return len(version), version


class Index:
    """The objects of a picture by the keys that a function finds in them."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._shelves: dict[Hashable, dict[Ref, Obj]] = {}

    def of(self, key: Hashable) -> list[Obj]:
        return list(self._shelves.get(key, {}).values())

    def see(self, ref: Ref, new: Obj | None, old: Obj | None) -> None:
        wanted = list(self._keys(new)) if new else []
        for key in self._keys(old) if old else ():
            if key not in wanted:
                del self._shelves[key][ref]
                if not self._shelves[key]:
                    del self._shelves[key]
        for key in wanted:
            self._shelves.setdefault(key, {})[ref] = new  # type: ignore[assignment]  # no key without a new object


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


class Informer:
    """The picture."""

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
        self.resource = resource
        self.objects: dict[Ref, Obj] = {}
        self.version = ""
        self._api = api
        self._namespace = namespace
        self._selectors = {"labels": labels, "fields": fields}
        self._backoff = Backoff(clock, jitter)
        self._handlers: list[Handler] = []
        self._indexes: dict[str, Index] = {}
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    # --- reading the picture ---

    def get(self, name: str, namespace: str = "") -> Obj | None:
        return self.objects.get(Ref(namespace, name))

    def __iter__(self) -> Iterator[Obj]:
        return iter(list(self.objects.values()))

    def index(self, name: str, keys: Keys) -> Index:
        """The index of this name, which all who ask share."""
        if name not in self._indexes:
            index = self._indexes[name] = Index(keys)
            for ref, obj in self.objects.items():
                index.see(ref, obj, None)
        return self._indexes[name]

    def on_change(self, handler: Handler) -> None:
        """Tell this handler of every change, beginning with what is there already."""
        self._handlers.append(handler)
        for obj in self:
            handler(obj, None)

    async def synced(self) -> None:
        """Wait for the first list."""
        await self.reached("")

    async def reached(self, version: str) -> None:
        """Wait until the picture is at least as new as this write."""
        await self._until(lambda: bool(self.version) and age(self.version) >= age(version))

    async def lost(self, ref: Ref, uid: str) -> None:
        """Wait until the picture does not show this object any more."""
        await self._until(lambda: ref not in self.objects or self.objects[ref]["metadata"]["uid"] != uid)

    async def _until(self, held: Callable[[], bool]) -> None:
        if not held():
            future = asyncio.get_running_loop().create_future()
            self._waiting[future] = held
            try:
                await future
            finally:
                self._waiting.pop(future, None)

    def release(self) -> None:
        """Let go of everybody who waits: the picture will not come any further."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    # --- following the resource ---

    async def run(self) -> Never:
        """Follow the resource for ever."""
        while True:
            try:
                await self._list()
                await self._follow()
            except (ApiError, OSError):
                await self._backoff.wait()

    async def _list(self) -> None:
        listing = await self._page("")
        items = listing.items
        while listing.continue_token:
            listing = await self._page(listing.continue_token)
            items = items + listing.items
        found = {Ref.of(obj): obj for obj in items}
        for ref in [ref for ref in self.objects if ref not in found]:
            self._replace(ref, None)
        for ref, obj in found.items():
            self._replace(ref, obj)
        self._stand_at(listing.resource_version)

    async def _page(self, token: str) -> Listing:
        return await self._api.list(self.resource, self._namespace, limit=PAGE, continue_token=token, **self._selectors)

    async def _follow(self) -> Never:
        """Watch, and again from where the last watch broke off; a refusal, such as 410, ends it."""
        while True:
            before = self.version
            with contextlib.suppress(OSError):
                await self._watch()
            if self.version == before:
                await self._backoff.wait()

    async def _watch(self) -> None:
        watch = self._api.watch(self.resource, self._namespace, resource_version=self.version, bookmarks=True, **self._selectors)
        try:
            async for event in watch:
                self._take(event)
        finally:
            watch.close()

    def _take(self, event: Event) -> None:
        if event.type == "ERROR":
            raise error_of(event.object)
        obj = event.object
        version = obj["metadata"]["resourceVersion"]
        if age(version) <= age(self.version):
            return
        if event.type != "BOOKMARK":
            self._replace(Ref.of(obj), None if event.type == "DELETED" else obj)
        self._stand_at(version)

    def _stand_at(self, version: str) -> None:
        self.version = version
        for future, held in list(self._waiting.items()):
            if not future.done() and held():
                future.set_result(None)

    def _replace(self, ref: Ref, new: Obj | None) -> None:
        old = self.objects.get(ref)
        if new is None:
            if old:
                del self.objects[ref]
                self._tell(ref, None, old)
        elif old is None or old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"]:
            if old and old["metadata"]["uid"] != new["metadata"]["uid"]:
                self._replace(ref, None)
                old = None
            self.objects[ref] = new
            self._tell(ref, new, old)

    def _tell(self, ref: Ref, new: Obj | None, old: Obj | None) -> None:
        for index in self._indexes.values():
            index.see(ref, new, old)
        try:
            for handler in self._handlers:
                handler(new, old)
        except (ApiError, OSError) as error:  # which would pass for the server's
            raise RuntimeError(f"a handler of {self.resource.qualified} crashed: {error!r}") from error


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
        """Follow this resource no more: it is served no longer."""
        self._informers.pop(resource).release()
        if task := self._tasks.pop(resource, None):
            task.cancel()

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
