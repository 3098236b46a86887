"""The tasks that an actor lets live beside itself: held while they live, ended with the actor,
and heard when one crashes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Never


class ChildTasks:
    """Tasks in the order in which they were born."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], bool] = {}
        self._crash: asyncio.Future[Never] | None = None
        self._early: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether there are others than those in the background."""
        return not all(self._tasks.values())

    def start(
        self, coroutine: Coroutine[Any, Any, Any], name: str, *, background: bool = False
    ) -> asyncio.Task[Any]:
        """In the background live those that never end."""
        self._loop = self._loop or asyncio.get_running_loop()
        task = self._loop.create_task(coroutine, name=name)
        self._tasks[task] = background
        task.add_done_callback(self._ended)
        return task

    def start_soon(self, begin: Callable[[], Coroutine[Any, Any, Any]], name: str) -> None:
        """The same from outside the loop as well, of a brood that already has a task: the loop's
        next turn begins it.
        """
        # asyncio's documented hook
        if self._loop is None or asyncio._get_running_loop() is self._loop:  # noqa: SLF001
            self.start(begin(), name)
        else:
            self._loop.call_soon_threadsafe(lambda: self.start(begin(), name))

    async def watch(self) -> Never:
        """Live until one crashes, and raise what it raised; then, or when the watch is over, end
        them all.
        """
        self._crash = asyncio.get_running_loop().create_future()
        try:
            if self._early:
                raise self._early
            await self._crash
        finally:
            self._crash = None
            for task in reversed(self._tasks):
                task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error and self._crash is None:
            self._early = self._early or error
        elif error and self._crash and not self._crash.done():
            self._crash.set_exception(error)
