"""A server that says what each test tells it to say, the words it is told, and a clock on which
nothing takes time.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    import ssl

    from pytest_kscen.clock import WallRunner

POD = {"metadata": {"name": "p", "namespace": "ns"}}


class Scripted:
    """A server with a script: each request gets the next answer, and is kept with its body."""

    def __init__(self, loop: WallRunner) -> None:
        self.loop = loop
        self.script: list[Any] = []
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.headers: list[Any] = []
        self.url = ""

    def says(self, *answers: Any) -> None:
        self.script += answers

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self.answer)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self.runner.setup()
        self.url = await self.serve()

    async def serve(self, tls: ssl.SSLContext | None = None) -> str:
        """Open another port."""
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=tls).start()
        return f"{'https' if tls else 'http'}://127.0.0.1:{self.runner.addresses[-1][1]}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.asked.append(f"{request.method} {request.raw_path}")
        self.bodies.append(json.loads(text) if text else None)
        self.headers.append(request.headers)
        answer = self.script.pop(0) if self.script else {}
        if callable(answer):
            return await answer(request)
        if isinstance(answer, web.StreamResponse):
            return answer
        return web.json_response(answer)


class Hasty:
    """A clock on which nothing takes time; it remembers what was to be waited for."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float, *, background: bool = False) -> None:
        self.slept.append(seconds)


def refusal(
    code: int, reason: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return web.json_response(status, status=code, headers=headers)


def lines(*events: tuple[str, str], ends: str = "") -> Any:
    """A watch's stream; it may end with half a line, or break off."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for type_, name in events:
            await response.write(
                json.dumps({"type": type_, "object": {"metadata": {"name": name}}}).encode() + b"\n"
            )
        if ends == "half a line":
            await response.write(b'{"type": "ADDED", "obj')
        if ends == "breaking off":
            request.transport.abort()
        if ends == "never":
            await asyncio.Event().wait()
        return response

    return stream


async def drop(request: web.Request) -> web.StreamResponse:
    request.transport.abort()
    return web.Response()


async def names(watch: Any) -> list[str]:
    return [event.object["metadata"]["name"] async for event in watch]
