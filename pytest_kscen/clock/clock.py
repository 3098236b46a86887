"""Protocols of time for actors and tests, Kubernetes' timestamps, and a signal to stop."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import math
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from pytest_kscen.clock.tasks import ActorCrashedError


T = TypeVar("T")

MICROS = 1_000_000  # in a second


class Clock(Protocol):
    """Clock of an actor, in simulated or real time.

    Actors read time and wait through it only, so that the same actors run on simulated and on real
    clusters.
    """

    def now(self) -> float:
        """Return the seconds since the Unix epoch, in cluster time."""

    async def sleep(self, seconds: float, *, background: bool = False) -> None:
        """Wait for this many seconds of cluster time.

        A background sleep (a heartbeat, housekeeping) does not keep simulated time running: with
        background sleeps only, the run is stalled.
        """


class Runner(Protocol):
    """Driver of the event loop that actors run in, for a synchronous test.

    The virtual runner runs the loop inside these calls, so time does not move between them; the
    wall runner's loop runs in a thread of its own all the time.
    """

    @property
    def clock(self) -> Clock: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the answer of a request. If it need not wait, no other task runs meanwhile."""

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        """Start an actor in parallel to the test. If it crashes, the next call raises
        ActorCrashedError.
        """

    def on_crash(self, callback: Callable[[ActorCrashedError], None]) -> Callable[[], None]:
        """Register a callback for each actor's crash; return a function that removes it. Callbacks
        run in the loop's thread.
        """

    def advance(self, seconds: float) -> None:
        """Let this many seconds of cluster time pass."""

    def until(self, condition: Callable[[], object], timeout: float) -> bool:
        """Let time pass until the condition is true, and return True; False after the timeout."""

    def in_thread(self, function: Callable[[], T]) -> Awaitable[T]:
        """Run blocking input or output in a thread; simulated time does not move meanwhile."""

    def close(self) -> None:
        """Cancel all actors, newest first, and close the loop."""


@functools.lru_cache(maxsize=1024)
def timestamp_of(seconds: float, *, micro: bool = False) -> str:
    """Return Kubernetes' Time (whole seconds) or MicroTime of an instant."""
    fraction, whole = math.modf(seconds)
    carried, micros = divmod(round(fraction * MICROS), MICROS)
    return f"{_second(whole + carried)}.{micros:06d}Z" if micro else f"{_second(whole + carried)}Z"


@functools.lru_cache(maxsize=1024)
def _second(seconds: float) -> str:
    """Format whole seconds. Cached, as many instants fall into the same second."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()[:-6]


def epoch_of(timestamp: str) -> float:
    """Return the instant of a Kubernetes timestamp, in seconds since the epoch."""
    return datetime.datetime.fromisoformat(timestamp).timestamp()


class Signal:
    """Signal that is given once and never withdrawn.

    An actor waits for it and for a timer together, so that it can be stopped while it sleeps. Not
    thread-safe: give it in the loop's thread.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def give(self) -> None:
        self._event.set()

    @property
    def given(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()

    async def within(self, seconds: float) -> bool:
        """Sleep for this many seconds of the loop's time; return True at once when the signal is
        given.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        return self.given
