"""The way from the real API server to machines that are simulated: it connects through a socket that ends here.

Whatever it wants of a kubelet, which is the log of a container, is answered in this process, whichever address the node
has; and what it passes on to a simulated pod, by that pod. Everything else, such as a webhook, is passed on to where it was
meant to go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from pytest_kscen.clusters.controlplane.pods import answer_for
from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    import pathlib
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

    from pytest_kscen.simulation.kubelet.web import Web

    ReadLog = Callable[[str, str, str, Mapping[str, str]], Awaitable[str]]

logger = logging.getLogger(__name__)

KUBELET_PORT = 10250


class Tunnel:
    """The socket. `read_log` is asked with namespace, pod, container and the query."""

    def __init__(self, path: pathlib.Path, tls: ssl.SSLContext, read_log: ReadLog, web: Web) -> None:
        self._path = path
        self._tls = tls
        self._read_log = read_log
        self._web = web
        self._server: asyncio.Server | None = None
        self._visits: dict[asyncio.Task[None], None] = {}

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._visit, self._path)

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._visits[task] = None
        try:
            await self._serve(reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            logger.debug("a visit of the API server broke off: %s", error)
        finally:
            del self._visits[task]
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, target, _ = await _request_line(reader)
        host, _, text = target.rpartition(":")
        address, port = host.strip("[]"), int(text)
        if port != KUBELET_PORT:
            if self._web.knows(address):
                await answer_for(self._web, address, port, reader, writer)
            else:
                await _pass_on(address, port, reader, writer)
            return
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await writer.start_tls(self._tls)
        _, path, _ = await _request_line(reader)
        code, text = await self._answer(path)
        body = text.encode()
        writer.write(f"HTTP/1.1 {code} -\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    async def _answer(self, target: str) -> tuple[int, str]:
        url = urlsplit(target)
        match [unquote(part) for part in url.path.split("/")]:
            case ["", "containerLogs", namespace, pod, container]:
                try:
                    return 200, await self._read_log(namespace, pod, container, dict(parse_qsl(url.query)))
                except ApiError as error:
                    return int(error.status["code"]), error.message
        return 404, f"simulated kubelets do not serve {url.path}"


async def _request_line(reader: asyncio.StreamReader) -> list[str]:
    """Method, target and version; the headers say nothing that matters here."""
    head = await reader.readuntil(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].decode().split(" ")
    if len(words) != len(("method", "target", "version")):
        raise ValueError(f"this is no HTTP: {words}")
    return words


async def _pass_on(host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        far_reader, far_writer = await asyncio.open_connection(host, port)
    except (OSError, OverflowError) as error:
        writer.write(f"HTTP/1.1 502 {getattr(error, 'strerror', None) or error}\r\n\r\n".encode())
        await writer.drain()
        return
    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    try:
        await asyncio.gather(_pour(reader, far_writer), _pour(far_reader, writer))
    finally:
        far_writer.transport.abort()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(2**16):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
