"""Api of a remote cluster: each call is one request over the shared connection, with the actor's
name as its user agent.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import math
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlencode

import aiohttp
import orjson

from pytest_kscen.kube.api import Event, Listing, Options, RequestApi, log_options
from pytest_kscen.kube.remote.connection import JSON, error_message
from pytest_kscen.objects.errors import NotFound, ServiceUnavailable
from pytest_kscen.objects.resources import PODS, Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.kube.api import HttpAnswer, HttpCall
    from pytest_kscen.kube.remote.connection import Connection
    from pytest_kscen.objects.resources import Obj


logger = logging.getLogger(__name__)

REQUIRED_VERBS = {"list", "watch", "delete"}  # of the resources that discovery returns


class Discovery:
    """Kinds and resources of a server, cached by group and version; read again for missing ones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, dict[str, Resource]] = {}

    async def resource_of(self, api_version: str, kind: str, *, agent: str) -> Resource:
        if kind not in self._known.get(api_version, {}):
            self._known[api_version] = {
                row["kind"]: _resource_of(api_version, row)
                for row in await self._rows(api_version, agent)
            }
        found = self._known[api_version].get(kind)
        if found is None:
            raise NotFound(f'no matches for kind "{kind}" in version "{api_version}"')
        return found

    async def resources(self, *, agent: str) -> list[Resource]:
        """Return the resources that can be listed, watched and deleted, each in its
        group's preferred version, or else in the first version that has it.

        A group that cannot be read is left out: its aggregated server does not answer.
        """
        groups = orjson.loads(await self._connection.request("GET", "/apis", agent=agent))["groups"]
        versions = ["v1"]
        for group in groups:
            offered = [version["groupVersion"] for version in group["versions"]]
            versions += sorted(
                offered, key=lambda version: version != group["preferredVersion"]["groupVersion"]
            )
        found: dict[tuple[str, str], Resource] = {}
        for version in versions:
            try:
                rows = await self._rows(version, agent)
            except ServiceUnavailable as error:
                logger.warning("discovery of %s failed: %s", version, error)
                continue
            for row in rows:
                resource = _resource_of(version, row)
                if set(row["verbs"]) >= REQUIRED_VERBS:
                    found.setdefault((resource.group, resource.plural), resource)
        return list(found.values())

    async def _rows(self, api_version: str, agent: str) -> list[Any]:
        root = "apis" if "/" in api_version else "api"
        try:
            answer = await self._connection.request("GET", f"/{root}/{api_version}", agent=agent)
        except NotFound:
            return []
        return [row for row in orjson.loads(answer)["resources"] if "/" not in row["name"]]


def _resource_of(api_version: str, row: dict[str, Any]) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, row["name"], row["kind"], namespaced=row["namespaced"])


_QUERY = {
    "labels": "labelSelector",
    "fields": "fieldSelector",
    "limit": "limit",
    "continue_token": "continue",
    "resource_version": "resourceVersion",
    "resource_version_match": "resourceVersionMatch",
    "timeout": "timeoutSeconds",
    "bookmarks": "allowWatchBookmarks",
    "send_initial_events": "sendInitialEvents",
    "dry_run": "dryRun",
    "field_manager": "fieldManager",
    "field_validation": "fieldValidation",
    "force": "force",
}
_DELETION = {
    "grace_period": "gracePeriodSeconds",
    "propagation": "propagationPolicy",
    "orphan_dependents": "orphanDependents",
}
_PRECONDITIONS = {"precondition_uid": "uid", "precondition_version": "resourceVersion"}


def query_of(options: Options) -> list[tuple[str, str]]:
    """Return the options that are set, in a stable order."""
    pairs = [
        (word, _text(field, getattr(options, field)))
        for field, word in _QUERY.items()
        if _is_set(options, field)
    ]
    return pairs + list(options.extra)


def deletion_of(options: Options) -> Obj | None:
    """Return DeleteOptions, or None if no option needs them."""
    body = {
        word: getattr(options, field)
        for field, word in _DELETION.items()
        if _is_set(options, field)
    }
    preconditions = {
        word: getattr(options, field)
        for field, word in _PRECONDITIONS.items()
        if _is_set(options, field)
    }
    if preconditions:
        body["preconditions"] = preconditions
    return {"kind": "DeleteOptions", "apiVersion": "v1", **body} if body else None


def _is_set(options: Options, field: str) -> bool:
    value = getattr(options, field)
    return value is not None and value != type(options).__dataclass_fields__[field].default


def _text(field: str, value: Any) -> str:
    if field == "dry_run":
        return "All"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(math.ceil(value)) if isinstance(value, float) else str(value)


