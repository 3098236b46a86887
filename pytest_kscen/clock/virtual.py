"""Simulated time: its clock, and the runner that drives its loop for a synchronous test.

Time does not move between the test's calls. A request that need not wait is answered without
running the loop. Other threads (an HTTP port) call `submit`; one thread runs the loop at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kscen.clock.loop import VirtualLoop
from pytest_kscen.clock.tasks import Actors, start_request
from pytest_kscen.clock.wall import elapsed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from pytest_kscen.clock.tasks import ActorCrashedError


class Pacer:
    """Runner of the loop for requests of other threads, between the test's own calls.

    A request that need not wait is answered at once, without running other tasks. For a request
    that waits (a watch, `kubectl wait`), the pacer's thread runs the loop at the speed of the wall
    clock until it is answered. The test's thread has precedence.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._turn_lock = threading.RLock()
        self._change = threading.Condition()
        self._wanted = 0
        self._submitted = 0
        self._waiting: dict[asyncio.Task[Any], Future[Any]] = {}
        self._thread: threading.Thread | None = None
        self._closing = False

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Reserve the loop for the calling thread during the block; the pacer's thread pauses."""
        with self._change:
            self._wanted += 1
        self._loop.nudge()
        try:
            with self._turn_lock:
                yield
        finally:
            with self._change:
                self._wanted -= 1
                self._change.notify_all()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        answer: Future[T] = Future()
        if not self._wanted and self._turn_lock.acquire(
            blocking=False
        ):  # the loop is free: the pacer is not needed
            try:
                self._begin_request(coroutine, answer)
            finally:
                self._turn_lock.release()
            if not answer.done():
                self._notify_pacer()
        else:
            self._loop.call_soon_threadsafe(self._admit, coroutine, answer)
            self._notify_pacer(submitted=1)
        return answer

    def _notify_pacer(self, submitted: int = 0) -> None:
        with self._change:
            self._submitted += submitted
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run_thread, name="kscen-pacer", daemon=True
                )
                self._thread.start()
            self._change.notify_all()

    def close(self) -> None:
        with self._change:
            self._closing = True
            self._change.notify_all()
        self._loop.nudge()
        if self._thread:
            self._thread.join()

    def _admit(self, coroutine: Coroutine[Any, Any, T], answer: Future[T]) -> None:
        with self._change:
            self._submitted -= 1
        self._begin_request(coroutine, answer)

    def _begin_request(self, coroutine: Coroutine[Any, Any, T], answer: Future[T]) -> None:
        if answer.cancelled():
            coroutine.close()
            return
        if self._loop.is_exposed():
            self._loop.mark_unreplayable()
        try:
            answered, rest = start_request(self._loop, coroutine)
        except Exception as error:  # noqa: BLE001  # passed to the caller
            _set_answer(answer, error=error)
            return
        if answered:
            _set_answer(answer, rest)
        else:
            task = self._loop.create_task(rest, name="request of a client on the port")
            self._waiting[task] = answer
            task.add_done_callback(self._finish)
            answer.add_done_callback(
                lambda answer: answer.cancelled() and self._loop.call_soon_threadsafe(task.cancel)
            )

    def _finish(self, task: asyncio.Task[Any]) -> None:
        answer = self._waiting.pop(task, None)
        if answer is None:
            return
        if task.cancelled():
            answer.cancel()
        elif error := task.exception():
            _set_answer(answer, error=error)
        else:
            _set_answer(answer, task.result())

    def _run_thread(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(
                    lambda: (
                        self._closing or (not self._wanted and (self._submitted or self._waiting))
                    )
                )
                if self._closing:
                    return
            with self._turn_lock:
                if not self._loop.is_closed():
                    self._serve()

    def _serve(self) -> None:
        try:
            self._loop.admit()
            if self._waiting:
                self._loop.turn(
                    lambda: self._wanted or self._closing or not self._waiting, pace=self._pace
                )
        # passed to the callers; the thread continues
        except BaseException as error:  # noqa: BLE001
            while self._waiting:
                task, answer = self._waiting.popitem()
                task.cancel()
                _set_answer(answer, error=error)

    def _pace(self, seconds: float) -> bool:
        """Wait for this many seconds of wall time; return False if a call arrived earlier."""
        self._loop.mark_unreplayable()
        end = elapsed() + min(seconds, threading.TIMEOUT_MAX / 2)
        self._loop.wait_for_arrivals(max(0.0, end - elapsed()))
        return elapsed() >= end


def _set_answer(
    answer: Future[T], result: Any = None, *, error: BaseException | None = None
) -> None:
    """Set the result or error of a future, unless its caller has cancelled it."""
    if not answer.set_running_or_notify_cancel():
        return
    if error:
        answer.set_exception(error)
    else:
        answer.set_result(result)


T = TypeVar("T")

START = 1767225600.0  # 2026-01-01T00:00:00Z, the instant at which every simulated run begins


class VirtualClock:
    """Clock of a VirtualLoop. Every simulated run begins at the instant `START`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return START + self._loop.instant

    async def sleep(self, seconds: float, *, background: bool = False) -> None:
        await self._loop.sleeper(max(0.0, seconds), background=background)


class VirtualRunner:
    """Runner of a VirtualLoop in the test's own thread. Each call runs the loop until it has its
    answer; if an actor crashes meanwhile, the call raises ActorCrashedError.
    """

    def __init__(self) -> None:
        self.loop = VirtualLoop()  # type: ignore[abstract]  # the rest is optional
        self.clock = VirtualClock(self.loop)
        self._actors = Actors()
        self._pacer = Pacer(self.loop)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self._pacer.exclusive():
            return self._run(coroutine)

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        # asyncio's documented hook for other event loops
        if asyncio._get_running_loop() is self.loop:  # noqa: SLF001
            try:
                coroutine.send(None)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            coroutine.close()
            raise RuntimeError(
                "a synchronous call inside the running loop would have to wait: use the "
                "asynchronous client and await it"
            )
        with self._pacer.exclusive():
            answered, rest = start_request(self.loop, coroutine)
            return rest if answered else self._run(rest)  # type: ignore[no-any-return]

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self._actors.start(self.loop, coroutine, name)

    def on_crash(self, callback: Callable[[ActorCrashedError], None]) -> Callable[[], None]:
        return self._actors.on_crash(callback)

    def advance(self, seconds: float) -> None:
        with self._pacer.exclusive():
            self._run(self.clock.sleep(seconds))

    def until(self, condition: Callable[[], object], timeout: float) -> bool:
        with self._pacer.exclusive():
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
        with self._pacer.exclusive():
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
        """Return True if wall time has not affected the run, as a waiting client on a port does."""
        return self.loop.replayable

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a request of another thread: answered in this instant, or at the speed of the wall
        clock if it has to wait.
        """
        return self._pacer.submit(coroutine)

    # --- running the loop ---

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

    def _turn(
        self, done: Callable[[], object], settled: Callable[[], object] | None = None
    ) -> None:
        self._actors.raise_crash()
        unsubscribe = self._actors.on_crash(lambda _: self.loop.stop())
        try:
            self.loop.turn(done, settled=settled)
        finally:
            unsubscribe()
        self._actors.raise_crash()
