"""Real time: a clock for real clusters, and a runner whose loop has a thread of its own."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kscen.clock.tasks import Actors

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pytest_kscen.clock.tasks import ActorCrashedError

T = TypeVar("T")

POLL = 0.1  # seconds between two checks of a condition


def elapsed() -> float:
    """Return seconds of wall time since a fixed instant: for pacing and measuring, never for
    timestamps.
    """
    return time.monotonic()


class WallClock:
    """Clock of real time that never goes back, even if the machine's clock is set back.

    It follows the machine's clock forward, since servers date objects by their own: with a late
    clock, new objects would seem to be created in the future.
    """

    def __init__(self) -> None:
        self._epoch = -math.inf

    def now(self) -> float:
        monotonic = time.monotonic()
        self._epoch = max(self._epoch, time.time() - monotonic)
        return self._epoch + monotonic

    async def sleep(self, seconds: float, *, background: bool = False) -> None:  # noqa: ARG002
        await asyncio.sleep(seconds)


class WallRunner:
    """Runner of a loop in a thread of its own, so that actors continue while the test computes.
    Calls block the test's thread until they are answered.
    """

    def __init__(self) -> None:
        self.clock = WallClock()
        self.loop = asyncio.new_event_loop()
        self._actors = Actors()
        self._thread = threading.Thread(target=self._run_thread, name="kscen-loop", daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._actors.crash or threading.current_thread() is self._thread:
            coroutine.close()
        self._actors.raise_crash()
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a synchronous call inside the running loop would block it: use the "
                "asynchronous client and await it"
            )
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            result = future.result()
        except BaseException:
            future.cancel()
            raise
        self._actors.raise_crash()
        return result

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.call(coroutine)

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self.loop.call_soon_threadsafe(self._actors.start, self.loop, coroutine, name)

    def on_crash(self, callback: Callable[[ActorCrashedError], None]) -> Callable[[], None]:
        return self._actors.on_crash(callback)

    def advance(self, seconds: float) -> None:
        self.call(self.clock.sleep(seconds))

    def until(self, condition: Callable[[], object], timeout: float) -> bool:
        end = elapsed() + timeout
        while not condition():
            self._actors.raise_crash()
            if elapsed() >= end:
                return bool(condition())
            time.sleep(POLL)
        return True

    async def in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    def close(self, last: Coroutine[Any, Any, Any] | None = None) -> None:
        """Cancel all actors and close the loop. `last` runs in between, and closes the actors'
        connections.
        """
        if self.loop.is_closed():
            if last:
                last.close()
            return
        asyncio.run_coroutine_threadsafe(self._end_actors(last), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _end_actors(self, last: Coroutine[Any, Any, Any] | None) -> None:
        await asyncio.gather(*self._actors.cancel(), return_exceptions=True)
        leftover = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in leftover:
            task.cancel()
        await asyncio.gather(*leftover, return_exceptions=True)
        if last:
            await last
        await self.loop.shutdown_asyncgens()

    def _run_thread(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
