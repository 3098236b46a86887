"""Official `kubernetes` client answered in this process, without a socket: sync, aio, and
dynamic on both.

Must not import a server, which comes as a `Transport`. The modules `sync` and `aio` load the
client, which is slow, so they are imported when a client is first requested.
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
    """Make the asynchronous client for the loop of the server, and for no other if that loop is
    given.
    """
    from pytest_kscen.kube.official.aio import InProcessAioClient

    return InProcessAioClient(transport, loop)
