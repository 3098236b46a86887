"""One run of one container: its behaviour in a task, until it ends by itself, or is killed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.images import SimulationMistake

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
    """Begins when it is made. One that only waits to be stopped needs no task for that."""

    __slots__ = ("_exit", "_task", "_waiting", "context")

    def __init__(self, run: Callable[[ContainerContext], Awaitable[int]] | None, context: ContainerContext) -> None:
        self.context = context
        self._exit: Exit | SimulationMistake | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        if run:
            name = f"container {context.pod['metadata']['name']}/{context.name}"
            self._task = asyncio.get_running_loop().create_task(self._run(run), name=name)

    async def _run(self, run: Callable[[ContainerContext], Awaitable[int]]) -> None:
        context = self.context
        try:
            code = await run(context)
        except SimulationMistake as mistake:  # no container has crashed: the machine has, for whoever waits for the end
            self._end(mistake)
            return
        except Exception as error:  # a program that crashes ends its container, not the machine
            context.write(f"{type(error).__name__}: {error}\n")
            logger.warning("%s in %s crashed", context.name, context.pod["metadata"]["name"], exc_info=error)
            code = 1
        finally:
            self._task = None  # whose traceback may lead back here
        self._end(Exit(code, context.exit_reason or ("Error" if code else "Completed")))

    def _end(self, exit_: Exit | SimulationMistake) -> None:
        if self._exit is None:
            self._exit = exit_
            for future in self._waiting:
                if not future.done():
                    future.set_result(None)

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        self.context.ask_to_stop()
        if self._task is None:
            self._end(Exit(0, "Completed"))

    def kill(self, code: int = KILLED, reason: str = "Error") -> None:
        """SIGKILL, or whatever else leaves it no choice."""
        self._end(Exit(code, reason))
        if self._task:
            self._task.cancel()

    async def end(self) -> Exit:
        """Wait for its end; who stops waiting does not stop it. A mistake of the simulation's own is raised."""
        while self._exit is None:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        if isinstance(self._exit, SimulationMistake):
            raise self._exit
        return self._exit