class RemoteWatch:
    """Watch over an HTTP stream, opened at the first read; either side may end it.

    The server's timeout ends it quietly. A broken connection raises ConnectionError, after all
    events that arrived whole.
    """

    def __init__(self, connection: Connection, target: str, agent: str) -> None:
        self._connection = connection
        self._target = target
        self._agent = agent
        self._events: collections.deque[Event] = collections.deque()
        self._partial: list[bytes] = []
        self._opening: asyncio.Task[aiohttp.ClientResponse] | None = None
        self._response: aiohttp.ClientResponse | None = None
        self._open = True
        self._unregister = connection.register(self.close)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            try:
                head, *rest = (await self._more()).split(b"\n")
                self._partial.append(head)
                for piece in rest:
                    line, self._partial = b"".join(self._partial), [piece]
                    if line:
                        event = orjson.loads(line)
                        self._events.append(Event(event["type"], event["object"]))
            except BaseException:
                self.close()
                raise
        return self._events.popleft()

    def close(self) -> None:
        """End the watch at once, also for a task that is reading it."""
        self._open = False
        self._unregister()
        if self._opening and not self._opening.done():
            self._opening.cancel()
        if self._response:
            if (connection := self._response.connection) and connection.transport:
                connection.transport.abort()  # TLS would wait for the close-notify of the peer
            self._response.close()

    async def _more(self) -> bytes:
        if not self._open:
            raise StopAsyncIteration
        if self._response is None:
            self._response = await self._begin()
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError) as error:
            if not self._open:
                raise StopAsyncIteration from None
            raise ConnectionError(
                f"the watch {self._target} was interrupted: {error_message(error)}"
            ) from error
        if chunk:
            return chunk
        if self._open and any(self._partial):
            raise ConnectionError(f"the watch {self._target} was interrupted within a line")
        raise StopAsyncIteration

    async def _begin(self) -> aiohttp.ClientResponse:
        self._opening = asyncio.ensure_future(
            self._connection.stream(self._target, agent=self._agent)
        )
        try:
            return await self._opening
        except asyncio.CancelledError:
            reader = asyncio.current_task()
            if self._open or (reader and reader.cancelling()):
                raise
            raise StopAsyncIteration from None


AGENT = "pytest-kscen"
METHODS = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
"""HTTP methods by the verbs of requests."""


class RemoteApi(RequestApi):
    """Api on a server behind a `Connection`."""

    def __init__(
        self, connection: Connection, agent: str = "", discovery: Discovery | None = None
    ) -> None:
        self._connection = connection
        self._agent = agent or AGENT
        self._discovery = discovery or Discovery(connection)

    def named(self, agent: str) -> RemoteApi:
        """Return the same server's Api for another actor."""
        return RemoteApi(self._connection, agent, self._discovery)

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
        options, method = options or {}, METHODS[verb]
        if method == "DELETE":
            body = deletion_of(Options(**options))
        answer = await self._connection.request(
            method,
            _target(resource, namespace, name, subresource, **options),
            agent=self._agent,
            body=None if body is None else orjson.dumps(body),
            content_type=patch_type or JSON,
        )
        return orjson.loads(answer)

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> Listing:
        body = await self._request("list", resource, namespace, options=options)
        # items of a list have no apiVersion and kind
        type_fields = {"apiVersion": resource.api_version, "kind": resource.kind}
        metadata = body["metadata"]
        items = [type_fields | item for item in body.get("items") or ()]
        return Listing(items, metadata["resourceVersion"], metadata.get("continue", ""))

    def watch(self, resource: Resource, namespace: str = "", **options: Any) -> RemoteWatch:
        target = _target(resource, namespace, **options)
        return RemoteWatch(
            self._connection, f"{target}{'&' if '?' in target else '?'}watch=true", self._agent
        )

    async def log(self, name: str, namespace: str, *, container: str = "", limit: int = 0) -> str:
        target = _target(PODS, namespace, name, "log", **log_options(container, limit))
        return (
            await self._connection.request("GET", target, agent=self._agent, accept="*/*")
        ).decode(errors="replace")

    async def proxy(
        self, resource: Resource, name: str, namespace: str, call: HttpCall
    ) -> HttpAnswer:
        target = _target(resource, namespace, name, "proxy") + call.target
        return await self._connection.forward(target, call, agent=self._agent)

    async def resource_of(self, api_version: str, kind: str) -> Resource:
        return await self._discovery.resource_of(api_version, kind, agent=self._agent)

    async def resources(self) -> Sequence[Resource]:
        return await self._discovery.resources(agent=self._agent)


def _target(
    resource: Resource, namespace: str, name: str = "", subresource: str = "", **options: Any
) -> str:
    """Return path and query of a request."""
    path = resource.path(quote(namespace, safe=""), quote(name, safe=":"), subresource)
    query = query_of(Options(**options)) if options else ()
    return f"{path}?{urlencode(query)}" if query else path
