"""Tasks of both loops: their order, requests without a task, reports of a stall, crashed actors.

asyncio keeps tasks in sets, so the hash of a task must not depend on its address in memory.
"""

from __future__ import annotations

import asyncio
import pathlib
import types
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator

    from pytest_kscen.clock.loop import VirtualLoop


class NumberedTask(asyncio.Task[Any]):
    """Task whose hash is its number, so that sets of tasks iterate in the same order in every run.

    asyncio keeps tasks in weak sets, whose order would otherwise follow addresses in memory.
    """

    number = 0

    def __hash__(self) -> int:
        return self.number


class TaskRegistry:
    """Factory that numbers the tasks of one loop, and holds them until they are done.

    Without a reference, a pending task would be garbage-collected.
    """

    def __init__(self) -> None:
        self._count = 0
        self._live: dict[int, NumberedTask] = {}

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> NumberedTask:
        self._count += 1
        task = NumberedTask.__new__(NumberedTask)
        task.number = self._count
        # the number comes first: asyncio hashes the task here
        task.__init__(coroutine, loop=loop, **options)  # type: ignore[misc]
        if not task.done():
            self._live[self._count] = task
            task.add_done_callback(self._forget)
        return task

    def _forget(self, task: NumberedTask) -> None:
        self._live.pop(task.number, None)

    def __iter__(self) -> Iterator[NumberedTask]:
        return iter(list(self._live.values()))


T = TypeVar("T")


def start_request(loop: VirtualLoop, coroutine: Coroutine[Any, Any, T]) -> tuple[bool, Any]:
    """Run a request up to its first wait. Return (True, result), or (False, a coroutine that
    continues it).
    """
    # asyncio's documented hook for other event loops
    outer = asyncio._get_running_loop()  # noqa: SLF001
    asyncio._set_running_loop(loop)  # noqa: SLF001
    try:
        return False, _continue(coroutine, coroutine.send(None))
    except StopIteration as stop:
        return True, stop.value
    finally:
        asyncio._set_running_loop(outer)  # noqa: SLF001


async def _continue(coroutine: Coroutine[Any, Any, T], waits_for: Any) -> T:
    return await _resume(coroutine, waits_for)  # a task requires a coroutine, not a generator


@types.coroutine
def _resume(coroutine: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001  # cancellations too
                waits_for = coroutine.throw(error)
            else:
                waits_for = coroutine.send(sent)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def continued_request(frame: types.FrameType) -> Any:
    """Return the request that a frame of `_carry_on` continues, None for other frames."""
    return frame.f_locals["coroutine"] if frame.f_code is _continue.__code__ else None


class StalledError(RuntimeError):
    """Report that simulated time cannot move.

    Common causes: an actor waits for something that never happens; only background sleeps are left;
    a loop of sleep(0) lets no time pass.
    """


class ActorCrashedError(RuntimeError):
    """Report that an actor of the run has raised; the actor's error is the cause."""


def stalled(why: str, tasks: Iterable[asyncio.Task[Any]]) -> StalledError:
    newest_first = reversed(list(tasks))  # the test itself began to wait last
    lines = [
        f"  {task.get_name()} waits in {' > '.join(_chain(task.get_coro()))}"
        for task in newest_first
    ]
    return StalledError("\n".join([f"{why}. Waiting tasks:", *(lines or ["  (no task is left)"])]))


class StepCounter:
    """Count of steps per task in an instant that does not end, for the error's list of busiest
    tasks.
    """

    SHOWN = 8

    def __init__(self) -> None:
        self._steps: Counter[str] = Counter()

    def note(self, callbacks: Iterable[Callable[..., object]]) -> None:
        self._steps.update(_describe_callback(callback) for callback in callbacks)

    def error(self, why: str) -> StalledError:
        total = self._steps.total()
        lines = [
            f"  {count} of the last {total}: {name}"
            for name, count in self._steps.most_common(self.SHOWN)
        ]
        return StalledError("\n".join([f"{why}. Busiest tasks:", *lines]))


def _describe_callback(callback: Any) -> str:
    """Return the name of a task with its position, or of the function that a timer calls."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"{owner.get_name()} in {' > '.join(_chain(owner.get_coro())) or 'its last step'}"
    function = getattr(owner, "act", callback)
    return (
        f"{function.__module__}.{function.__qualname__}"
        if hasattr(function, "__qualname__")
        else repr(function)
    )


def _chain(awaited: Any) -> Iterator[str]:
    while awaited is not None:
        frame = (
            getattr(awaited, "cr_frame", None)
            or getattr(awaited, "ag_frame", None)
            or getattr(awaited, "gi_frame", None)
        )
        if frame is None:
            return
        if carried := continued_request(frame):
            awaited = carried
            continue
        yield (
            f"{awaited.__qualname__} "
            f"({pathlib.PurePath(frame.f_code.co_filename).name}:{frame.f_lineno})"
        )
        awaited = (
            getattr(awaited, "cr_await", None)
            or getattr(awaited, "ag_await", None)
            or getattr(awaited, "gi_yieldfrom", None)
        )


class Actors:
    """Tasks of one runner's actors, in the order of their start, and the first unreported crash.

    A crash is raised by the runner's next call, once; callbacks of `on_crash` receive every crash
    in the thread that runs the loop.
    """

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.crash: ActorCrashedError | None = None
        self._crash_callbacks: list[Callable[[ActorCrashedError], None]] = []

    def start(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], name: str
    ) -> None:
        task = loop.create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def on_crash(self, callback: Callable[[ActorCrashedError], None]) -> Callable[[], None]:
        self._crash_callbacks.append(callback)
        return lambda: self._crash_callbacks.remove(callback)

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Cancel all actors, newest first; return their tasks."""
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
        for callback in list(self._crash_callbacks):
            callback(crash)
