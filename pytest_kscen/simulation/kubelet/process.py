"""One run of one container: its behaviour in a task, until it ends by itself, or is killed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.simulation.images import ContainerContext

logger = logging.getLogger(__name__)

KILLED = 137


class Exit(NamedTuple):
    """How a run ended."""

    code: int
    reason: str


class Process:
    """Begins when it is made."""

    def __init__(self, run: Callable[[ContainerContext], Awaitable[int]], context: ContainerContext) -> None:
        loop = asyncio.get_running_loop()
        self.context = context
        self._ended: asyncio.Future[Exit] = loop.create_future()
        self._task = loop.create_task(self._run(run), name=f"container {context.pod['metadata']['name']}/{context.name}")

    async def _run(self, run: Callable[[ContainerContext], Awaitable[int]]) -> None:
        context = self.context
        try:
            code = await run(context)
        except Exception as error:  # a program that crashes ends its container, not the machine
            context.write(f"{type(error).__name__}: {error}\n")
            logger.warning("%s in %s crashed", context.name, context.pod["metadata"]["name"], exc_info=error)
            code = 1
        self._end(Exit(code, context.exit_reason or ("Error" if code else "Completed")))

    def _end(self, exit_: Exit) -> None:
        if not self._ended.done():
            self._ended.set_result(exit_)

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        self.context.ask_to_stop()

    def kill(self, code: int = KILLED, reason: str = "Error") -> None:
        """SIGKILL, or whatever else leaves it no choice."""
        self._end(Exit(code, reason))
        self._task.cancel()

    async def end(self) -> Exit:
        """Wait for its end; who stops waiting does not stop it."""
        return await asyncio.shield(self._ended)
