"""An Api that leaves a trace: each write goes into the journal, with its answer or its refusal, before the actor sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.forwarding import ForwardingApi
from pytest_kscen.kube.requests import MERGE_PATCH
from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pytest_kscen.journal import Witness
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj, Resource


class RecordingApi(ForwardingApi):
    """Reads pass through; writes are witnessed."""

    def __init__(self, api: Api, witness: Witness) -> None:
        super().__init__(api)
        self._witness = witness

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
        metadata = obj.get("metadata", {})
        called = name or metadata.get("name") or f"{metadata.get('generateName', '')}*"
        place = (resource, called, namespace or metadata.get("namespace", ""), subresource)
        write = self._api.create(resource, obj, namespace, name=name, subresource=subresource, **options)
        return await self._witnessed("create", place, write, obj)  # type: ignore[no-any-return]

    async def update(self, resource: Resource, obj: Obj, *, subresource: str = "", **options: Any) -> Obj:
        metadata = obj["metadata"]
        place = (resource, metadata["name"], metadata.get("namespace", ""), subresource)
        write = self._api.update(resource, obj, subresource=subresource, **options)
        return await self._witnessed("update", place, write, obj)  # type: ignore[no-any-return]

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
        write = self._api.patch(resource, name, patch, namespace, subresource=subresource, patch_type=patch_type, **options)
        return await self._witnessed("patch", (resource, name, namespace, subresource), write, patch)  # type: ignore[no-any-return]

    async def apply(self, resource: Resource, obj: Obj, *, field_manager: str, force: bool = False, subresource: str = "") -> Obj:
        metadata = obj["metadata"]
        place = (resource, metadata["name"], metadata.get("namespace", ""), subresource)
        write = self._api.apply(resource, obj, field_manager=field_manager, force=force, subresource=subresource)
        return await self._witnessed("apply", place, write, obj)  # type: ignore[no-any-return]

    async def delete(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Obj:
        write = self._api.delete(resource, name, namespace, **options)
        return await self._witnessed("delete", (resource, name, namespace, ""), write, None)  # type: ignore[no-any-return]

    async def delete_collection(self, resource: Resource, namespace: str = "", **options: Any) -> None:
        write = self._api.delete_collection(resource, namespace, **options)
        await self._witnessed("deletecollection", (resource, "", namespace, ""), write, None)

    async def _witnessed(self, verb: str, place: tuple[Resource, str, str, str], write: Awaitable[Any], body: Any) -> Any:
        resource, name, namespace, subresource = place
        particulars = {
            "verb": verb,
            "resource": resource.qualified,
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            **({"subresource": subresource} if subresource else {}),
            **({"body": body} if body is not None else {}),
        }
        try:
            answer = await write
        except ApiError as error:
            self._witness.note("refused", **particulars, reason=error.status.get("reason", ""), message=error.message)
            raise
        metadata = answer.get("metadata", {}) if isinstance(answer, dict) else {}
        self._witness.note(
            "wrote", **{**particulars, "name": metadata.get("name") or name}, revision=metadata.get("resourceVersion")
        )
        return answer
