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

logger = logging.getLogger(__name__)

FIRST_RETRY, LONGEST_RETRY = 0.005, 60.0


class Controller:
    """A queue without duplicates and its worker. `reconcile` may return the seconds after which it wants to look again."""

    def __init__(self, name: str, clock: Clock, reconcile: Callable[[Ref], Awaitable[float | None]]) -> None:
        self.name = name
        self._clock = clock
        self._reconcile = reconcile
        self._queue: dict[Ref, None] = {}
        self._failures: dict[Ref, int] = {}
        self._wake = asyncio.Event()

    def enqueue(self, ref: Ref) -> None:
        self._queue[ref] = None
        self._wake.set()

    def enqueue_after(self, ref: Ref, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.enqueue, ref)

    async def run(self) -> Never:
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            ref = next(iter(self._queue))
            del self._queue[ref]
            await self._work(ref)

    async def _work(self, ref: Ref) -> None:
        try:
            again = await self._reconcile(ref)
        except ApiError as error:
            failures = self._failures[ref] = self._failures.get(ref, 0) + 1
            if not isinstance(error, Conflict | NotFound):
                logger.warning("%s: %s/%s: %s", self.name, ref.namespace, ref.name, error)
            self.enqueue_after(ref, min(FIRST_RETRY * 2**failures, LONGEST_RETRY))
            return
        self._failures.pop(ref, None)
        if again is not None:
            self.enqueue_after(ref, again)
