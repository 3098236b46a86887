"""How every controller lives: keys go into a queue, one worker reconciles them in turn, and what fails comes again later."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import ApiError, Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.informer import Ref

    Reconcile = Callable[[Ref], Awaitable[float | None]]

logger = logging.getLogger(__name__)

FIRST_RETRY, LONGEST_RETRY = 0.005, 1000.0


async def at_once() -> None:
    """Nothing to wait for."""


class Controller:
    """A queue without duplicates and its worker.

    `reconcile` may return the seconds after which it wants to look again. `ready` is awaited before each look. A refusal
    of the API brings the key back after a delay that doubles each time; any other error ends the controller.
    """

    def __init__(self, name: str, clock: Clock, reconcile: Reconcile, *, ready: Callable[[], Awaitable[None]] = at_once) -> None:
        self.name = name
        self._clock = clock
        self._reconcile = reconcile
        self._ready = ready
        self._queue: dict[Ref, None] = {}
        self._later: dict[Ref, asyncio.TimerHandle] = {}
        self._failures: dict[Ref, int] = {}
        self._wake = asyncio.Event()

    def enqueue(self, ref: Ref) -> None:
        self._queue[ref] = None
        self._wake.set()

    def enqueue_after(self, ref: Ref, seconds: float) -> None:
        """Look again after this time, or sooner if that was promised before."""
        if seconds <= 0:
            self.enqueue(ref)
            return
        loop = asyncio.get_running_loop()
        promised = self._later.get(ref)
        if promised is None or loop.time() + seconds < promised.when():
            if promised:
                promised.cancel()
            self._later[ref] = loop.call_later(seconds, self._due, ref)

    def _due(self, ref: Ref) -> None:
        del self._later[ref]
        self.enqueue(ref)

    async def run(self) -> Never:
        try:
            while True:
                while not self._queue:
                    self._wake.clear()
                    await self._wake.wait()
                await self._ready()
                ref = next(iter(self._queue))
                del self._queue[ref]
                await self._work(ref)
        finally:
            for promised in self._later.values():
                promised.cancel()

    async def _work(self, ref: Ref) -> None:
        try:
            again = await self._reconcile(ref)
        except (ApiError, OSError) as error:
            failures = self._failures[ref] = self._failures.get(ref, -1) + 1
            if not isinstance(error, Conflict | NotFound):
                logger.warning("%s: %s/%s: %s", self.name, ref.namespace, ref.name, error)
            self.enqueue_after(ref, min(FIRST_RETRY * 2**failures, LONGEST_RETRY))
            return
        self._failures.pop(ref, None)
        if again is not None:
            self.enqueue_after(ref, again)
