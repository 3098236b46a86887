"""An event loop whose time jumps to the next timer when nothing can run.

The loop belongs to whichever thread turns it: the test's, or that of an HTTP port while the test
looks away. Timers that are due together fire in the order in which they were set. Real input and
output runs in threads and holds time."""

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


# Real input and output, in threads: begun within an instant, and answered in the order in which
# it was asked for. How long it takes is the wall's affair, so nothing of it may show: an answer
# is delivered only when the instant has otherwise come to rest, the oldest question's first.


class ThreadedWork:
    """What is under way, oldest first."""

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
        """Give one answer, of the oldest question or of any; False if that is still to come."""
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
STEPS_LOOKED_AT = 10_000


class CallbackHandle:
    """A call that is going to be made: a callback and its arguments; cancelled by forgetting it."""

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
    """asyncio's interface over a heap of timers."""

    def __init__(self) -> None:
        self.instant = 0.0
        """What `time()` tells."""
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

    # --- turning ---

    def turn(
        self,
        done: Callable[[], object],
        *,
        settled: Callable[[], object] | None = None,
        pace: Callable[[float], object] | None = None,
    ) -> None:
        """Run until `done` holds, asked after every round of callbacks, or `settled`, asked when an
        instant has come to rest.

        With a `pace`, time does not jump: the pace is told how many seconds the next timer is off
        and waits in our stead."""
        # asyncio's documented hook for loops of others
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
                    self._let_in()
                elif count := len(self._ready):
                    self._steps += count
                    if self._steps > STEPS_PER_INSTANT:
                        self._look_at()
                    self._run(self._ready, count)  # and nobody who comes meanwhile
                elif (due := self.next_timer()) is not None and due <= self.instant:
                    self._fire(self.instant)
                elif settled and settled():
                    return
                elif self._work.under_way:
                    self._await_work()
                elif pace:
                    self._stroll(pace)
                else:
                    self._jump()
        finally:
            self._running = False
            asyncio._set_running_loop(None)  # noqa: SLF001

    def _let_in(self) -> None:
        """What other threads have asked for takes its place behind all that can run now."""
        while self._arrivals:
            self._ready.append(self._arrivals.popleft())

    def _await_work(self) -> None:
        """Take an answer from a thread, or wait for one."""
        if not self._work.deliver(in_order=self._replayable):
            self.wait_for_arrivals()

    def _run(self, handles: collections.deque[CallbackHandle], count: int) -> None:
        """So many of them."""
        for _ in range(count):
            handle = handles.popleft()
            call = handle.call
            if not call:
                continue
            try:
                handle.context.run(*call)
            except Exception as error:  # noqa: BLE001  # asyncio's contract: a callback's error goes to the handler
                self.call_exception_handler({"message": "error in a callback", "exception": error})

    def _look_at(self) -> None:
        """Who is it that does not let time pass: begun when there have been too many steps,
        ended by an error that names them.
        """
        self._busy = self._busy or StepCounter()
        self._busy.note(handle.call[0] for handle in self._ready if handle.call)
        if self._steps > STEPS_PER_INSTANT + STEPS_LOOKED_AT:
            raise self._busy.error(
                f"{self._steps} steps were taken in one instant (at {self.instant} s) and "
                "time did not move"
            )

    def admit(self) -> None:
        """Run what other threads have asked for, and nothing else: time and everybody in it
        stand still.
        """
        while self._arrivals:
            self._run(self._arrivals, 1)

    def is_busy(self) -> bool:
        """Whether something can run now."""
        return bool(self._ready or self._arrivals)

    def wait_for_arrivals(self, seconds: float | None = None) -> None:
        """Sleep really, until another thread asks for something or this much wall time is over."""
        with self._wake:
            if not self._arrivals and not self._nudged:
                self._wake.wait(seconds)
            self._nudged = False

    def nudge(self) -> None:
        """Wake the thread that waits in this loop, so that it looks again."""
        with self._wake:
            self._nudged = True
            self._wake.notify_all()

    def _stroll(self, pace: Callable[[float], object]) -> None:
        due = self.next_timer()
        moved = pace(math.inf if due is None else due - self.instant)
        if due is not None and moved:
            self._move_to(due)

    def _jump(self) -> None:
        """Move to the next instant at which something is due."""
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
        """A future that is done after this time: lighter than a timer that sets one."""
        future: asyncio.Future[None] = asyncio.Future(loop=self)
        heappush(
            self._background if background else self._timers,
            (self.instant + seconds, next(self._sequence), future),
        )
        return future

    def next_timer(self) -> float | None:
        """When the next timer is due, background ones too."""
        timers, background = self._timers, self._background
        if timers and background:
            return min(timers[0][0], background[0][0])
        first = timers or background
        return first[0][0] if first else None

    def call_at(self, when: float, *call: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        handle = CallbackHandle(when, call, context)
        heappush(self._timers, (when, next(self._sequence), handle))
        return handle

    def call_later(self, delay: float, *call: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return self.call_at(self.instant + max(0.0, delay), *call, context=context)

    def call_soon(self, *call: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        handle = CallbackHandle(self.instant, call, context)
        self._ready.append(handle)
        return handle

    # --- other threads ---

    def call_soon_threadsafe(self, *call: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        handle = CallbackHandle(self.instant, call, context)
        with self._wake:
            self._arrivals.append(handle)
            self._wake.notify_all()
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Real input and output: simulated time stands still until it is done."""
        return self._work.begin(executor, func, *args)

    @property
    def replayable(self) -> bool:
        """Whether nothing has happened so far at an instant of the wall's choosing."""
        return self._replayable

    def meddle(self) -> None:
        """Tell that the wall has had its say; from now on real work is answered as it comes, and
        may depend on later work.
        """
        self._replayable = False

    def is_exposed(self) -> bool:
        """Whether it matters when another thread asks for something: what is turning, or under
        way, has no fixed place for it.
        """
        return self._running or bool(self._work.under_way)

    # --- tasks ---

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> Any:  # type: ignore[override]
        return self._factory(self, coro, **options)

    def tasks(self) -> Iterator[NumberedTask]:
        return iter(self._tasks)

    def set_task_factory(self, factory: Any) -> None:
        raise NotImplementedError("the order of tasks is this loop's own: it numbers them")

    def get_task_factory(self) -> Any:
        return self._factory

    # --- the loop's life ---

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
        """Whoever turns it now stops after this round."""
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
        """Nothing to do: a watch left open belongs to its task, which is cancelled."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109, ARG002
        self._work.close(wait=True)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        logger.error("%s", context.get("message"), exc_info=context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001  # asyncio's signature
        """Asyncio's debug mode measures real time, which means nothing here."""
