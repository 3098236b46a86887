"""Server with scripted responses, and a clock on which waits take no time."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    import ssl

    from pytest_kscen.clock import WallRunner

POD = {"metadata": {"name": "p", "namespace": "ns"}}


class ScriptedServer:
    """HTTP server that answers each request with the next scripted response and records it."""

    def __init__(self, loop: WallRunner) -> None:
        self.loop = loop
        self.script: list[Any] = []
        self.requests: list[str] = []
        self.bodies: list[Any] = []
        self.headers: list[Any] = []
        self.url = ""

    def enqueue(self, *answers: Any) -> None:
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
        self.requests.append(f"{request.method} {request.raw_path}")
        self.bodies.append(json.loads(text) if text else None)
        self.headers.append(request.headers)
        answer = self.script.pop(0) if self.script else {}
        if callable(answer):
            return await answer(request)
        if isinstance(answer, web.StreamResponse):
            return answer
        return web.json_response(answer)


class InstantClock:
    """Clock on which waits take no time; records their durations."""

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


def watch_stream(*events: tuple[str, str], ends: str = "") -> Any:
    """Return a watch response, which may end with an incomplete line or a broken connection."""

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


async def drop_connection(request: web.Request) -> web.StreamResponse:
    request.transport.abort()
    return web.Response()


async def watched_names(watch: Any) -> list[str]:
    return [event.object["metadata"]["name"] async for event in watch]
