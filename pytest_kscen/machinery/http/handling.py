"""One request on the port: who asks, what, and the answer written back, at once or as it comes."""

from __future__ import annotations

import asyncio
import gzip
import hmac
import logging
from typing import TYPE_CHECKING, Any

from aiohttp import web

from pytest_kscen.clock import WallClock
from pytest_kscen.machinery.http.pipe import Pipe
from pytest_kscen.machinery.wire import refused
from pytest_kscen.objects.errors import InternalError, TooLarge, Unauthorized

if TYPE_CHECKING:
    from pytest_kscen.machinery.http.port import Answering
    from pytest_kscen.machinery.wire import Stream, Wire, WireAnswer

logger = logging.getLogger(__name__)

OPEN = ("healthz", "livez", "readyz", "version")
PASSED_ON = ("accept", "content-type", "user-agent", "impersonate-user", "if-none-match", "upgrade")
LARGEST = 3 * 1024 * 1024
FAREWELL = 0.5  # seconds
WORTH_ZIPPING = 128 * 1024


class Handler:
    """Answers for one port."""

    def __init__(self, wire: Wire, runner: Answering, token: str) -> None:
        self._wire = wire
        self._runner = runner
        self._secret = f"Bearer {token}".encode()
        self._pipes: dict[Pipe, None] = {}

    async def end_streams(self) -> None:
        """End every open stream as if its time was up; who does not read that is not waited for."""
        for pipe in self._pipes:
            pipe.cut()
        clock = WallClock()
        end = clock.now() + FAREWELL
        while self._pipes and clock.now() < end:
            await clock.sleep(0.005)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = await self._answer(request)
        if answer.stream:
            return await self._stream(request, answer, answer.stream)
        return _plain(request, answer)

    def _may_enter(self, request: web.BaseRequest) -> bool:
        shown = request.headers.get("Authorization")
        if shown is None:
            return request.path.partition("/")[2].partition("/")[0] in OPEN
        return hmac.compare_digest(shown.encode(errors="surrogateescape"), self._secret)

    async def _answer(self, request: web.BaseRequest) -> WireAnswer:
        """Whatever goes wrong, the client hears of it."""
        try:
            return await self._asked(request)
        except Exception as error:
            logger.exception("%s %s could not be answered", request.method, request.path)
            return refused(InternalError(f"Internal error occurred: {error!r}"))

    async def _asked(self, request: web.BaseRequest) -> WireAnswer:
        if not self._may_enter(request):
            return refused(Unauthorized("Unauthorized"))
        body = await _body_of(request)
        if body is None:
            return refused(TooLarge(f"Request entity too large: limit is {LARGEST}"))
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = request.rel_url
        call = self._wire.call(request.method, url.raw_path, url.raw_query_string, headers, body)
        answer: WireAnswer = await _result_of(self._runner.submit(call))
        return answer

    async def _stream(self, request: web.BaseRequest, answer: WireAnswer, stream: Stream) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        pipe = Pipe()
        self._pipes[pipe] = None
        carried = self._runner.submit(pipe.pump(stream))
        try:
            await response.prepare(request)
            while (pieces := await pipe.take()) is not None:
                await response.write(pieces)
            await response.write_eof()
        finally:
            carried.cancel()
            del self._pipes[pipe]
        return response


async def _body_of(request: web.BaseRequest) -> bytes | None:
    """The whole body; None if it is too large to be read."""
    if not request.body_exists:
        return b""
    if (request.content_length or 0) > LARGEST:
        return None
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > LARGEST:
            return None
    return bytes(body)


async def _result_of(future: Any) -> Any:
    return future.result() if future.done() else await asyncio.wrap_future(future)


def _plain(request: web.BaseRequest, answer: WireAnswer) -> web.Response:
    headers, body = answer.headers, answer.body
    headers.setdefault("Cache-Control", "no-cache, private")
    if len(body) > WORTH_ZIPPING and "gzip" in request.headers.get("Accept-Encoding", ""):
        body = gzip.compress(body, 1)
        headers.update({"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
    return web.Response(body=body, status=answer.status, headers=headers)
