"""Official `kubernetes` clients answered in this process, without a socket: sync, aio, and dynamic
on both.

Must not import a server: callers pass it as a `Transport`. Importing the official client is slow,
so the modules `sync` and `aio` are imported when a client is first requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    import kubernetes.aio.client
    import kubernetes.client

    from pytest_kscen.clock import Runner
    from pytest_kscen.kube.official.transport import Transport


def sync_client(transport: Transport, runner: Runner) -> kubernetes.client.ApiClient:
    """Make the synchronous client for the calling thread."""
    from pytest_kscen.kube.official.sync import InProcessClient

    return InProcessClient(transport, runner)


def aio_client(
    transport: Transport, loop: asyncio.AbstractEventLoop | None = None
) -> kubernetes.aio.client.ApiClient:
    """Make the asynchronous client. If `loop` is given, requests from another loop are refused."""
    from pytest_kscen.kube.official.aio import InProcessAioClient

    return InProcessAioClient(transport, loop)
