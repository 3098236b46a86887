"""The port: a thread with an ordinary event loop that reads HTTP, has each request answered in the cluster's time, and writes.

It belongs to one run. Opening it makes its keys and its kubeconfig; closing it ends every connection and its thread.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web

from pytest_kscen.machinery.http.handling import Handler
from pytest_kscen.machinery.http.keys import make_keys
from pytest_kscen.machinery.http.kubeconfig import write_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future
    from pathlib import Path

    from pytest_kscen.machinery.wire import Wire

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
        self._thread = threading.Thread(target=self._loop.run_forever, name="kscen-port", daemon=True)
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
        for transport in [connection.transport for connection in server.connections if connection.transport]:
            transport.abort()  # a polite end of TLS waits for the client's farewell
        await self._runner.cleanup()

    def _within(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
