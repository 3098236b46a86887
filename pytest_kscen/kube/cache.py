"""Cache of one resource: its objects, indexes of them, their version, and handlers of changes.

A handler is called exactly once for each change with (new, old), None for an object that is
absent. It must not wait and must not write. An informer fills the cache; controllers read it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj, Resource

    Handler = Callable[[Obj | None, Obj | None], None]
    Keys = Callable[[Obj], Iterable[Hashable]]


class Ref(NamedTuple):
    """Namespace and name of an object within its resource."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Obj) -> Ref:
        metadata = obj["metadata"]
        return tuple.__new__(
            cls, (metadata.get("namespace", ""), metadata["name"])
        )  # twice as fast as cls(...), and called for every event


def version_key(version: str) -> tuple[int, str]:
    """Return a sort key for a resource version, which is a whole number of any length."""
    return len(version), version


def is_newer(version: str, other: str) -> bool:
    """Return True if the first version is later."""
    return version > other if len(version) == len(other) else len(version) > len(other)


def _has_same_sources(new: Obj, old: Obj) -> bool:
    """Return True if stable keys cannot have changed: spec, labels and owners are the same objects
    in memory.
    """
    now, before = new["metadata"], old["metadata"]
    return (
        new.get("spec") is old.get("spec")
        and now.get("labels") is before.get("labels")
        and now.get("ownerReferences") is before.get("ownerReferences")
    )


NO_KEYS: list[Hashable] = []


class Index:
    """Objects of a cache by the keys that a function computes from them, kept up to date with
    each change.
    """

    def __init__(self, objects: dict[Ref, Obj], keys: Keys) -> None:
        self._objects = objects
        self._keys = keys
        self._buckets: dict[Hashable, dict[Ref, None]] = {}
        self._keys_of: dict[Ref, list[Hashable]] = {}
        """Keys of each object, as last computed."""

    def of(self, key: Hashable) -> list[Obj]:
        bucket = self._buckets.get(key)
        return [*map(self._objects.__getitem__, bucket)] if bucket else []

    def clear(self) -> None:
        self._buckets.clear()
        self._keys_of.clear()

    def update(self, ref: Ref, new: Obj | None) -> None:
        before = self._keys_of.get(ref, NO_KEYS)
        wanted = list(self._keys(new)) if new else NO_KEYS
        if wanted != before:
            for key in before:
                if key not in wanted:
                    del self._buckets[key][ref]
                    if not self._buckets[key]:
                        del self._buckets[key]
            for key in wanted:
                self._buckets.setdefault(key, {})[ref] = None
            if wanted:
                self._keys_of[ref] = wanted
            else:
                del self._keys_of[ref]


class ObjectCache:
    """Objects of one resource. Only the informer that follows the resource changes it."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.objects: dict[Ref, Obj] = {}
        self.version = ""
        self._handlers: list[Handler] = []
        self._indexes: dict[Hashable, Index] = {}
        self._stable_indexes: list[Index] = []
        self._volatile_indexes: list[Index] = []
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    def get(self, name: str, namespace: str = "") -> Obj | None:
        # equal to a Ref
        return self.objects.get((namespace, name))  # type: ignore[call-overload,no-any-return]

    def __iter__(self) -> Iterator[Obj]:
        return iter(list(self.objects.values()))

    def index(self, name: Hashable, keys: Keys, *, stable: bool = False) -> Index:
        """Return the index of this name; callers with one name share it.

        Stable keys are computed from spec, labels, owners, namespace and name only, which seldom
        change. The index is then updated only when one of these has changed.
        """
        if name not in self._indexes:
            index = self._indexes[name] = Index(self.objects, keys)
            (self._stable_indexes if stable else self._volatile_indexes).append(index)
            for ref, obj in self.objects.items():
                index.update(ref, obj)
        return self._indexes[name]

    def on_change(self, handler: Handler) -> None:
        """Call this handler for every change, beginning with the objects that are present."""
        self._handlers.append(handler)
        for obj in self:
            handler(obj, None)

    def off_change(self, handler: Handler) -> None:
        """Stop calling this handler."""
        self._handlers.remove(handler)

    @property
    def has_listeners(self) -> bool:
        return bool(self._handlers)

    async def synced(self) -> None:
        """Wait for the first list."""
        await self.reached("")

    async def reached(self, version: str) -> None:
        """Wait until the cache is at least as new as this write."""
        if not self.has_reached(version):
            await self._until(lambda: self.has_reached(version))

    def has_reached(self, version: str) -> bool:
        return bool(self.version) and not is_newer(version, self.version)

    async def lost(self, ref: Ref, uid: str) -> None:
        """Wait until the cache does not contain this object any more."""
        await self._until(lambda: self.has_lost(ref, uid))

    def has_lost(self, ref: Ref, uid: str) -> bool:
        return ref not in self.objects or self.objects[ref]["metadata"]["uid"] != uid

    async def _until(self, condition: Callable[[], bool]) -> None:
        if not condition():
            future = asyncio.get_running_loop().create_future()
            self._waiting[future] = condition
            try:
                await future
            finally:
                self._waiting.pop(future, None)

    def release(self) -> None:
        """Wake all waiters: the cache will not be updated again."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def forget(self) -> None:
        """Reset to the state before the first list, without calling handlers."""
        self.objects.clear()
        self.version = ""
        for index in self._indexes.values():
            index.clear()

    # --- changing it ---

    def _set_version(self, version: str) -> None:
        self.version = version
        if self._waiting:
            for future, condition in list(self._waiting.items()):
                if not future.done() and condition():
                    future.set_result(None)

    def _remove(self, ref: Ref) -> None:
        if ref in self.objects:
            self._put(ref, None)

    def _put(self, ref: Ref, new: Obj | None) -> None:
        old = self.objects.get(ref)
        if new:
            self.objects[ref] = new
        else:
            del self.objects[ref]
        for index in self._volatile_indexes:
            index.update(ref, new)
        if self._stable_indexes and not (new and old and _has_same_sources(new, old)):
            for index in self._stable_indexes:
                index.update(ref, new)
        try:
            for handler in self._handlers:
                handler(new, old)
        except (ApiError, OSError) as error:  # callers would take it for an error of the server
            raise RuntimeError(
                f"a handler of {self.resource.qualified} crashed: {error!r}"
            ) from error
