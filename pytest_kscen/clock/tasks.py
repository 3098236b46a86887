"""Tasks whose order never depends on an address: asyncio keeps tasks in sets, so their hash must be a number of ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator


class NumberedTask(asyncio.Task[Any]):
    """A task that hashes as its number, so that sets of tasks iterate in the same order in every run."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class TaskBook:
    """Numbers the tasks of one loop and holds them until they are done; a pending task that nobody holds is collected."""

    def __init__(self) -> None:
        self._count = 0
        self._live: dict[int, NumberedTask] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any) -> NumberedTask:
        self._count += 1
        task = NumberedTask.__new__(NumberedTask)
        task.number = self._count
        task.__init__(coroutine, loop=loop, **options)  # type: ignore[misc]  # the number comes first: asyncio hashes the task here
        if not task.done():
            self._live[self._count] = task
            task.add_done_callback(self._forget)
        return task

    def _forget(self, task: NumberedTask) -> None:
        self._live.pop(task.number, None)

    def __iter__(self) -> Iterator[NumberedTask]:
        return iter(list(self._live.values()))
