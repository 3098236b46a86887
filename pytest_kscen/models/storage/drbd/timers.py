"""Timers of the model on the agents' event loop, and the parameters of the model with their
reasons.

No timer is left when nothing is going to happen: a cluster at rest then has nothing to wait for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    __slots__ = ("_timers", "callback")

    def __init__(self, timers: Timers, callback: Callable[[], None]) -> None:
        self._timers = timers
        self.callback = callback

    def cancel(self) -> None:
        if handle := self._timers.discard(self):
            handle.cancel()

    def fire(self) -> None:
        self._timers.discard(self)
        self.callback()


class Timers:
    """Registry of the model's pending timers.

    The event loop becomes known with the first command, which comes from within it.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._set: dict[Timer, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._set)

    def bind_loop(self) -> None:
        self._loop = self._loop or asyncio.get_running_loop()

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        assert self._loop, "a timer before the first command"
        timer = Timer(self, callback)
        self._set[timer] = self._loop.call_later(seconds, timer.fire)
        return timer

    def discard(self, timer: Timer) -> asyncio.TimerHandle | None:
        return self._set.pop(timer, None)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call a function within this instant, from any thread. Nothing is called before the
        first command, when nothing can have happened yet, nor after the loop was closed.
        """
        if self._loop is None or self._loop.is_closed():
            return
        # asyncio's documented hook for other event loops
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001
            self._loop.call_soon(callback)
        else:
            self._loop.call_soon_threadsafe(callback)


MEBI = 2**20


@dataclass(frozen=True, slots=True)
class DrbdParameters:
    """Parameters of the model in seconds, bytes, and bytes per second. Pairs are the bounds of a
    uniform draw; tests replace them by exact values.
    """

    ping: float = 10.0
    """DRBD's ping-int: the interval of pings on an idle connection."""
    silence_timeout: tuple[float, float] = (6.0, 16.0)
    """Time until lost packets are noticed: the timeout of 6 s, and up to one ping-int before it
    begins.
    """
    reconnect_after_block: tuple[float, float] = (40.0, 60.0)
    """Time from the end of a silent block to the connection: the retries of both sides have grown
    rare, as TCP's do.
    """
    connect_time: tuple[float, float] = (1.0, 3.0)
    """Time to connect two nodes that reach each other, after one came up or a ping was lost."""
    write_rate: float = MEBI
    """Write rate of a volume in use: a quiet database."""
    resync_rate: float = 100.0 * MEBI
    """DRBD's default of c-max-rate."""
    activity: float = 64.0 * MEBI
    """Data that the activity log of a crashed Primary covers: sixteen extents of 4 MiB."""
    round_trip: float = 0.0002
    """Round-trip time between two machines of a rack."""
    segment: int = 1460
    """Bytes of data in a TCP packet on Ethernet."""
    minimum_share: float = 0.05
    """Share of a link that a resync gets when other traffic uses it in full."""


PARAMETERS = DrbdParameters()
