"""The actors beside a test: held while they live, in the order of their birth, and heard when one crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clock.stall import ActorCrashedError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine


class Actors:
    """The tasks of one runner's actors, and the first crash among them that nobody has been told of."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.crash: ActorCrashedError | None = None
        self._hearing: list[Callable[[ActorCrashedError], None]] = []

    def start(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        task = loop.create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def hear(self, hears: Callable[[ActorCrashedError], None]) -> Callable[[], None]:
        self._hearing.append(hears)
        return lambda: self._hearing.remove(hears)

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Tell all of them to end, newest first."""
        tasks = list(reversed(self._tasks))
        for task in tasks:
            task.cancel()
        return tasks

    def raise_crash(self) -> None:
        if self.crash:
            crash, self.crash = self.crash, None
            raise crash

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if task.cancelled() or not (error := task.exception()):
            return
        crash = ActorCrashedError(f"the actor {task.get_name()} crashed: {error!r}")
        crash.__cause__ = error
        self.crash = self.crash or crash
        for hears in list(self._hearing):
            hears(crash)
