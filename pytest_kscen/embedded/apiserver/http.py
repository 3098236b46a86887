"""HTTPS port on loopback: a thread with its own event loop that reads requests and writes answers.

Each request is answered on the cluster's loop, in cluster time. One port belongs to one run:
opening it creates its keys and kubeconfig, closing it ends every connection and the thread. Must
not interpret requests; that is `wire`'s part.
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
from pytest_kscen.embedded.apiserver.wire import refuse
from pytest_kscen.objects.errors import InternalError, TooLarge, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future
    from pathlib import Path

    from pytest_kscen.embedded.apiserver.wire import ResponseStream, Wire, WireAnswer


PIPE_LIMIT = 256 * 1024  # bytes in the pipe above which the stream waits for its reader


class StreamPipe:
    """Bounded buffer of a streamed answer between the cluster's thread and the port's thread.

    The cluster's side appends chunks and waits while more than 256 KiB are unread; the port's side
    takes all chunks at once. Created on the port's loop.
    """

    def __init__(self) -> None:
        self._reader_loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._chunks: list[bytes] = []
        self._size = 0
        self._ended = False
        self._arrived: asyncio.Future[None] | None = None
        self._space: asyncio.Future[None] | None = None

    # Cluster's side.

    async def pump(self, stream: ResponseStream) -> None:
        """Copy the whole stream into the pipe, and close the stream however the copy ends."""
        try:
            async for chunk in stream:
                await self._put(chunk)
        finally:
            stream.close()
            with self._lock:
                self._ended = True
            self._notify_reader()

    async def _put(self, chunk: bytes) -> None:
        with self._lock:
            self._chunks.append(chunk)
            self._size += len(chunk)
            first = len(self._chunks) == 1
            full = self._size > PIPE_LIMIT
            if full:
                self._space = asyncio.get_running_loop().create_future()
        if first:
            self._notify_reader()
        if full and self._space:
            await self._space

    def _notify_reader(self) -> None:
        with contextlib.suppress(RuntimeError):  # the port's loop is closed
            self._reader_loop.call_soon_threadsafe(self._wake)

    # Port's side.

    async def take(self) -> bytes | None:
        """Return all buffered bytes, waiting for the first; None at the end.

        Resumes the cluster's side if it waits for space.
        """
        while True:
            with self._lock:
                chunks, self._chunks, self._size = self._chunks, [], 0
                space, self._space = self._space, None
                ended = self._ended
                self._arrived = None if chunks or ended else self._reader_loop.create_future()
            if space:
                space.get_loop().call_soon_threadsafe(_resume, space)
            if chunks:
                return b"".join(chunks)
            if self._arrived is None:
                return None
            await self._arrived

    def abort(self) -> None:
        with self._lock:
            self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._arrived:
            _resume(self._arrived)


def _resume(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


logger = logging.getLogger(__name__)

PUBLIC_PATHS = ("healthz", "livez", "readyz", "version")
FORWARDED_HEADERS = (
    "accept",
    "content-type",
    "user-agent",
    "impersonate-user",
    "if-none-match",
    "upgrade",
)
BODY_LIMIT = 3 * 1024 * 1024
STREAM_END_TIMEOUT = 0.5  # seconds
GZIP_MINIMUM = 128 * 1024


class PortHandler:
    """Request handler of one port: authorizes, forwards to the wire and writes the answer back.

    Every path but health and version needs the run's bearer token. Keeps the open streams, so that
    closing the port can end them.
    """

    def __init__(self, wire: Wire, runner: CoroutineRunner, token: str) -> None:
        self._wire = wire
        self._runner = runner
        self._secret = f"Bearer {token}".encode()
        self._pipes: dict[StreamPipe, None] = {}

    async def end_streams(self) -> None:
        """End every open stream as if it had timed out; wait at most half a second for the
        readers.
        """
        for pipe in self._pipes:
            pipe.abort()
        clock = WallClock()
        end = clock.now() + STREAM_END_TIMEOUT
        while self._pipes and clock.now() < end:
            await clock.sleep(0.005)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = await self._answer(request)
        if answer.stream:
            stream = answer.stream
            response = web.StreamResponse(status=answer.status, headers=answer.headers)
            pipe = StreamPipe()
            self._pipes[pipe] = None
            transfer = self._runner.submit(pipe.pump(stream))
            try:
                await response.prepare(request)
                while (chunks := await pipe.take()) is not None:
                    await response.write(chunks)
                await response.write_eof()
            finally:
                transfer.cancel()
                del self._pipes[pipe]
            return response
        headers, body = answer.headers, answer.body
        headers.setdefault("Cache-Control", "no-cache, private")
        if len(body) > GZIP_MINIMUM and "gzip" in request.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            headers.update({"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
        return web.Response(body=body, status=answer.status, headers=headers)

    def _is_authorized(self, request: web.BaseRequest) -> bool:
        header = request.headers.get("Authorization")
        if header is None:
            return request.path.partition("/")[2].partition("/")[0] in PUBLIC_PATHS
        return hmac.compare_digest(header.encode(errors="surrogateescape"), self._secret)

    async def _answer(self, request: web.BaseRequest) -> WireAnswer:
        """Return the answer; an unexpected error is logged and becomes an InternalError (500)."""
        try:
            if not self._is_authorized(request):
                return refuse(Unauthorized("Unauthorized"))
            body = await _body_of(request)
            if body is None:
                return refuse(TooLarge(f"Request entity too large: limit is {BODY_LIMIT}"))
            headers = {
                name: request.headers[name] for name in FORWARDED_HEADERS if name in request.headers
            }
            url = request.rel_url
            call = self._wire.call(
                request.method, url.raw_path, url.raw_query_string, headers, body
            )
            future = self._runner.submit(call)
            answer: WireAnswer = (
                future.result() if future.done() else await asyncio.wrap_future(future)
            )
        except Exception as error:
            logger.exception("%s %s could not be answered", request.method, request.path)
            return refuse(InternalError(f"Internal error occurred: {error!r}"))
        return answer


async def _body_of(request: web.BaseRequest) -> bytes | None:
    """Return the whole body, or None if it exceeds the limit of 3 MiB."""
    if not request.body_exists:
        return b""
    if (request.content_length or 0) > BODY_LIMIT:
        return None
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > BODY_LIMIT:
            return None
    return bytes(body)


HOST = "127.0.0.1"


class CoroutineRunner(Protocol):
    """Runner of the cluster's event loop; `submit` may be called from any thread.

    The returned future may be done already, in which case the port's loop need not wait.
    """

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]: ...


class HttpsPort:
    """HTTPS server of one run on a free port of 127.0.0.1, open from its construction until
    `close`.

    `url`, `token` and `kubeconfig` (a path in the given folder) let clients in. Both construction
    and `close` block until the port's thread has done its part.
    """

    def __init__(self, wire: Wire, runner: CoroutineRunner, folder: Path) -> None:
        self._keys = make_keys()
        self._handler = PortHandler(wire, runner, self._keys.token)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kscen-port", daemon=True
        )
        self._thread.start()
        self._runner, number = self._run(self._open())
        self.url = f"https://{HOST}:{number}"
        self.token = self._keys.token
        self.kubeconfig = folder / "kubeconfig"
        write_kubeconfig(self.kubeconfig, self.url, self._keys)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._end_connections())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> tuple[web.ServerRunner, int]:
        server = web.Server(self._handler.handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0, ssl_context=self._keys.context()).start()
        return runner, runner.addresses[0][1]

    async def _end_connections(self) -> None:
        await self._handler.end_streams()
        server: Any = self._runner.server
        for transport in [
            connection.transport for connection in server.connections if connection.transport
        ]:
            transport.abort()  # a clean TLS shutdown waits for the client's close_notify
        await self._runner.cleanup()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
