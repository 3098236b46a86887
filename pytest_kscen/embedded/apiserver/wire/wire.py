"""Path of one HTTP request: routing, negotiation, the server's verb, and the answer.

Refusals become a Status. Called by `http` and by clients in this process; must not use sockets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.wire.bodies import UnreadablePatch
from pytest_kscen.embedded.apiserver.wire.discovery import NonResourcePaths, not_found
from pytest_kscen.embedded.apiserver.wire.media_types import (
    LIST_OFFER,
    LOG_OFFER,
    OBJECT_OFFER,
    WATCH_OFFER,
    is_pretty,
    negotiate,
    refusal_media,
)
from pytest_kscen.embedded.apiserver.wire.queries import NO_QUERY, Query
from pytest_kscen.embedded.apiserver.wire.requests import (
    RoutedRequest,
    parse_path,
    request_of,
    route_of,
)
from pytest_kscen.embedded.apiserver.wire.responses import (
    TEXT,
    Reply,
    ResponseConverter,
    TextStream,
    WatchStream,
    WireAnswer,
    deprecation_warnings,
    encode_reply,
    headers_for,
    refusal_answer,
    text_answer,
)
from pytest_kscen.kube.api import Request
from pytest_kscen.objects.errors import ApiError, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.embedded.apiserver.server import ApiServer
    from pytest_kscen.embedded.apiserver.wire.media_types import Media

VERB_OFFERS = {"list": LIST_OFFER, "watch": WATCH_OFFER}
PROXY_SEGMENTS = len(["", "api", "v1", "namespaces", "default", "pods", "p", "proxy", "tail"]) - 1
NO_HEADERS: Mapping[str, str] = {}


class Wire:
    """HTTP form of one API server; `address` is the host and port that discovery reports."""

    def __init__(self, server: ApiServer, address: str = "127.0.0.1:443") -> None:
        self._server = server
        self._kinds = server.core.kinds
        self._non_resource = NonResourcePaths(self._kinds, address)

    async def call(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> WireAnswer:
        """Answer one request; every refusal becomes a Status.

        Header names are in lower case. A watch or followed log is returned as an open stream, which
        the caller must close.
        """
        warnings: list[str] = []
        deprecated: list[str] = []
        try:
            parsed = Query(query) if query else NO_QUERY
            address = parse_path(path)
            if address is None:
                return self._non_resource.answer(method, path, parsed, headers)
            if self._non_resource.is_unknown_group(address.group):
                return not_found()
            route = route_of(self._kinds, method, address, watch=bool(parsed.flag("watch")))
            deprecated.extend(deprecation_warnings(self._server.core, route.kind))
            warnings.extend(deprecated)
            if address.subresource == "proxy":
                behind = (
                    path.partition("/proxy/")[2]
                    if "/namespaces/" not in path
                    else "/".join(path.split("/")[PROXY_SEGMENTS:])
                )
                routed = RoutedRequest(
                    route,
                    address,
                    parsed,
                    headers,
                    body,
                    f"/{behind}?{query}" if query else f"/{behind}",
                )
                answer = (await self._server.handle(request_of(routed, warnings))).body
                return WireAnswer(answer.status, dict(answer.headers), answer.body)
            media = negotiate(
                headers.get("accept", ""),
                LOG_OFFER
                if address.subresource == "log"
                else VERB_OFFERS.get(route.verb, OBJECT_OFFER),
            )
            if is_pretty(parsed.flag("pretty"), headers.get("user-agent", "")):
                media = replace(media, pretty=True)
            return await self._answer_resource(
                RoutedRequest(route, address, parsed, headers, body), media, warnings
            )
        except ApiError as error:
            if method == "PATCH" and isinstance(error, NotFound):
                warnings = deprecated  # the patch was not read
            return refusal_answer(error, refusal_media(headers.get("accept", "")), warnings)

    async def _answer_resource(
        self, routed: RoutedRequest, media: Media, warnings: list[str]
    ) -> WireAnswer:
        try:
            request = request_of(routed, warnings)
        except UnreadablePatch:  # the real server reads a patch only after it has found the object
            address, resource = routed.address, routed.route.kind.resource
            await self._server.handle(Request("get", resource, address.namespace, address.name))
            raise
        converter = ResponseConverter(
            self._server.core, routed.route.kind, media, routed.query.text("includeObject")
        )
        if request.verb == "watch":
            stream = WatchStream(self._server.watch(request), converter)
            return WireAnswer(200, headers_for(media, warnings), stream=stream)
        answer = await self._server.handle(request)
        if isinstance(answer.body, dict):
            return encode_reply(Reply(converter.answer(answer.body), answer.code, warnings), media)
        if isinstance(answer.body, str):
            return text_answer(answer.body, answer.code)
        return WireAnswer(answer.code, {"Content-Type": TEXT}, stream=TextStream(answer.body))
