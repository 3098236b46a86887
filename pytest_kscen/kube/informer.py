"""A local picture of one resource: a list, then a watch, and again from the list when the watch has lost its place.

Handlers are told (new, old) of each change, None standing for "not there". They must not wait and must not write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects.errors import ApiError, error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj, Resource

    Handler = Callable[[Obj | None, Obj | None], None]

FIRST_BACKOFF, LONGEST_BACKOFF = 0.8, 30.0


class Ref(NamedTuple):
    """An object's place within its resource."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Obj) -> Ref:
        metadata = obj["metadata"]
        return cls(metadata.get("namespace", ""), metadata["name"])


class Informer:
    """The picture."""

    def __init__(
        self, api: Api, clock: Clock, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> None:
        self.resource = resource
        self.objects: dict[Ref, Obj] = {}
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._selectors = {"labels": labels, "fields": fields}
        self._handlers: list[Handler] = []
        self._synced = asyncio.Event()

    def get(self, name: str, namespace: str = "") -> Obj | None:
        return self.objects.get(Ref(namespace, name))

    def __iter__(self) -> Iterator[Obj]:
        return iter(list(self.objects.values()))

    def on_change(self, handler: Handler) -> None:
        """Tell this handler of every change, beginning with what is there already."""
        self._handlers.append(handler)
        for obj in self:
            handler(obj, None)

    async def synced(self) -> None:
        """Wait for the first list."""
        await self._synced.wait()

    async def run(self) -> Never:
        """Follow the resource for ever."""
        backoff = FIRST_BACKOFF
        while True:
            try:
                version = await self._list()
                backoff = FIRST_BACKOFF
                await self._follow(version)
            except (ApiError, ConnectionError, TimeoutError):
                await self._clock.sleep(backoff)
                backoff = min(backoff * 2, LONGEST_BACKOFF)

    async def _list(self) -> str:
        listing = await self._api.list(self.resource, self._namespace, **self._selectors)
        found = {Ref.of(obj): obj for obj in listing.items}
        for ref in [ref for ref in self.objects if ref not in found]:
            self._replace(ref, None)
        for ref, obj in found.items():
            self._replace(ref, obj)
        self._synced.set()
        return listing.resource_version

    async def _follow(self, version: str) -> None:
        while True:
            watch = self._api.watch(self.resource, self._namespace, resource_version=version, bookmarks=True, **self._selectors)
            try:
                async for event in watch:
                    if event.type == "ERROR":
                        raise error_of(event.object)
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK":
                        self._replace(Ref.of(event.object), None if event.type == "DELETED" else event.object)
            finally:
                watch.close()
            await self._clock.sleep(FIRST_BACKOFF)

    def _replace(self, ref: Ref, new: Obj | None) -> None:
        old = self.objects.get(ref)
        if new is None:
            self.objects.pop(ref, None)
        else:
            if old and old["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]:
                return
            self.objects[ref] = new
        for handler in self._handlers:
            handler(new, old)


class Informers:
    """One informer for each resource, shared by all who ask."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._informers: dict[Resource, Informer] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def of(self, resource: Resource) -> Informer:
        if resource not in self._informers:
            informer = self._informers[resource] = Informer(self._api, self._clock, resource)
            self._tasks.append(asyncio.get_running_loop().create_task(informer.run(), name=f"informer of {resource.qualified}"))
        return self._informers[resource]
