"""The HTTPS port on loopback: a thread that reads HTTP requests, has them answered in cluster
time, and writes responses.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hmac
import logging
import threading
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web

from pytest_kscen.clock import WallClock
from pytest_kscen.embedded.apiserver.credentials import make_keys, write_kubeconfig
from pytest_kscen.embedded.apiserver.wire import refused
from pytest_kscen.objects.errors import InternalError, TooLarge, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future
    from pathlib import Path

    from pytest_kscen.embedded.apiserver.wire import Stream, Wire, WireAnswer


# A stream's way from the cluster's loop to the port's: a bounded heap of pieces that two
# threads share. The cluster's side puts pieces in and waits when its reader is behind; the
# port's side takes all that is there at once.


FULL = 256 * 1024  # bytes on the way, beyond which the stream waits for its reader


class Pipe:
    """Made on the port's side."""

    def __init__(self) -> None:
        self._reader_loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pieces: list[bytes] = []
        self._size = 0
        self._ended = False
        self._arrived: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    # --- the cluster's side ---

    async def pump(self, stream: Stream) -> None:
        """Carry the whole stream over; whatever ends it, it is closed."""
        try:
            async for piece in stream:
                await self._put(piece)
        finally:
            stream.close()
            self._end()

    async def _put(self, piece: bytes) -> None:
        with self._lock:
            self._pieces.append(piece)
            self._size += len(piece)
            first = len(self._pieces) == 1
            full = self._size > FULL
            if full:
                self._room = asyncio.get_running_loop().create_future()
        if first:
            self._tell_reader()
        if full and self._room:
            await self._room

    def _end(self) -> None:
        with self._lock:
            self._ended = True
        self._tell_reader()

    def _tell_reader(self) -> None:
        with contextlib.suppress(RuntimeError):  # the port has closed its loop
            self._reader_loop.call_soon_threadsafe(self._notice)

    # --- the port's side ---

    async def take(self) -> bytes | None:
        """All that is there, waiting for the first of it; None at the end."""
        while True:
            with self._lock:
                pieces, self._pieces, self._size = self._pieces, [], 0
                room, self._room = self._room, None
                ended = self._ended
                self._arrived = None if pieces or ended else self._reader_loop.create_future()
            if room:
                room.get_loop().call_soon_threadsafe(_resume, room)
            if pieces:
                return b"".join(pieces)
            if self._arrived is None:
                return None
            await self._arrived

    def cut(self) -> None:
        """End here, whatever may still come."""
        with self._lock:
            self._ended = True
        self._notice()

    def _notice(self) -> None:
        if self._arrived and not self._arrived.done():
            self._arrived.set_result(None)


def _resume(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


# One request on the port: who asks, what, and the answer written back, at once or as it comes.


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
            stream = answer.stream
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
        headers, body = answer.headers, answer.body
        headers.setdefault("Cache-Control", "no-cache, private")
        if len(body) > WORTH_ZIPPING and "gzip" in request.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            headers.update({"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
        return web.Response(body=body, status=answer.status, headers=headers)

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
        future = self._runner.submit(call)
        answer: WireAnswer = future.result() if future.done() else await asyncio.wrap_future(future)
        return answer


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


# The port: a thread with an ordinary event loop that reads HTTP, has each request answered in
# the cluster's time, and writes. It belongs to one run. Opening it makes its keys and its
# kubeconfig; closing it ends every connection and its thread.


HOST = "127.0.0.1"


class Answering(Protocol):
    """The runner of the cluster's loop."""

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]: ...


class Port:
    """Open from the moment it is made."""

    def __init__(self, wire: Wire, runner: Answering, folder: Path) -> None:
        self._keys = make_keys()
        self._handler = Handler(wire, runner, self._keys.token)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kscen-port", daemon=True
        )
        self._thread.start()
        self._runner, number = self._within(self._open())
        self.url = f"https://{HOST}:{number}"
        self.token = self._keys.token
        self.kubeconfig = folder / "kubeconfig"
        write_kubeconfig(self.kubeconfig, self.url, self._keys)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._within(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> tuple[web.ServerRunner, int]:
        server = web.Server(self._handler.handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0, ssl_context=self._keys.context()).start()
        return runner, runner.addresses[0][1]

    async def _shut(self) -> None:
        await self._handler.end_streams()
        server: Any = self._runner.server
        for transport in [
            connection.transport for connection in server.connections if connection.transport
        ]:
            transport.abort()  # a polite end of TLS waits for the client's farewell
        await self._runner.cleanup()

    def _within(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
