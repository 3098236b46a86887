"""An Api in front of another: what only reads passes through, and a subclass has its own way with writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.kube.api import Api, Listing
    from pytest_kscen.kube.requests import HttpAnswer, HttpCall, Watch
    from pytest_kscen.objects.resources import Obj, Resource


class ForwardingApi:
    """The reads."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Obj:
        return await self._api.get(resource, name, namespace, subresource=subresource)

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing:
        return await self._api.list(resource, namespace, **options)

    def watch(self, resource: Resource, namespace: str = "", **options: Any) -> Watch:
        return self._api.watch(resource, namespace, **options)

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        return await self._api.log(name, namespace, container=container, limit=limit)

    async def proxy(self, resource: Resource, name: str, namespace: str, call: HttpCall) -> HttpAnswer:
        return await self._api.proxy(resource, name, namespace, call)

    async def resource_of(self, api_version: str, kind: str) -> Resource:
        return await self._api.resource_of(api_version, kind)

    async def resources(self) -> Sequence[Resource]:
        return await self._api.resources()
