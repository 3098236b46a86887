"""A connection of the real API server to a simulated pod: HTTP, request after request, answered by the simulation.

It is made when somebody listens; a pod that cannot be reached, or does not listen, is told in the words of Go's dialler.
"""

from __future__ import annotations

import asyncio
import http.client
from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import HttpAnswer, HttpCall

if TYPE_CHECKING:
    from pytest_kscen.simulation.kubelet.web import Web

ENDS = {"connection", "content-length", "transfer-encoding"}  # headers of one hop


async def answer_for(web: Web, address: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await web.dial(address, port)
    except OSError as error:
        writer.write(f"HTTP/1.1 502 {error}\r\n\r\n".encode())
        await writer.drain()
        return
    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    while call := await _next_call(reader):
        writer.write(_written(await web.ask(address, port, call), is_head=call.method == "HEAD"))
        await writer.drain()


async def _next_call(reader: asyncio.StreamReader) -> HttpCall | None:
    """None when no more comes."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    found = {name.lower(): value for name, value in headers}
    if "chunked" in found.get("transfer-encoding", ""):
        return HttpCall(method, target, tuple(headers), await _chunks(reader))
    return HttpCall(method, target, tuple(headers), await reader.readexactly(int(found.get("content-length") or 0)))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:size]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers
    return body


def _written(answer: HttpAnswer, *, is_head: bool) -> bytes:
    words = http.client.responses.get(answer.status, "-")
    lines = [f"HTTP/1.1 {answer.status} {words}"]
    lines += [f"{name}: {value}" for name, value in answer.headers if name.lower() not in ENDS]
    lines += [f"Content-Length: {len(answer.body)}", "", ""]
    return "\r\n".join(lines).encode() + (b"" if is_head else answer.body)
