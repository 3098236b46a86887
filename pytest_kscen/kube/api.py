"""Protocols and data classes of requests to an API server, and of its answers.

Actors use the protocol `Api`; a server in this process implements `Server`. The official client
and the HTTP port use the same requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from pytest_kscen.objects.resources import Obj, Resource

T = TypeVar("T")

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Options:
    """Query of a request, decoded into typed fields. Unset fields are not sent."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    timeout: float | None = None
    bookmarks: bool = False
    send_initial_events: bool | None = None
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool = False
    grace_period: int | None = None
    propagation: str = ""
    precondition_uid: str = ""
    precondition_version: str = ""
    orphan_dependents: bool | None = None
    extra: tuple[tuple[str, str], ...] = ()


DEFAULTS = Options()


def log_options(container: str, limit: int) -> dict[str, Any]:
    """Return the options of a request for a container's log; empty values are left out."""
    values = {"container": container, "limitBytes": str(limit or "")}
    return {"extra": tuple((name, value) for name, value in values.items() if value)}


@dataclass(slots=True)
class Request:
    """Request of the Kubernetes API, before it is sent or after it was received.

    `verb` is RBAC's: get, list, watch, create, update, patch, delete, deletecollection.
    """

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None
    options: Options = DEFAULTS
    patch_type: str = ""
    user: str = "system:admin"
    agent: str = ""
    warnings: list[str] = field(default_factory=list)
    unlimited: bool = False
    """True if a watch without a timeout stays open until it is closed. A real server closes such
    a watch so that clients spread over its instances; clients in this process need not reconnect.
    """


@dataclass(slots=True)
class Answer:
    """Response of the API. A log is a string, or a `TextChunks` when it is followed; refusals are
    exceptions (`objects.errors`).

    A proxied request has an HttpCall as its body and an HttpAnswer as its answer.
    """

    body: Any
    code: int = 200


@dataclass(frozen=True, slots=True)
class HttpCall:
    """HTTP request that the API server's proxy forwards. The target is a quoted path with its
    query.
    """

    method: str = "GET"
    target: str = "/"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


MAX_ANSWER_SIZE = 8 * 1024 * 1024  # bytes; the rest of an answer is not read


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """HTTP response that the API server's proxy forwards."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


class Event(NamedTuple):
    """Event of a watch: ADDED, MODIFIED, DELETED, BOOKMARK, or ERROR with a Status as its
    object.
    """

    type: str
    object: Obj


class Watch(Protocol):
    """Stream of events; it ends after the request's timeout, or when it is closed."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def __anext__(self) -> Event: ...

    def close(self) -> None: ...


@runtime_checkable
class PushWatch(Protocol):
    """Watch that calls its receiver for each event instead of waking a task, which saves a turn
    of the loop.
    """

    async def deliver_to(self, receiver: Callable[[Event], None]) -> None:
        """Call `receiver` with each event until the watch ends; an exception of the receiver is
        raised here.
        """


class TextChunks(Protocol):
    """Text that arrives in pieces; a reader that stops early must close it."""

    async def __anext__(self) -> str: ...

    def close(self) -> None: ...


class Server(Protocol):
    """Server that answers requests in this process: the embedded API server."""

    async def handle(self, request: Request) -> Answer:
        """Answer any request except a watch."""

    def watch(self, request: Request) -> Watch:
        """Open a watch. Refusals are raised by this call, not by the watch."""

    async def resource_of(self, api_version: str, kind: str) -> Resource:
        """Return the resource that serves this kind, by discovery."""

    async def resources(self) -> list[Resource]:
        """Return every resource that can be listed, watched and deleted, in its preferred
        version.
        """


@dataclass(frozen=True, slots=True)
class Listing:
    """Items of a list, and the resource version of this state."""

    items: list[Obj]
    resource_version: str
    continue_token: str = ""


class Api(Protocol):
    """Requests by resource. Refusals are `objects.errors.ApiError`. Returned objects are shared
    and must not be changed.

    Keyword arguments (`**options`) are the fields of `Options`.
    """

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Obj: ...

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing: ...

    async def create(
        self,
        resource: Resource,
        obj: Obj,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        **options: Any,
    ) -> Obj: ...

    async def update(
        self, resource: Resource, obj: Obj, *, subresource: str = "", **options: Any
    ) -> Obj: ...

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
        self,
        resource: Resource,
        obj: Obj,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> Obj: ...

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Any
    ) -> Obj: ...

    async def delete_collection(
        self, resource: Resource, namespace: str = "", **options: Any
    ) -> None: ...

    def watch(self, resource: Resource, namespace: str = "", **options: Any) -> Watch: ...

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        """Return what a container has written, or its first `limit` bytes."""

    async def proxy(
        self, resource: Resource, name: str, namespace: str, call: HttpCall
    ) -> HttpAnswer:
        """Send an HTTP request to a Service (`name:port`, `https:name:port`) or a Pod through
        the API server's proxy.

        Every response is returned, also the API server's own when the target cannot be reached.
        """

    async def resource_of(self, api_version: str, kind: str) -> Resource: ...

    async def resources(self) -> Sequence[Resource]:
        """Return every resource that can be listed, watched and deleted, each in its group's
        preferred version.
        """


