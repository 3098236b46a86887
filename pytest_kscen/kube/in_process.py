"""Api of an embedded cluster: a call becomes a Request, which the server in this process
answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.kube.api import (
    APPLY_PATCH,
    DEFAULTS,
    MERGE_PATCH,
    HttpAnswer,
    Listing,
    Options,
    Request,
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


class InProcessApi:
    """Api on a `Server` without a wire; nothing is copied, so returned objects must not be
    changed.
    """

    def __init__(self, server: Server, *, user: str = "system:admin", agent: str = "") -> None:
        self._server = server
        self._user = user
        self._agent = agent

    async def _ask(
        self,
        verb: str,
        resource: Resource,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        body: Any = None,
        options: Options = DEFAULTS,
        patch_type: str = "",
    ) -> Any:
        request = Request(
            verb,
            resource,
            namespace,
            name,
            subresource,
            body,
            options,
            patch_type,
            user=self._user,
            agent=self._agent,
        )
        return (await self._server.handle(request)).body

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Obj:
        return await self._ask(  # type: ignore[no-any-return]
            "get", resource, namespace=namespace, name=name, subresource=subresource
        )

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing:
        body = await self._ask("list", resource, namespace=namespace, options=_options(options))
        metadata = body["metadata"]
        return Listing(body["items"], metadata["resourceVersion"], metadata.get("continue", ""))

    async def create(
        self,
        resource: Resource,
        obj: Obj,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        **options: Any,
    ) -> Obj:
        return await self._ask(  # type: ignore[no-any-return]
            "create",
            resource,
            namespace=namespace or obj.get("metadata", {}).get("namespace", ""),
            name=name,
            subresource=subresource,
            body=obj,
            options=_options(options),
        )

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
        return await self._ask(  # type: ignore[no-any-return]
            "patch",
            resource,
            namespace=namespace,
            name=name,
            subresource=subresource,
            body=patch,
            options=_options(options),
            patch_type=patch_type,
        )

    async def apply(
        self,
        resource: Resource,
        obj: Obj,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> Obj:
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

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Any
    ) -> Obj:
        return await self._ask(  # type: ignore[no-any-return]
            "delete", resource, namespace=namespace, name=name, options=_options(options)
        )

    async def delete_collection(
        self, resource: Resource, namespace: str = "", **options: Any
    ) -> None:
        await self._ask(
            "deletecollection", resource, namespace=namespace, options=_options(options)
        )

    def watch(self, resource: Resource, namespace: str = "", **options: Any) -> Watch:
        request = Request(
            "watch",
            resource,
            namespace=namespace,
            options=_options(options),
            user=self._user,
            stays=True,
        )
        return self._server.watch(request)

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        options = log_options(container, limit)
        return str(
            await self._ask(
                "get", PODS, namespace=namespace, name=name, subresource="log", options=options
            )
        )

    async def proxy(
        self, resource: Resource, name: str, namespace: str, call: HttpCall
    ) -> HttpAnswer:
        verb = PROXY_VERBS.get(call.method, "get")
        try:
            answer = await self._ask(
                verb, resource, namespace=namespace, name=name, subresource="proxy", body=call
            )
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


def _options(options: dict[str, Any]) -> Options:
    return Options(**options) if options else DEFAULTS
