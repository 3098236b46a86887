"""What a volume in use is written with, and who misses it. Nothing is counted while it flows: amounts come from times."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.simulation.storage.drbd.replicas import Replica


class Writes:
    """Of one resource. They are acknowledged as soon as all who are connected to the writer have them."""

    def __init__(self, now: Callable[[], float], rate: float) -> None:
        self._now = now
        self._rate = rate
        self._since = now()
        self._absent: tuple[Replica, ...] = ()

    @property
    def are_missed(self) -> bool:
        return bool(self._absent)

    def flow_past(self, absent: tuple[Replica, ...]) -> None:
        """From now on these miss what is written; nobody does when nobody writes."""
        if absent != self._absent:
            self.settle()
            self._absent = absent

    def missing(self, replica: Replica) -> float:
        """Bytes that this replica lacks by now."""
        flown = (self._now() - self._since) * self._rate if replica in self._absent else 0.0
        return min(float(replica.size), replica.missing + flown)

    def settle(self) -> None:
        for replica in self._absent:
            replica.missing = self.missing(replica)
        self._since = self._now()
