"""What a running container knows and can do: its command, its environment, its log, and the
signal to stop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.logs import Log
    from pytest_kscen.embedded.kubelet.network.hosts import NetworkHost
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj


@dataclass(slots=True)
class ContainerContext:
    """Handed to a behaviour for one run of one container; a restart gets a new one."""

    name: str
    image: str
    command: list[str]
    args: list[str]
    env: Mapping[str, str]
    files: Mapping[str, str]
    pod: Obj
    address: str
    """The pod's."""
    node: str
    attempt: int
    """How often this container has been restarted before this run."""
    clock: Clock
    api: Api
    log: Log
    set_ready: Callable[[bool], None]
    """Pass or fail the readiness probe from now on, if the container has one."""
    host: NetworkHost | None = None
    """Its place in the network."""
    exit_reason: str = ""
    """What the termination shall say instead of Completed or Error, such as OOMKilled."""
    termination_message: str = ""
    """What the container leaves for its status."""
    is_stopping: bool = False
    """Whether SIGTERM has come."""
    _waiting: list[asyncio.Future[None]] = field(default_factory=list)

    def write(self, text: str) -> None:
        """Append text to the container's log."""
        self.log.write(text)

    async def stopping(self, *, within: float | None = None) -> bool:
        """Wait for SIGTERM, at most this many seconds; whether it has come.

        Who does not is killed after the grace period.
        """
        loop = asyncio.get_running_loop()
        if not self.is_stopping:
            future = loop.create_future()
            self._waiting.append(future)
            timer = None if within is None else loop.call_later(within, _wake, future)
            try:
                await future
            finally:
                self._waiting.remove(future)
                if timer:
                    timer.cancel()
        return self.is_stopping

    def terminate(self) -> None:
        """The kubelet's SIGTERM."""
        self.is_stopping = True
        for future in self._waiting:
            _wake(future)

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def image_names(image: str) -> tuple[str, str, str]:
    """As it is written, without tag and digest, and its last part alone."""
    head, slash, tail = image.split("@", 1)[0].rpartition("/")
    bare = tail.split(":", 1)[0]
    return image, head + slash + bare, bare


def canonical_image(image: str) -> str:
    """As a node reports it: with registry, repository and tag."""
    head, _, tail = image.rpartition("/")
    named = tail if ":" in tail or "@" in image else tail + ":latest"
    if not head:
        return f"docker.io/library/{named}"
    registry = head.split("/", 1)[0]
    is_host = "." in registry or ":" in registry or registry == "localhost"
    return f"{head}/{named}" if is_host else f"docker.io/{head}/{named}"
