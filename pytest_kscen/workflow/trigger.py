"""The trigger: what happens goes in at once or after a delay, and comes out in order, one event of a workflow at a time.

Whoever has acquired an event says done before the next of that workflow is given out. A rate, if there is one, holds back
what comes out.
"""

from __future__ import annotations

import asyncio
import collections
import heapq
import itertools
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.workflow.events import Event, Key


class Trigger(Protocol):
    """Where events come from, for whoever takes them."""

    name: str

    async def acquire(self) -> Event: ...

    def done(self, event: Event) -> None: ...


class Rate:
    """So many events a second, and a burst of so many at once."""

    def __init__(self, clock: Clock, per_second: float, burst: int = 1) -> None:
        self._clock = clock
        self._interval = 1 / per_second
        self._burst = burst
        self._full_at = clock.now() - burst * self._interval

    async def wait(self) -> None:
        """Until there is room for one more."""
        now = self._clock.now()
        self._full_at = max(self._full_at, now - self._interval * self._burst) + self._interval
        if self._full_at > now:
            await self._clock.sleep(self._full_at - now)


class OperableTrigger:
    """A queue that the engine and its watches put events into."""

    def __init__(self, name: str, clock: Clock, rate: Rate | None = None) -> None:
        self.name = name
        self._clock = clock
        self._rate = rate
        self._waiting: dict[Key, collections.deque[Event]] = {}
        self._free: collections.deque[Key] = collections.deque()
        self._busy: set[Key] = set()
        self._some = asyncio.Semaphore(0)
        self._later: list[tuple[float, int, Event]] = []
        self._wanted: dict[Key, set[int]] = {}
        """The numbers of those that are delayed and still matter."""
        self._numbers = itertools.count()
        self._sooner = asyncio.Event()

    def waits(self, workflow: Key) -> bool:
        """Whether there is an event of this workflow to be acquired."""
        return workflow in self._waiting

    def notify(self, event: Event) -> None:
        key = event.workflow
        if key not in self._waiting:
            self._waiting[key] = collections.deque()
            if key not in self._busy:
                self._set_free(key)
        self._waiting[key].append(event)

    def notify_delay(self, event: Event, delay: float) -> None:
        if delay <= 0:
            self.notify(event)
            return
        instant = self._clock.now() + delay
        number = next(self._numbers)
        self._wanted.setdefault(event.workflow, set()).add(number)
        heapq.heappush(self._later, (instant, number, event))
        if self._later[0][2] is event:
            self._sooner.set()

    async def acquire(self) -> Event:
        await self._some.acquire()
        while not self._free:  # what was free has been forgotten
            await self._some.acquire()
        key = self._free.popleft()
        self._busy.add(key)
        events = self._waiting[key]
        event = events.popleft()
        if not events:
            del self._waiting[key]
        if self._rate:
            await self._rate.wait()
        return event

    def done(self, event: Event) -> None:
        """The next of its workflow may come."""
        self._busy.discard(event.workflow)
        if event.workflow in self._waiting:
            self._set_free(event.workflow)

    def forget(self, workflow: Key) -> None:
        """Nothing of this workflow matters any more."""
        if self._waiting.pop(workflow, None) and workflow not in self._busy:
            self._free.remove(workflow)
        self._wanted.pop(workflow, None)

    async def run(self) -> Never:
        """Tell what was delayed, when it is time."""
        while True:
            self._sooner.clear()
            while self._later and self._later[0][0] <= self._clock.now():
                _, number, event = heapq.heappop(self._later)
                if self._is_wanted(event.workflow, number):
                    self.notify(event)
            if self._later:
                await self._until(self._later[0][0])
            else:
                await self._sooner.wait()

    def _set_free(self, key: Key) -> None:
        """One of those who wait may have it."""
        self._free.append(key)
        self._some.release()

    def _is_wanted(self, key: Key, number: int) -> bool:
        """Whether it has not been forgotten; asked once."""
        numbers = self._wanted.get(key, set())
        is_wanted = number in numbers
        numbers.discard(number)
        if not numbers:
            self._wanted.pop(key, None)
        return is_wanted

    async def _until(self, instant: float) -> None:
        """Or until something is to be told sooner."""
        sleep = asyncio.ensure_future(self._clock.sleep(instant - self._clock.now()))
        sooner = asyncio.ensure_future(self._sooner.wait())
        try:
            await asyncio.wait((sleep, sooner), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            sooner.cancel()
