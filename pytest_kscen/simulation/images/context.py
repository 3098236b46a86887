"""What a running container knows and can do: its command, its environment, its log, and the signal to stop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.clock import Clock
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
    node: str
    attempt: int
    """How often this container has been restarted before this run."""
    clock: Clock
    api: Api
    write: Callable[[str], None]
    """Append text to the container's log."""
    set_ready: Callable[[bool], None]
    """Pass or fail the readiness probe from now on, if the container has one."""
    exit_reason: str = ""
    """What the termination shall say instead of Completed or Error, such as OOMKilled."""
    _asked_to_stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_stopping(self) -> bool:
        """Whether SIGTERM has come."""
        return self._asked_to_stop.is_set()

    async def stopping(self) -> None:
        """Wait for SIGTERM. Who does not is killed when the grace period is over."""
        await self._asked_to_stop.wait()

    def ask_to_stop(self) -> None:
        """The kubelet's SIGTERM."""
        self._asked_to_stop.set()

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
