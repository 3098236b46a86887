"""Time that jumps: a virtual clock, and the runner that turns its loop for a synchronous test.

Between the test's calls time stands still. A call that can be answered at once is, without turning the loop. An HTTP
port may have the loop turned from its own thread while the test looks away (`submit`); one thread turns it at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kscen.clock.actors import Actors
from pytest_kscen.clock.carrying import begin
from pytest_kscen.clock.loop import VirtualLoop
from pytest_kscen.clock.pacing import Pacer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Future

    from pytest_kscen.clock.stall import ActorCrashedError

T = TypeVar("T")

START = 1767225600.0  # 2026-01-01T00:00:00Z, the instant at which every simulated run begins


class VirtualClock:
    """Simulated time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return START + self._loop.instant

    async def sleep(self, seconds: float, *, background: bool = False) -> None:
        await self._loop.sleeper(max(0.0, seconds), background=background)


class VirtualRunner:
    """Turns a virtual loop."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()  # type: ignore[abstract]  # asyncio means the rest to be left out
        self.clock = VirtualClock(self.loop)
        self._actors = Actors()
        self._pacer = Pacer(self.loop)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self._pacer.stand_aside():
            return self._run(coroutine)

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is self.loop:  # noqa: SLF001  # asyncio's documented hook for loops of others
            return _finish_at_once(coroutine)
        with self._pacer.stand_aside():
            answered, rest = begin(self.loop, coroutine)
            return rest if answered else self._run(rest)  # type: ignore[no-any-return]

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self._actors.start(self.loop, coroutine, name)

    def hear_of_crashes(self, hears: Callable[[ActorCrashedError], None]) -> Callable[[], None]:
        return self._actors.hear(hears)

    def advance(self, seconds: float) -> None:
        with self._pacer.stand_aside():
            self._run(self.clock.sleep(seconds))

    def until(self, condition: Callable[[], object], timeout: float) -> bool:
        with self._pacer.stand_aside():
            end = self.loop.create_task(self.clock.sleep(timeout), name="the test's time-out")
            held = False

            def settled() -> bool:
                nonlocal held
                held = bool(condition())
                return held

            try:
                self._turn(end.done, settled)
            finally:
                end.cancel()
            return held or settled()

    async def in_thread(self, function: Callable[[], T]) -> T:
        return await self.loop.run_in_executor(None, function)  # type: ignore[no-any-return]

    def close(self) -> None:
        with self._pacer.stand_aside():
            actors = self._actors.cancel()
            leftover = [task for task in self.loop.tasks() if task not in actors]
            for task in leftover:
                task.cancel()
            with contextlib.suppress(RuntimeError):
                self.loop.turn(lambda: not self.loop.is_busy())
            self.loop.close()
        self._pacer.close()

    # --- for other threads ---

    @property
    def replayable(self) -> bool:
        """Whether the wall has had no say: no client on a port had to wait, or asked while the test turned the loop."""
        return self.loop.replayable

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Answer another thread: within this instant, or at the pace of the wall clock if it has to wait."""
        return self._pacer.submit(coroutine)

    # --- turning ---

    def _run(self, awaitable: Awaitable[T]) -> T:
        task = asyncio.ensure_future(awaitable, loop=self.loop)
        if isinstance(task, asyncio.Task):
            task.set_name("the test")
        try:
            self._turn(task.done)
        except BaseException:
            task.cancel()
            raise
        return task.result()

    def _turn(self, done: Callable[[], object], settled: Callable[[], object] | None = None) -> None:
        self._actors.raise_crash()
        deaf = self._actors.hear(lambda _: self.loop.stop())
        try:
            self.loop.turn(done, settled=settled)
        finally:
            deaf()
        self._actors.raise_crash()


def _finish_at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("a synchronous call inside the running loop would have to wait: use the asynchronous client and await it")
