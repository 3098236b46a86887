"""The model's timers on the loop that the agents live in.

None is left when nothing is going to happen.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
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
        """Within this instant, from whatever thread; never where nothing can have begun yet, or
        all is over.
        """
        if self._loop is None or self._loop.is_closed():
            return
        # asyncio's documented hook for loops of others
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001
            self._loop.call_soon(act)
        else:
            self._loop.call_soon_threadsafe(act)


# The figures that the model lives by, each with its reason.


MEBI = 2**20


@dataclass(frozen=True, slots=True)
class DrbdParameters:
    """Seconds, bytes, and bytes per second."""

    ping: float = 10.0
    """DRBD's ping-int: how often an idle connection is tried."""
    noticing: tuple[float, float] = (6.0, 16.0)
    """Until packets that vanish are noticed: the time-out of 6 s, and up to a ping-int before it
    begins.
    """
    redialling: tuple[float, float] = (40.0, 60.0)
    """From the end of a silent block to the connection: both sides' retries have grown rare, as
    TCP's do.
    """
    dialling: tuple[float, float] = (1.0, 3.0)
    """Until two that hear each other are connected, when one has just come up or a ping was
    lost.
    """
    write_rate: float = MEBI
    """What a volume in use is written with: a quiet database."""
    resync_rate: float = 100.0 * MEBI
    """DRBD's c-max-rate as it is by default."""
    activity: float = 64.0 * MEBI
    """What a Primary's activity log covers when it crashes: sixteen extents of 4 MiB."""
    round_trip: float = 0.0002
    """Between two machines of a rack."""
    segment: int = 1460
    """Bytes of data in a TCP packet on Ethernet."""
    least_share: float = 0.05
    """What a resync gets of a link that others use in full."""


PARAMETERS = DrbdParameters()
