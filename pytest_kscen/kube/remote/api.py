"""The Api of a real cluster: a call becomes one request over the shared connection, under its actor's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import orjson

from pytest_kscen.kube.api import Listing
from pytest_kscen.kube.remote.connection import JSON
from pytest_kscen.kube.remote.discovery import Discovery
from pytest_kscen.kube.remote.query import deletion_of, query_of
from pytest_kscen.kube.remote.watching import RemoteWatch
from pytest_kscen.kube.requests import APPLY_PATCH, MERGE_PATCH, Options, log_options
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.kube.remote.connection import Connection
    from pytest_kscen.kube.requests import HttpAnswer, HttpCall
    from pytest_kscen.objects.resources import Obj, Resource

AGENT = "pytest-kscen"


class RemoteApi:
    """Speaks to a server over a `Connection`."""

    def __init__(self, connection: Connection, agent: str = "", discovery: Discovery | None = None) -> None:
        self._connection = connection
        self._agent = agent or AGENT
        self._discovery = discovery or Discovery(connection)

    def named(self, agent: str) -> RemoteApi:
        """The same server for another actor."""
        return RemoteApi(self._connection, agent, self._discovery)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Obj:
        return await self._ask("GET", _target(resource, namespace, name, subresource))  # type: ignore[no-any-return]

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing:
        body = await self._ask("GET", _target(resource, namespace, **options))
        about = {"apiVersion": resource.api_version, "kind": resource.kind}  # items of a list do not say what they are
        metadata = body["metadata"]
        items = [about | item for item in body.get("items") or ()]
        return Listing(items, metadata["resourceVersion"], metadata.get("continue", ""))

    async def create(
        self, resource: Resource, obj: Obj, namespace: str = "", *, name: str = "", subresource: str = "", **options: Any
    ) -> Obj:
        namespace = namespace or obj.get("metadata", {}).get("namespace", "")
        return await self._ask("POST", _target(resource, namespace, name, subresource, **options), obj)  # type: ignore[no-any-return]

    async def update(self, resource: Resource, obj: Obj, *, subresource: str = "", **options: Any) -> Obj:
        metadata = obj["metadata"]
        target = _target(resource, metadata.get("namespace", ""), metadata["name"], subresource, **options)
        return await self._ask("PUT", target, obj)  # type: ignore[no-any-return]

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
        target = _target(resource, namespace, name, subresource, **options)
        return await self._ask("PATCH", target, patch, patch_type)  # type: ignore[no-any-return]

    async def apply(self, resource: Resource, obj: Obj, *, field_manager: str, force: bool = False, subresource: str = "") -> Obj:
        metadata = obj["metadata"]
        return await self.patch(
            resource,
            metadata["name"],
            obj,
            metadata.get("namespace", ""),
            subresource=subresource,
            patch_type=APPLY_PATCH,
            field_manager=field_manager,
            force=force,
        )

    async def delete(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Obj:
        target = _target(resource, namespace, name, **options)
        return await self._ask("DELETE", target, deletion_of(Options(**options)))  # type: ignore[no-any-return]

    async def delete_collection(self, resource: Resource, namespace: str = "", **options: Any) -> None:
        await self._ask("DELETE", _target(resource, namespace, **options), deletion_of(Options(**options)))

    def watch(self, resource: Resource, namespace: str = "", **options: Any) -> RemoteWatch:
        target = _target(resource, namespace, **options)
        return RemoteWatch(self._connection, f"{target}{'&' if '?' in target else '?'}watch=true", self._agent)

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        target = _target(PODS, namespace, name, "log", extra=log_options(container, limit).extra)
        return (await self._connection.request("GET", target, agent=self._agent, accept="*/*")).decode(errors="replace")

    async def proxy(self, resource: Resource, name: str, namespace: str, call: HttpCall) -> HttpAnswer:
        target = _target(resource, namespace, name, "proxy") + call.target
        return await self._connection.pass_on(target, call, agent=self._agent)

    async def resource_of(self, api_version: str, kind: str) -> Resource:
        return await self._discovery.resource_of(api_version, kind, agent=self._agent)

    async def resources(self) -> Sequence[Resource]:
        return await self._discovery.resources(agent=self._agent)

    async def _ask(self, method: str, target: str, body: Any = None, content_type: str = JSON) -> Any:
        data = None if body is None else orjson.dumps(body)
        return orjson.loads(await self._connection.request(method, target, agent=self._agent, body=data, content_type=content_type))


def _target(resource: Resource, namespace: str, name: str = "", subresource: str = "", **options: Any) -> str:
    """The path and the query of a request."""
    path = resource.path(quote(namespace, safe=""), quote(name, safe=":"), subresource)
    query = query_of(Options(**options)) if options else ()
    return f"{path}?{urlencode(query)}" if query else path
