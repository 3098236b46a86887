"""What actors and tests may know of time: two small protocols, and Kubernetes' spelling of an
instant.
"""

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
    """What an actor holds. It never learns whether time is real."""

    def now(self) -> float:
        """Seconds since the Unix epoch, in cluster time."""

    async def sleep(self, seconds: float, *, background: bool = False) -> None:
        """Wait.

        A background sleep (a heartbeat, housekeeping) does not keep a waiting test alive.
        """


class Runner(Protocol):
    """What a synchronous test holds: it turns the loop that the actors live in."""

    @property
    def clock(self) -> Clock: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a request to its answer: at once if nothing has to be waited for, and then nobody
        else moves.
        """

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        """Let an actor live beside the test.

        If it crashes, the next call raises ActorCrashedError.
        """

    def hear_of_crashes(self, hears: Callable[[ActorCrashedError], None]) -> Callable[[], None]:
        """Be told of each actor's crash when it happens, whoever turns time then; until what
        comes back is called.
        """

    def advance(self, seconds: float) -> None:
        """Let this much time pass."""

    def until(self, condition: Callable[[], object], timeout: float) -> bool:
        """Let time pass until the condition holds (True) or the time is up (False)."""

    def in_thread(self, function: Callable[[], T]) -> Awaitable[T]:
        """Do real input or output in a thread; simulated time stands still until it is done."""

    def close(self) -> None:
        """End every actor, newest first, and the loop."""


@functools.lru_cache(maxsize=1024)
def timestamp_of(seconds: float, *, micro: bool = False) -> str:
    """Kubernetes' Time (whole seconds) or MicroTime for an instant."""
    fraction, whole = math.modf(seconds)
    carried, micros = divmod(round(fraction * MICROS), MICROS)
    return f"{_second(whole + carried)}.{micros:06d}Z" if micro else f"{_second(whole + carried)}Z"


@functools.lru_cache(maxsize=1024)
def _second(seconds: float) -> str:
    """An instant is told several times, and many fall into the same second."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()[:-6]


def epoch_of(timestamp: str) -> float:
    """The instant that a Kubernetes timestamp names."""
    return datetime.datetime.fromisoformat(timestamp).timestamp()


# The word that an actor waits for beside its timers: stop.


class Signal:
    """Given once, seen by all."""

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
        """Sleep this long, by the time of the loop, which is its clock's; True at once when the
        signal comes.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        return self.given
