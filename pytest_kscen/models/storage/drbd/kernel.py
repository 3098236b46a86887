"""What all resources of a cluster share: the time, the network, chance and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.chance import Chance
from pytest_kscen.models.storage.drbd.connections import resync_throughput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.chance import Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.network import Network
    from pytest_kscen.models.storage.drbd.connections import PeerLink
    from pytest_kscen.models.storage.drbd.resource import DrbdResource
    from pytest_kscen.models.storage.drbd.timers import DrbdParameters, Timer, Timers


# Bringing a replica up to date: how fast, how far. Machines share their links among all resyncs
# that they take part in.


class Resync:
    """One that is under way. While its link is silent it stands still."""

    __slots__ = ("_left", "_rate", "_since", "_timer", "finish", "link", "source", "target")

    def __init__(
        self, source: str, target: str, link: PeerLink, left: float, finish: Callable[[], None]
    ) -> None:
        self.source = source
        self.target = target
        self.link = link
        self.finish = finish
        self._left = left
        self._rate = -1.0
        self._since = 0.0
        self._timer: Timer | None = None

    def left(self, now: float) -> float:
        """Bytes that are not there yet."""
        return max(0.0, self._left - max(0.0, self._rate) * (now - self._since))

    def pace(self, rate: float, now: float, timers: Timers) -> None:
        """Go on at this rate."""
        if rate == self._rate:
            return
        self._left, self._since, self._rate = self.left(now), now, rate
        self.halt()
        if rate:
            self._timer = timers.after(self._left / rate, self._done)

    def halt(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _done(self) -> None:
        self._timer = None
        self._left = 0.0
        self.finish()


class ResyncScheduler:
    """All that are under way in a cluster, by the machines that take part."""

    def __init__(self, now: Callable[[], float], timers: Timers, figures: DrbdParameters) -> None:
        self._now = now
        self._timers = timers
        self._figures = figures
        self._on: dict[str, dict[Resync, None]] = {}

    def begin(self, resync: Resync) -> None:
        for machine in (resync.source, resync.target):
            self._on.setdefault(machine, {})[resync] = None
        self._pace_around(resync)

    def end(self, resync: Resync) -> float:
        """The bytes that were left."""
        left = resync.left(self._now())
        resync.halt()
        for machine in (resync.source, resync.target):
            del self._on[machine][resync]
        self._pace_around(resync)
        return left

    def pace(self, resync: Resync) -> None:
        """Something has changed on its link, or in its crowd."""
        crowd = max(len(self._on[resync.source]), len(self._on[resync.target]))
        rate = (
            resync_throughput(resync.link.weather, self._figures) / crowd
            if resync.link.connected
            else 0.0
        )
        resync.pace(rate, self._now(), self._timers)

    def _pace_around(self, resync: Resync) -> None:
        for other in self._around(resync):
            self.pace(other)

    def _around(self, resync: Resync) -> Iterator[Resync]:
        yield from self._on[resync.source]
        yield from (
            other for other in self._on[resync.target] if other not in self._on[resync.source]
        )


@dataclass(slots=True, eq=False)
class KernelServices:
    """The part of the kernels that knows no resource."""

    clock: Clock
    network: Network
    chance: Chance
    figures: DrbdParameters
    timers: Timers
    changed: Callable[[DrbdResource], None]
    """Told whenever the replicas of a resource have agreed anew."""
    resyncs: ResyncScheduler = field(init=False)
    _links_chance: Chance = field(init=False)

    def __post_init__(self) -> None:
        self.resyncs = ResyncScheduler(self.clock.now, self.timers, self.figures)
        self._links_chance = Chance(f"{self.chance.seed}/drbd")

    def stream(self, resource: str, one: str, other: str) -> Stream:
        """A link's own. It is forgotten with the link: a long run has many."""
        return self._links_chance.passing_stream(f"{resource}/{one}/{other}")
