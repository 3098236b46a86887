"""Interface of a running container for its behaviour: command, environment, log, and SIGTERM.

Also the forms in which image names are compared and reported.
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
    """Context of one run of one container, passed to its behaviour. A restart gets a new one.

    A behaviour waits through `sleep` and `stopping` only, and ends when it returns its exit code.
    """

    name: str
    image: str
    command: list[str]
    args: list[str]
    env: Mapping[str, str]
    files: Mapping[str, str]
    pod: Obj
    address: str
    """IP address of the pod."""
    node: str
    attempt: int
    """Number of restarts of this container before this run."""
    clock: Clock
    api: Api
    log: Log
    set_ready: Callable[[bool], None]
    """Pass or fail the readiness probe from now on, if the container has one."""
    host: NetworkHost | None = None
    """Network position of the container."""
    exit_reason: str = ""
    """Reason of the termination instead of Completed or Error, such as OOMKilled."""
    termination_message: str = ""
    """Message for the container's status."""
    is_stopping: bool = False
    """True once SIGTERM was sent."""
    _waiting: list[asyncio.Future[None]] = field(default_factory=list)

    def write(self, text: str) -> None:
        self.log.write(text)

    async def stopping(self, *, within: float | None = None) -> bool:
        """Wait for SIGTERM, at most `within` seconds, and return True if it was sent.

        A behaviour that ignores SIGTERM is killed after the grace period.
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
        """Deliver SIGTERM: wake every `stopping` and set `is_stopping`. Called by the kubelet,
        once per run; the behaviour decides when it ends.
        """
        self.is_stopping = True
        for future in self._waiting:
            _wake(future)

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def image_names(image: str) -> tuple[str, str, str]:
    """Return the forms of an image name for matching: as written, without tag and digest, and
    the last part alone.
    """
    head, slash, tail = image.split("@", 1)[0].rpartition("/")
    bare = tail.split(":", 1)[0]
    return image, head + slash + bare, bare


def canonical_image(image: str) -> str:
    """Return the image name as a node reports it, with registry, repository and tag."""
    head, _, tail = image.rpartition("/")
    named = tail if ":" in tail or "@" in image else tail + ":latest"
    if not head:
        return f"docker.io/library/{named}"
    registry = head.split("/", 1)[0]
    is_host = "." in registry or ":" in registry or registry == "localhost"
    return f"{head}/{named}" if is_host else f"docker.io/{head}/{named}"
