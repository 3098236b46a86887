"""One HTTP request from its bytes to the server's verb and back; a refusal becomes a Status.

Nothing here knows a socket.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.wire.bodies import UnreadablePatch
from pytest_kscen.embedded.apiserver.wire.discovery import Elsewhere, not_found
from pytest_kscen.embedded.apiserver.wire.media_types import (
    LOG,
    MANY,
    ONE,
    STREAM,
    accepted,
    for_refusal,
    is_for_people,
)
from pytest_kscen.embedded.apiserver.wire.queries import NO_QUERY, Query
from pytest_kscen.embedded.apiserver.wire.requests import Asked, address_of, request_of, route_of
from pytest_kscen.embedded.apiserver.wire.responses import (
    TEXT,
    Reply,
    Shaper,
    TextStream,
    WatchStream,
    WireAnswer,
    deprecations,
    encoded,
    heading,
    refusal,
    text,
)
from pytest_kscen.kube.api import Request
from pytest_kscen.objects.errors import ApiError, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.embedded.apiserver.server import ApiServer
    from pytest_kscen.embedded.apiserver.wire.media_types import Media

OFFERS = {"list": MANY, "watch": STREAM}
BEFORE_TAIL = len(["", "api", "v1", "namespaces", "default", "pods", "p", "proxy", "tail"]) - 1
NO_HEADERS: Mapping[str, str] = {}


class Wire:
    """The server as HTTP sees it."""

    def __init__(self, server: ApiServer, address: str = "127.0.0.1:443") -> None:
        self._server = server
        self._kinds = server.core.kinds
        self._elsewhere = Elsewhere(self._kinds, address)

    async def call(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> WireAnswer:
        """Answer one request. Headers' names are in lower case."""
        warnings: list[str] = []
        deprecated: list[str] = []
        try:
            parsed = Query(query) if query else NO_QUERY
            address = address_of(path)
            if address is None:
                return self._elsewhere.answer(method, path, parsed, headers)
            if self._elsewhere.is_strange(address.group):
                return not_found()
            route = route_of(self._kinds, method, address, watch=bool(parsed.flag("watch")))
            deprecated.extend(deprecations(self._server.core, route.kind))
            warnings.extend(deprecated)
            if address.subresource == "proxy":
                behind = (
                    path.partition("/proxy/")[2]
                    if "/namespaces/" not in path
                    else "/".join(path.split("/")[BEFORE_TAIL:])
                )
                asked = Asked(
                    route,
                    address,
                    parsed,
                    headers,
                    body,
                    f"/{behind}?{query}" if query else f"/{behind}",
                )
                answer = (await self._server.handle(request_of(asked, warnings))).body
                return WireAnswer(answer.status, dict(answer.headers), answer.body)
            media = accepted(
                headers.get("accept", ""),
                LOG if address.subresource == "log" else OFFERS.get(route.verb, ONE),
            )
            if is_for_people(parsed.flag("pretty"), headers.get("user-agent", "")):
                media = replace(media, pretty=True)
            return await self._ask(Asked(route, address, parsed, headers, body), media, warnings)
        except ApiError as error:
            if method == "PATCH" and isinstance(error, NotFound):
                warnings = deprecated  # nobody has looked at the patch
            return refusal(error, for_refusal(headers.get("accept", "")), warnings)

    async def _ask(self, asked: Asked, media: Media, warnings: list[str]) -> WireAnswer:
        try:
            request = request_of(asked, warnings)
        except UnreadablePatch:  # the real server reads a patch when it has found its object
            address, resource = asked.address, asked.route.kind.resource
            await self._server.handle(Request("get", resource, address.namespace, address.name))
            raise
        shaper = Shaper(
            self._server.core, asked.route.kind, media, asked.query.text("includeObject")
        )
        if request.verb == "watch":
            stream = WatchStream(self._server.watch(request), shaper)
            return WireAnswer(200, heading(media, warnings), stream=stream)
        answer = await self._server.handle(request)
        if isinstance(answer.body, dict):
            return encoded(Reply(shaper.answer(answer.body), answer.code, warnings), media)
        if isinstance(answer.body, str):
            return text(answer.body, answer.code)
        return WireAnswer(answer.code, {"Content-Type": TEXT}, stream=TextStream(answer.body))
