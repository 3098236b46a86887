"""How long a container waits before it starts again: longer each time, until it has run well for a while."""

from __future__ import annotations

from pytest_kscen.simulation.kubelet.timings import RESTART_FIRST, RESTART_FORGIVEN, RESTART_LONGEST


class Backoff:
    """Of one container, or of one image's pulls."""

    __slots__ = ("_last", "delay")

    def __init__(self) -> None:
        self.delay = 0.0
        self._last = 0.0

    def next(self, now: float) -> float:
        """The delay after this failure: none after the first, then 10 s, and twice as much each time."""
        if now - self._last > RESTART_FORGIVEN:
            self.delay = 0.0
        delay = self.delay
        self.delay = min(max(self.delay * 2, RESTART_FIRST), RESTART_LONGEST)
        self._last = now + delay
        return delay


def go_duration(seconds: float) -> str:
    """As Go writes it: `10s`, `1m20s`, `800ms`."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
