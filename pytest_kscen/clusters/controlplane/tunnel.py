"""Tunnel of the real API server to simulated machines, through a Unix socket in this process.

Requests to kubelets (container logs) are answered here for any node, and connections to simulated
pods by these pods. All other connections, such as those to webhooks, are forwarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from pytest_kscen.kube.api import HttpCall
from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    import pathlib
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

    from pytest_kscen.embedded.kubelet.pod_http import PodHttpClient

    ReadLog = Callable[[str, str, str, Mapping[str, str]], Awaitable[str]]


HOP_HEADERS = {"connection", "content-length", "transfer-encoding"}  # headers of one hop


async def serve_simulated_pod(
    web: PodHttpClient,
    address: str,
    port: int,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Serve HTTP requests to a simulated pod until the connection ends. A pod that cannot be
    reached, or does not listen, gives an error in the words of Go's dialer.
    """
    try:
        await web.dial(address, port)
    except OSError as error:
        writer.write(f"HTTP/1.1 502 {error}\r\n\r\n".encode())
        await writer.drain()
        return
    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    while call := await _read_request(reader):
        answer = await web.ask(address, port, call)
        lines = [f"HTTP/1.1 {answer.status} {http.client.responses.get(answer.status, '-')}"]
        lines += [
            f"{name}: {value}" for name, value in answer.headers if name.lower() not in HOP_HEADERS
        ]
        lines += [f"Content-Length: {len(answer.body)}", "", ""]
        writer.write("\r\n".join(lines).encode() + (b"" if call.method == "HEAD" else answer.body))
        await writer.drain()


async def _read_request(reader: asyncio.StreamReader) -> HttpCall | None:
    """Return the next request; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = [
        (name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)
    ]
    found = {name.lower(): value for name, value in headers}
    if "chunked" not in found.get("transfer-encoding", ""):
        body = await reader.readexactly(int(found.get("content-length") or 0))
    else:
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:size]
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass  # trailers
    return HttpCall(method, target, tuple(headers), body)


logger = logging.getLogger(__name__)

KUBELET_PORT = 10250


class Tunnel:
    """Server of the tunnel's socket. `read_log` is called with namespace, pod, container and
    query.
    """

    def __init__(
        self, path: pathlib.Path, tls: ssl.SSLContext, read_log: ReadLog, web: PodHttpClient
    ) -> None:
        self._path = path
        self._tls = tls
        self._read_log = read_log
        self._web = web
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], None] = {}

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._handle_connection, self._path)

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task
        self._connections[task] = None
        try:
            await self._serve_connection(reader, writer)
        except (
            OSError,
            ValueError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ) as error:
            logger.debug("a visit of the API server broke off: %s", error)
        finally:
            del self._connections[task]
            writer.transport.abort()

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        _, target, _ = await _read_request_line(reader)
        host, _, text = target.rpartition(":")
        address, port = host.strip("[]"), int(text)
        if port != KUBELET_PORT:
            if self._web.serves(address):
                await serve_simulated_pod(self._web, address, port, reader, writer)
            else:
                await _forward(address, port, reader, writer)
            return
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await writer.start_tls(self._tls)
        _, path, _ = await _read_request_line(reader)
        code, text = await self._answer_kubelet_request(path)
        body = text.encode()
        writer.write(
            (
                f"HTTP/1.1 {code} -\r\nContent-Type: text/plain\r\nContent-Length: "
                f"{len(body)}\r\n\r\n"
            ).encode()
            + body
        )
        await writer.drain()

    async def _answer_kubelet_request(self, target: str) -> tuple[int, str]:
        url = urlsplit(target)
        match [unquote(part) for part in url.path.split("/")]:
            case ["", "containerLogs", namespace, pod, container]:
                try:
                    return 200, await self._read_log(
                        namespace, pod, container, dict(parse_qsl(url.query))
                    )
                except ApiError as error:
                    return int(error.status["code"]), error.message
        return 404, f"simulated kubelets do not serve {url.path}"


async def _read_request_line(reader: asyncio.StreamReader) -> list[str]:
    """Return method, target and version of a request; its headers are skipped."""
    head = await reader.readuntil(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].decode().split(" ")
    if len(words) != len(("method", "target", "version")):
        raise ValueError(f"not an HTTP request: {words}")
    return words


async def _forward(
    host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        far_reader, far_writer = await asyncio.open_connection(host, port)
    except (OSError, OverflowError) as error:
        writer.write(f"HTTP/1.1 502 {getattr(error, 'strerror', None) or error}\r\n\r\n".encode())
        await writer.drain()
        return
    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    try:
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    finally:
        far_writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(2**16):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
