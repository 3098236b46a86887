"""Event loop whose time jumps to the next timer when nothing can run.

The loop runs in the thread that calls `turn`: the test's thread, or an HTTP port's between the
test's calls. Timers of the same instant fire in the order in which they were set. Real input and
output runs in threads; simulated time does not move meanwhile.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import itertools
import logging
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock.tasks import NumberedTask, StepCounter, TaskRegistry, stalled

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from concurrent.futures import Future
    from contextvars import Context


class ThreadedWork:
    """Real input and output that runs in threads, oldest first.

    The duration of a thread depends on the machine. So results are delivered in the order of the
    requests, and only when nothing else can run at this instant.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._threads: ThreadPoolExecutor | None = None
        self.under_way: dict[asyncio.Future[Any], Future[Any]] = {}

    def begin(self, executor: Any, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        if executor is None:
            executor = self._threads = self._threads or ThreadPoolExecutor(
                16, thread_name_prefix="kscen-io"
            )
        answer = self._loop.create_future()
        work = self.under_way[answer] = executor.submit(function, *args)
        answer.add_done_callback(self._forget)
        work.add_done_callback(lambda _: self._loop.nudge())
        return answer

    def deliver(self, *, in_order: bool) -> bool:
        """Deliver one result; return False if there is none.

        With `in_order`, only the result of the oldest request may be delivered.
        """
        for answer, work in self.under_way.items():
            if work.done():
                del self.under_way[answer]
                if work.cancelled():
                    answer.cancel()
                elif error := work.exception():
                    answer.set_exception(error)
                else:
                    answer.set_result(work.result())
                return True
            if in_order:
                return False
        return False

    def _forget(self, answer: asyncio.Future[Any]) -> None:
        if work := self.under_way.pop(answer, None):
            work.cancel()

    def close(self, *, wait: bool = False) -> None:
        if self._threads:
            self._threads.shutdown(wait=wait, cancel_futures=not wait)


logger = logging.getLogger(__name__)

STEPS_PER_INSTANT = 1_000_000
STEPS_COUNTED = 10_000


class CallbackHandle:
    """Scheduled call: a callback with its arguments. Cancelling drops the callback and leaves the
    handle in its queue, where it is skipped.
    """

    __slots__ = ("_when", "call", "context")

    def __init__(self, when: float, call: tuple[Any, ...], context: Context | None) -> None:
        self._when = when
        self.call = call
        self.context = contextvars.copy_context() if context is None else context

    def cancel(self) -> None:
        self.call = ()

    def cancelled(self) -> bool:
        return not self.call

    def when(self) -> float:
        return self._when


class VirtualLoop(asyncio.AbstractEventLoop):
    """asyncio event loop over a heap of timers, with simulated time.

    Background sleeps have a heap of their own: without other timers, the loop is stalled. Methods
    that neither asyncio nor this project calls are not implemented.
    """

    def __init__(self) -> None:
        self.instant = 0.0
        """Simulated time in seconds, as `time()` returns it."""
        self._ready: collections.deque[CallbackHandle] = collections.deque()
        self._sequence = itertools.count()
        self._timers: list[tuple[float, int, Any]] = []
        self._background: list[tuple[float, int, Any]] = []
        self._tasks = TaskRegistry()
        self._factory: Callable[..., Any] = self._tasks
        self._arrivals: collections.deque[CallbackHandle] = collections.deque()
        self._wake = threading.Condition()
        self._nudged = False
        self._work = ThreadedWork(self)
        self._replayable = True
        self._running = False
        self._stopping = False
        self._closed = False
        self._steps = 0
        self._busy: StepCounter | None = None

    # --- running ---

    def turn(
        self,
        done: Callable[[], object],
        *,
        settled: Callable[[], object] | None = None,
        pace: Callable[[float], object] | None = None,
    ) -> None:
        """Run until `done` is true, checked after every round of callbacks, or `settled` is true,
        checked when nothing can run at this instant any more.

        With a `pace`, time does not jump: `pace` is called with the seconds until the next timer,
        waits that long, and returns True if the time has passed.
        """
        # asyncio's documented hook for other event loops
        previous = asyncio._get_running_loop()  # noqa: SLF001
        if previous is not None:
            raise RuntimeError(
                "the loop is already being turned: inside an actor, await instead of "
                "waiting synchronously"
            )
        asyncio._set_running_loop(self)  # noqa: SLF001
        self._running, self._stopping = True, False
        self._steps, self._busy = 0, None
        try:
            while not (done() or self._stopping):
                if self._arrivals:
                    self._queue_arrivals()
                elif count := len(self._ready):
                    self._steps += count
                    if self._steps > STEPS_PER_INSTANT:
                        self._count_steps()
                    self._run(self._ready, count)  # without those added meanwhile
                elif (due := self.next_timer()) is not None and due <= self.instant:
                    self._fire(self.instant)
                elif settled and settled():
                    return
                elif self._work.under_way:
                    self._await_work()
                elif pace:
                    self._wait_for_pace(pace)
                else:
                    self._jump()
        finally:
            self._running = False
            asyncio._set_running_loop(None)  # noqa: SLF001

    def _queue_arrivals(self) -> None:
        """Queue calls of other threads after all callbacks that are ready."""
        while self._arrivals:
            self._ready.append(self._arrivals.popleft())

    def _await_work(self) -> None:
        """Deliver a result of a thread, or wait for one."""
        if not self._work.deliver(in_order=self._replayable):
            self.wait_for_arrivals()

    def _run(self, handles: collections.deque[CallbackHandle], count: int) -> None:
        """Run this many callbacks."""
        for _ in range(count):
            handle = handles.popleft()
            call = handle.call
            if not call:
                continue
            try:
                handle.context.run(*call)
            except Exception as error:  # noqa: BLE001  # as in asyncio, the handler gets it
                self.call_exception_handler({"message": "error in a callback", "exception": error})

    def _count_steps(self) -> None:
        """Count the steps of an instant that does not end; raise StalledError with the busiest
        tasks.
        """
        self._busy = self._busy or StepCounter()
        self._busy.note(handle.call[0] for handle in self._ready if handle.call)
        if self._steps > STEPS_PER_INSTANT + STEPS_COUNTED:
            raise self._busy.error(
                f"{self._steps} steps were taken in one instant (at {self.instant} s) and "
                "time did not move"
            )

    def admit(self) -> None:
        """Run only calls of other threads: time does not move, and no task runs."""
        while self._arrivals:
            self._run(self._arrivals, 1)

    def is_busy(self) -> bool:
        """Return True if a callback can run now."""
        return bool(self._ready or self._arrivals)

    def wait_for_arrivals(self, seconds: float | None = None) -> None:
        """Block until another thread schedules a call, or this many seconds of wall time have
        passed.
        """
        with self._wake:
            if not self._arrivals and not self._nudged:
                self._wake.wait(seconds)
            self._nudged = False

    def nudge(self) -> None:
        """Wake the thread in `wait_for_arrivals`, so that it checks its condition again."""
        with self._wake:
            self._nudged = True
            self._wake.notify_all()

    def _wait_for_pace(self, pace: Callable[[float], object]) -> None:
        due = self.next_timer()
        time_passed = pace(math.inf if due is None else due - self.instant)
        if due is not None and time_passed:
            self._move_to(due)

    def _jump(self) -> None:
        """Move time to the next timer; raise StalledError if there is none."""
        timers, background = self._timers, self._background
        while timers and timers[0][2].cancelled():
            heappop(timers)
        if not timers:
            raise stalled(
                "nothing can run and no timer is set" + " but heartbeats" * bool(background),
                self._tasks,
            )
        due = min(timers[0][0], background[0][0]) if background else timers[0][0]
        self._move_to(due)

    def _move_to(self, due: float) -> None:
        if due > self.instant:
            self.instant = due
            self._steps, self._busy = 0, None
        self._fire(due)

    def _fire(self, due: float) -> None:
        timers, background, ready = self._timers, self._background, self._ready
        if background and background[0][0] == due:
            while timers and timers[0][0] == due:
                heappush(background, heappop(timers))
            timers = background
        while timers and timers[0][0] <= due:
            item = heappop(timers)[2]
            if isinstance(item, CallbackHandle):
                ready.append(item)
            elif not item.cancelled():
                item.set_result(None)

    # --- time ---

    def time(self) -> float:
        return self.instant

    def sleeper(self, seconds: float, *, background: bool) -> asyncio.Future[None]:
        """Return a future that is done after this many seconds; cheaper than a timer with a
        callback.
        """
        future: asyncio.Future[None] = asyncio.Future(loop=self)
        heappush(
            self._background if background else self._timers,
            (self.instant + seconds, next(self._sequence), future),
        )
        return future

    def next_timer(self) -> float | None:
        """Return the instant of the next timer, background timers included; None without timers."""
        timers, background = self._timers, self._background
        if timers and background:
            return min(timers[0][0], background[0][0])
        first = timers or background
        return first[0][0] if first else None

    def call_at(  # type: ignore[override]
        self, when: float, *call: Any, context: Context | None = None
    ) -> Any:
        handle = CallbackHandle(when, call, context)
        heappush(self._timers, (when, next(self._sequence), handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, *call: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self.instant + max(0.0, delay), *call, context=context)

    def call_soon(  # type: ignore[override]
        self, *call: Any, context: Context | None = None
    ) -> Any:
        handle = CallbackHandle(self.instant, call, context)
        self._ready.append(handle)
        return handle

    # --- other threads ---

    def call_soon_threadsafe(  # type: ignore[override]
        self, *call: Any, context: Context | None = None
    ) -> Any:
        handle = CallbackHandle(self.instant, call, context)
        with self._wake:
            self._arrivals.append(handle)
            self._wake.notify_all()
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run real input or output in a thread; simulated time does not move until it is done."""
        return self._work.begin(executor, func, *args)

    @property
    def replayable(self) -> bool:
        """Return True if all instants so far depend on the seed alone."""
        return self._replayable

    def mark_unreplayable(self) -> None:
        """Record that wall time has affected the run. From now on, results of threads are delivered
        as soon as they arrive.
        """
        self._replayable = False

    def is_exposed(self) -> bool:
        """Return True if a call of another thread would now happen at an instant that varies
        between runs.
        """
        return self._running or bool(self._work.under_way)

    # --- tasks ---

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> Any:
        return self._factory(self, coro, **options)

    def tasks(self) -> Iterator[NumberedTask]:
        return iter(self._tasks)

    def set_task_factory(self, factory: Any) -> None:
        raise NotImplementedError(
            "this loop numbers its tasks: another task factory would change their order"
        )

    def get_task_factory(self) -> Any:
        return self._factory

    # --- life cycle ---

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        try:
            self.turn(task.done)
        except BaseException:
            task.cancel()
            raise
        if not task.done():
            raise RuntimeError("the loop was stopped before the future was done")
        return task.result()

    def run_forever(self) -> None:
        self.turn(lambda: False)

    def stop(self) -> None:
        """Stop the running `turn` after its current round."""
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self._background.clear()
        self._work.close()

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: an open generator belongs to its task, which is cancelled."""

    async def shutdown_default_executor(
        self,
        timeout: float | None = None,  # noqa: ASYNC109, ARG002  # asyncio's signature
    ) -> None:
        self._work.close(wait=True)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        logger.error("%s", context.get("message"), exc_info=context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001  # asyncio's signature
        """Ignore debug mode, which measures real time."""
