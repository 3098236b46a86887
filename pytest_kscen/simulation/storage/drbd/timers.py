"""The model's timers on the loop that the agents live in. None is left when nothing is going to happen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """Something that is going to happen, unless it is cancelled."""

    __slots__ = ("_timers", "act")

    def __init__(self, timers: Timers, act: Callable[[], None]) -> None:
        self._timers = timers
        self.act = act

    def cancel(self) -> None:
        if handle := self._timers.forget(self):
            handle.cancel()

    def ring(self) -> None:
        self._timers.forget(self)
        self.act()


class Timers:
    """Those that are set. The loop is known once the first command has come from within it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._set: dict[Timer, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._set)

    def learn_loop(self) -> None:
        self._loop = self._loop or asyncio.get_running_loop()

    def after(self, seconds: float, act: Callable[[], None]) -> Timer:
        assert self._loop, "a timer before the first command"
        timer = Timer(self, act)
        self._set[timer] = self._loop.call_later(seconds, timer.ring)
        return timer

    def forget(self, timer: Timer) -> asyncio.TimerHandle | None:
        return self._set.pop(timer, None)

    def soon(self, act: Callable[[], None]) -> None:
        """Within this instant, from whatever thread; never where nothing can have begun yet, or all is over."""
        if self._loop is None or self._loop.is_closed():
            return
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001  # asyncio's documented hook for loops of others
            self._loop.call_soon(act)
        else:
            self._loop.call_soon_threadsafe(act)
