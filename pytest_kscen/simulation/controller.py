"""How every controller lives: keys go into a queue, one worker reconciles them in turn, and what fails comes again later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kscen.objects.errors import ApiError, Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Never

    from pytest_kscen.clock import Clock

K = TypeVar("K", bound=Hashable)

logger = logging.getLogger(__name__)

FIRST_RETRY, LONGEST_RETRY = 0.005, 1000.0


async def at_once(*_: Hashable) -> None:
    """Nothing to wait for."""


class Controller(Generic[K]):
    """A queue without duplicates and its worker.

    `reconcile` may return the seconds after which it wants to look again; the latest look's answer stands in place of the
    one before. `ready` is awaited before each look. A refusal of the API brings the key back after a delay that doubles
    each time; any other error ends the controller.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        ready: Callable[[K], Awaitable[None]] = at_once,
    ) -> None:
        self.name = name
        self._clock = clock
        self._reconcile = reconcile
        self._ready = ready
        self._queue: dict[K, None] = {}
        self._later: dict[K, asyncio.TimerHandle] = {}
        self._again: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None  # kept: to ask for it each time costs a system call
        self._idle: asyncio.Future[None] | None = None

    def enqueue(self, key: K) -> None:
        self._queue[key] = None
        if self._idle and not self._idle.done():
            self._idle.set_result(None)

    def enqueue_after(self, key: K, seconds: float) -> None:
        """Look again after this time, or sooner if that was promised before."""
        loop = self._loop or asyncio.get_running_loop()
        if seconds <= 0:  # but not before everybody else has had a turn
            loop.call_soon(self.enqueue, key)
            return
        when, promised = loop.time() + seconds, self._later.get(key)
        if promised is None or when < promised.when():
            if promised:
                promised.cancel()
            self._later[key] = loop.call_at(when, self._due, key)

    def _due(self, key: K) -> None:
        del self._later[key]
        self.enqueue(key)

    def _look_again(self, key: K, seconds: float | None) -> None:
        if before := self._again.pop(key, None):
            before.cancel()
        if seconds is not None:
            loop = self._loop or asyncio.get_running_loop()  # even at once means: not before everybody else has had a turn
            self._again[key] = loop.call_at(loop.time() + max(0.0, seconds), self.enqueue, key)

    async def run(self) -> Never:
        loop = self._loop = asyncio.get_running_loop()
        try:
            while True:
                while not self._queue:
                    self._idle = loop.create_future()
                    await self._idle
                key = next(iter(self._queue))
                await self._ready(key)  # what changes meanwhile needs no look of its own
                del self._queue[key]
                await self._work(key)
        finally:
            for promised in [*self._later.values(), *self._again.values()]:
                promised.cancel()

    async def _work(self, key: K) -> None:
        try:
            again = await self._reconcile(key)
        except (ApiError, OSError) as error:
            failures = self._failures[key] = self._failures.get(key, -1) + 1
            if not isinstance(error, Conflict | NotFound):
                logger.warning("%s: %s: %s", self.name, key, error)
            self.enqueue_after(key, min(FIRST_RETRY * 2**failures, LONGEST_RETRY))
            return
        self._failures.pop(key, None)
        self._look_again(key, again)
