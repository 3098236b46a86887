"""Child tasks of an actor: they live as long as the actor, and a crash of one is raised in it.

Used by the kubelets, the scheduler and simulated third parties; no other module may create tasks
for an actor.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Never


class ChildTasks:
    """Tasks of one actor in the order in which they were started; `watch` cancels them in
    reverse order.
    """

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], bool] = {}
        self._crash: asyncio.Future[Never] | None = None
        self._early: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def has_foreground_tasks(self) -> bool:
        """Return True if some task is not a background task, so that the actor still has work
        to finish.
        """
        return not all(self._tasks.values())

    def start(
        self, coroutine: Coroutine[Any, Any, Any], name: str, *, background: bool = False
    ) -> asyncio.Task[Any]:
        """Start a task. Background tasks never end and do not count as work."""
        self._loop = self._loop or asyncio.get_running_loop()
        task = self._loop.create_task(coroutine, name=name)
        self._tasks[task] = background
        task.add_done_callback(self._ended)
        return task

    def start_soon(self, begin: Callable[[], Coroutine[Any, Any, Any]], name: str) -> None:
        """Start a task at the loop's next turn; may be called from outside the loop once a task
        was started.
        """
        # _get_running_loop is a documented hook of asyncio for event loops
        if self._loop is None or asyncio._get_running_loop() is self._loop:  # noqa: SLF001
            self.start(begin(), name)
        else:
            self._loop.call_soon_threadsafe(lambda: self.start(begin(), name))

    async def watch(self) -> Never:
        """Run until a child crashes, and raise its exception. Cancel all children then, or when
        this coroutine is cancelled.

        A crash before the first call is raised at once.
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
