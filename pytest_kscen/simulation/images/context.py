"""What a running container knows and can do: its command, its environment, its log, and the signal to stop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.logs import Log


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
    exit_reason: str = ""
    """What the termination shall say instead of Completed or Error, such as OOMKilled."""
    termination_message: str = ""
    """What the container leaves for its status."""
    is_stopping: bool = False
    """Whether SIGTERM has come."""
    _stopping: asyncio.Future[None] | None = None

    def write(self, text: str) -> None:
        """Append text to the container's log."""
        self.log.write(text)

    async def stopping(self) -> None:
        """Wait for SIGTERM. Who does not is killed when the grace period is over."""
        if not self.is_stopping:
            self._stopping = self._stopping or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._stopping)

    def ask_to_stop(self) -> None:
        """The kubelet's SIGTERM."""
        self.is_stopping = True
        if self._stopping and not self._stopping.done():
            self._stopping.set_result(None)

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
