"""The actors beside a test: held while they live, in the order of their birth, and heard when one crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.clock.stall import ActorCrashedError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine


class Actors:
    """The tasks of one runner's actors, and the first crash among them that nobody has been told of."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.crash: tuple[str, BaseException] | None = None

    def start(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        task = loop.create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Tell all of them to end, newest first."""
        tasks = list(reversed(self._tasks))
        for task in tasks:
            task.cancel()
        return tasks

    def raise_crash(self) -> None:
        if self.crash:
            (name, error), self.crash = self.crash, None
            raise ActorCrashedError(f"the actor {name} crashed: {error!r}") from error

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) and not self.crash:
            self.crash = (task.get_name(), error)
