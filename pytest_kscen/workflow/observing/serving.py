"""Metrics over HTTP, on loopback, for a Prometheus that comes and asks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from pytest_kscen.workflow.observing.exposition import CONTENT_TYPE

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.workflow.observing.metrics import Metrics

HOST = "127.0.0.1"


async def serve(metrics: Metrics, port: int) -> Never:
    """Until this is cancelled."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text().encode(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/metrics", answer)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        await asyncio.get_running_loop().create_future()
    finally:
        await runner.cleanup()
    raise AssertionError
