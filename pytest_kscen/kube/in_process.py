"""Api of an embedded cluster: each call is a Request that the server in this process answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.kube.api import (
    DEFAULTS,
    HttpAnswer,
    Listing,
    Options,
    Request,
    RequestApi,
    log_options,
)
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.kube.api import HttpCall, Server, Watch
    from pytest_kscen.objects.resources import Obj, Resource


PROXY_VERBS = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class InProcessApi(RequestApi):
    """Api on a `Server` in this process. Nothing is copied, so returned objects must not be
    changed.
    """

    def __init__(self, server: Server, *, user: str = "system:admin", agent: str = "") -> None:
        self._server = server
        self._user = user
        self._agent = agent

    async def _request(
        self,
        verb: str,
        resource: Resource,
        namespace: str,
        name: str = "",
        subresource: str = "",
        *,
        body: Any = None,
        options: dict[str, Any] | None = None,
        patch_type: str = "",
    ) -> Any:
        request = Request(
            verb,
            resource,
            namespace,
            name,
            subresource,
            body,
            Options(**options) if options else DEFAULTS,
            patch_type,
            user=self._user,
            agent=self._agent,
        )
        return (await self._server.handle(request)).body

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing:
        body = await self._request("list", resource, namespace, options=options)
        metadata = body["metadata"]
        return Listing(body["items"], metadata["resourceVersion"], metadata.get("continue", ""))

    async def update(
        self, resource: Resource, obj: Obj, *, subresource: str = "", **options: Any
    ) -> Obj:
        metadata, chosen = obj["metadata"], Options(**options) if options else DEFAULTS
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        request = Request(
            "update",
            resource,
            namespace,
            name,
            subresource,
            obj,
            chosen,
            "",
            self._user,
            self._agent,
        )
        return (await self._server.handle(request)).body  # type: ignore[no-any-return]

    def watch(self, resource: Resource, namespace: str = "", **options: Any) -> Watch:
        request = Request(
            "watch",
            resource,
            namespace=namespace,
            options=Options(**options) if options else DEFAULTS,
            user=self._user,
            unlimited=True,
        )
        return self._server.watch(request)

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        options = log_options(container, limit)
        return str(await self._request("get", PODS, namespace, name, "log", options=options))

    async def proxy(
        self, resource: Resource, name: str, namespace: str, call: HttpCall
    ) -> HttpAnswer:
        verb = PROXY_VERBS.get(call.method, "get")
        try:
            answer = await self._request(verb, resource, namespace, name, "proxy", body=call)
        except ApiError as error:
            body = orjson.dumps(error.status)
            return HttpAnswer(
                error.status.get("code", error.code), (("Content-Type", "application/json"),), body
            )
        return answer  # type: ignore[no-any-return]

    async def resource_of(self, api_version: str, kind: str) -> Resource:
        return await self._server.resource_of(api_version, kind)

    async def resources(self) -> Sequence[Resource]:
        return await self._server.resources()
