"""An Api whose holder sees its own writes: before it looks at something again, the informers show what it did to it.

What was written about one thing does not hold up the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.forwarding import ForwardingApi
from pytest_kscen.kube.informer import Ref, is_newer
from pytest_kscen.kube.requests import MERGE_PATCH

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj, Resource


MANY = 100  # things that are remembered before it is seen which of them need not be


class OwnWrites(ForwardingApi):
    """Remembers, thing by thing, the newest version that it wrote of each resource, and what it removed."""

    def __init__(self, api: Api, informers: Informers) -> None:
        super().__init__(api)
        self._informers = informers
        self._about: Hashable = None
        self._written: dict[Hashable, dict[Resource, str]] = {}
        self._removed: dict[Hashable, list[tuple[Resource, Ref, str]]] = {}

    @property
    def plain(self) -> Api:
        """The Api alone, for writes that their holder does not wait to see."""
        return self._api

    async def turn_to(self, about: Hashable) -> None:
        """Look at this from now on, as soon as the shared pictures show what was written about it."""
        if about in self._written or about in self._removed:
            await self._see(about)
        self._about = about
        if len(self._written) + len(self._removed) > MANY:
            self._forget_seen()

    async def caught_up(self) -> None:
        """Wait until the shared pictures show everything that was written here."""
        for about in [*self._written, *self._removed]:
            await self._see(about)

    async def _see(self, about: Hashable) -> None:
        for resource, version in self._written.pop(about, {}).items():
            informer = self._informers.known(resource)
            if informer and not informer.has_reached(version):
                await informer.reached(version)
        for resource, ref, uid in self._removed.pop(about, ()):
            if informer := self._informers.known(resource):
                await informer.lost(ref, uid)

    def _forget_seen(self) -> None:
        """What the pictures show by now, of things that nobody may ever look at again."""
        known = self._informers.known
        for about in [*self._written]:
            seen = ((known(resource), version) for resource, version in self._written[about].items())
            if all(informer is None or informer.has_reached(version) for informer, version in seen):
                del self._written[about]
        for about in [*self._removed]:
            gone = ((known(resource), ref, uid) for resource, ref, uid in self._removed[about])
            if all(informer is None or informer.has_lost(ref, uid) for informer, ref, uid in gone):
                del self._removed[about]

    def _note(self, resource: Resource, answer: Obj) -> Obj:
        version = (answer.get("metadata") or {}).get("resourceVersion", "")
        written = self._written.setdefault(self._about, {})
        if is_newer(version, written.get(resource, "")):
            written[resource] = version
        return answer

    async def create(
        self, resource: Resource, obj: Obj, namespace: str = "", *, name: str = "", subresource: str = "", **options: Any
    ) -> Obj:
        made = await self._api.create(resource, obj, namespace, name=name, subresource=subresource, **options)
        return self._note(resource, made)

    async def update(self, resource: Resource, obj: Obj, *, subresource: str = "", **options: Any) -> Obj:
        return self._note(resource, await self._api.update(resource, obj, subresource=subresource, **options))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        patch_type: str = MERGE_PATCH,
        **options: Any,
    ) -> Obj:
        answer = await self._api.patch(resource, name, patch, namespace, subresource=subresource, patch_type=patch_type, **options)
        return self._note(resource, answer)

    async def apply(self, resource: Resource, obj: Obj, *, field_manager: str, force: bool = False, subresource: str = "") -> Obj:
        answer = await self._api.apply(resource, obj, field_manager=field_manager, force=force, subresource=subresource)
        return self._note(resource, answer)

    async def delete(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Obj:
        answer = await self._api.delete(resource, name, namespace, **options)
        if uid := (answer.get("details") or {}).get("uid"):  # a Status: it is gone, and nobody says at which version
            self._removed.setdefault(self._about, []).append((resource, Ref(namespace, name), uid))
        return self._note(resource, answer)

    async def delete_collection(self, resource: Resource, namespace: str = "", **options: Any) -> None:
        await self._api.delete_collection(resource, namespace, **options)
