"""The official `kubernetes` client answered in this process, without a socket: sync, aio, and
dynamic on both.

No server may enter here: it comes as a `Transport`. The modules `sync` and `aio` load the client,
which is slow, so they are imported when a client is asked for and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    import kubernetes.aio.client
    import kubernetes.client

    from pytest_kscen.clock import Runner
    from pytest_kscen.kube.official.transport import Transport


def sync_client(transport: Transport, runner: Runner) -> kubernetes.client.ApiClient:
    """The synchronous client for the thread that asks for it."""
    from pytest_kscen.kube.official.sync import InProcessClient

    return InProcessClient(transport, runner)


def aio_client(
    transport: Transport, loop: asyncio.AbstractEventLoop | None = None
) -> kubernetes.aio.client.ApiClient:
    """The asynchronous client for the loop that the server lives in, and if that is named, for
    no other.
    """
    from pytest_kscen.kube.official.aio import InProcessAioClient

    return InProcessAioClient(transport, loop)
