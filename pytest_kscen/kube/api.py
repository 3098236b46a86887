"""The protocol that every actor speaks, whichever cluster is behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kscen.kube.requests import MERGE_PATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.kube.requests import HttpAnswer, HttpCall, Watch
    from pytest_kscen.objects.resources import Obj, Resource


@dataclass(frozen=True, slots=True)
class Listing:
    """A list's items and where it stands."""

    items: list[Obj]
    resource_version: str
    continue_token: str = ""


class Api(Protocol):
    """Requests by resource. Refusals are `objects.errors.ApiError`s. What is returned is shared: never change it.

    Keyword arguments (`**options`) are the fields of `kube.requests.Options`.
    """

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Obj: ...

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing: ...

    async def create(
        self, resource: Resource, obj: Obj, namespace: str = "", *, name: str = "", subresource: str = "", **options: Any
    ) -> Obj: ...

    async def update(self, resource: Resource, obj: Obj, *, subresource: str = "", **options: Any) -> Obj: ...

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
    ) -> Obj: ...

    async def apply(
        self, resource: Resource, obj: Obj, *, field_manager: str, force: bool = False, subresource: str = ""
    ) -> Obj: ...

    async def delete(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Obj: ...

    async def delete_collection(self, resource: Resource, namespace: str = "", **options: Any) -> None: ...

    def watch(self, resource: Resource, namespace: str = "", **options: Any) -> Watch: ...

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        """What a container has written, or its first bytes, this many."""

    async def proxy(self, resource: Resource, name: str, namespace: str, call: HttpCall) -> HttpAnswer:
        """Ask a Service (`name:port`, `https:name:port`) or a Pod over HTTP, through the API server.

        Whatever comes back is the answer, also the API server's own word that there is nobody to ask.
        """

    async def resource_of(self, api_version: str, kind: str) -> Resource: ...

    async def resources(self) -> Sequence[Resource]:
        """Every resource that can be listed, watched and deleted, each in the version that its group prefers."""