class RequestApi:
    """Base of Apis that turn each call into a request: in this process, or over HTTP. A subclass
    adds `_request`, and the calls that are not one request with one object as its answer.
    """

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
        """Send a request; `options` are the fields of `Options`."""
        raise NotImplementedError

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Obj:
        found: Obj = await self._request("get", resource, namespace, name, subresource)
        return found

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
        namespace = namespace or obj.get("metadata", {}).get("namespace", "")
        return await self._request(  # type: ignore[no-any-return]
            "create", resource, namespace, name, subresource, body=obj, options=options
        )

    async def update(
        self, resource: Resource, obj: Obj, *, subresource: str = "", **options: Any
    ) -> Obj:
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        return await self._request(  # type: ignore[no-any-return]
            "update", resource, namespace, name, subresource, body=obj, options=options
        )

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
        return await self._request(  # type: ignore[no-any-return]
            "patch",
            resource,
            namespace,
            name,
            subresource,
            body=patch,
            options=options,
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
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        return await self._request(  # type: ignore[no-any-return]
            "patch",
            resource,
            namespace,
            name,
            subresource,
            body=obj,
            options={"field_manager": field_manager, "force": force},
            patch_type=APPLY_PATCH,
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Any
    ) -> Obj:
        found: Obj = await self._request("delete", resource, namespace, name, options=options)
        return found

    async def delete_collection(
        self, resource: Resource, namespace: str = "", **options: Any
    ) -> None:
        await self._request("deletecollection", resource, namespace, options=options)


class ApiWrite(NamedTuple):
    """Write that a ForwardingApi passes on. `verb` is the method's: create, update, patch, apply,
    delete or deletecollection.

    `name` is the generated name's prefix and `*` while the server has not chosen one.
    """

    verb: str
    resource: Resource
    name: str
    namespace: str
    subresource: str = ""
    body: Any = None
    has_precondition: bool = False


class ForwardingApi:
    """Api that forwards every call to another one. A subclass overrides `_write` to retry or
    record writes, or a method.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def _write(
        self,
        write: ApiWrite,  # noqa: ARG002  # for subclasses
        send: Callable[[], Awaitable[T]],
    ) -> T:
        """Perform a write by calling `send`, which may be called again for another attempt."""
        return await send()

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Obj:
        return await self._api.get(resource, name, namespace, subresource=subresource)

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing:
        return await self._api.list(resource, namespace, **options)

    def watch(self, resource: Resource, namespace: str = "", **options: Any) -> Watch:
        return self._api.watch(resource, namespace, **options)

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        return await self._api.log(name, namespace, container=container, limit=limit)

    async def proxy(
        self, resource: Resource, name: str, namespace: str, call: HttpCall
    ) -> HttpAnswer:
        return await self._api.proxy(resource, name, namespace, call)

    async def resource_of(self, api_version: str, kind: str) -> Resource:
        return await self._api.resource_of(api_version, kind)

    async def resources(self) -> Sequence[Resource]:
        return await self._api.resources()

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
        object_name = name or metadata.get("name") or f"{metadata.get('generateName', '')}*"
        object_namespace = namespace or metadata.get("namespace", "")
        return await self._write(
            ApiWrite("create", resource, object_name, object_namespace, subresource, obj),
            lambda: self._api.create(
                resource, obj, namespace, name=name, subresource=subresource, **options
            ),
        )

    async def update(
        self, resource: Resource, obj: Obj, *, subresource: str = "", **options: Any
    ) -> Obj:
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        return await self._write(
            ApiWrite("update", resource, name, namespace, subresource, obj),
            lambda: self._api.update(resource, obj, subresource=subresource, **options),
        )

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
        return await self._write(
            ApiWrite("patch", resource, name, namespace, subresource, patch),
            lambda: self._api.patch(
                resource,
                name,
                patch,
                namespace,
                subresource=subresource,
                patch_type=patch_type,
                **options,
            ),
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
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        return await self._write(
            ApiWrite("apply", resource, name, namespace, subresource, obj),
            lambda: self._api.apply(
                resource, obj, field_manager=field_manager, force=force, subresource=subresource
            ),
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Any
    ) -> Obj:
        has_precondition = any(option.startswith("precondition") for option in options)
        return await self._write(
            ApiWrite("delete", resource, name, namespace, has_precondition=has_precondition),
            lambda: self._api.delete(resource, name, namespace, **options),
        )

    async def delete_collection(
        self, resource: Resource, namespace: str = "", **options: Any
    ) -> None:
        await self._write(
            ApiWrite("deletecollection", resource, "", namespace),
            lambda: self._api.delete_collection(resource, namespace, **options),
        )
