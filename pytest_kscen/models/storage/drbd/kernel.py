"""Resyncs of all machines, and the services that all resources of a cluster share.

Called by the resources. Resyncs decide how fast data arrives, never when a replica may start one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.chance import Chance
from pytest_kscen.models.storage.drbd.connections import resync_throughput

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.network import Network
    from pytest_kscen.models.storage.drbd.connections import PeerLink
    from pytest_kscen.models.storage.drbd.resource import DrbdResource
    from pytest_kscen.models.storage.drbd.timers import DrbdParameters, Timer, Timers


class Resync:
    """Transfer of missing data to one replica.

    Pauses while its link is silent; calls `finish` once, after the last byte.
    """

    __slots__ = ("_rate", "_remaining", "_since", "_timer", "finish", "link", "source", "target")

    def __init__(
        self, source: str, target: str, link: PeerLink, remaining: float, finish: Callable[[], None]
    ) -> None:
        self.source = source
        self.target = target
        self.link = link
        self.finish = finish
        self._remaining = remaining
        self._rate = -1.0
        self._since = 0.0
        self._timer: Timer | None = None

    def remaining(self, now: float) -> float:
        return max(0.0, self._remaining - max(0.0, self._rate) * (now - self._since))

    def set_rate(self, rate: float, now: float, timers: Timers) -> None:
        """Continue at this rate in bytes per second; zero pauses. An unchanged rate keeps the
        running timer.
        """
        if rate == self._rate:
            return
        self._remaining, self._since, self._rate = self.remaining(now), now, rate
        self.cancel_timer()
        if rate:
            self._timer = timers.after(self._remaining / rate, self._complete)

    def cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _complete(self) -> None:
        self._timer = None
        self._remaining = 0.0
        self.finish()


class ResyncScheduler:
    """Resyncs under way in the cluster, by machine.

    A machine's bandwidth is shared equally: each start and end changes the rate of all resyncs on
    the two machines concerned.
    """

    def __init__(
        self, now: Callable[[], float], timers: Timers, parameters: DrbdParameters
    ) -> None:
        self._now = now
        self._timers = timers
        self._figures = parameters
        self._by_machine: dict[str, dict[Resync, None]] = {}

    def begin(self, resync: Resync) -> None:
        for machine in (resync.source, resync.target):
            self._by_machine.setdefault(machine, {})[resync] = None
        self._update_rates(resync)

    def end(self, resync: Resync) -> float:
        """Stop a resync, finished or not, and return the bytes that had not arrived yet."""
        remaining = resync.remaining(self._now())
        resync.cancel_timer()
        for machine in (resync.source, resync.target):
            del self._by_machine[machine][resync]
        self._update_rates(resync)
        return remaining

    def update_rate(self, resync: Resync) -> None:
        """Set the rate of one resync, after its link or the number of resyncs on its machines has
        changed.
        """
        sharing = max(len(self._by_machine[resync.source]), len(self._by_machine[resync.target]))
        rate = (
            resync_throughput(resync.link.quality, self._figures) / sharing
            if resync.link.connected
            else 0.0
        )
        resync.set_rate(rate, self._now(), self._timers)

    def _update_rates(self, resync: Resync) -> None:
        for other in self._by_machine[resync.source]:
            self.update_rate(other)
        for other in self._by_machine[resync.target]:
            if other not in self._by_machine[resync.source]:
                self.update_rate(other)


@dataclass(slots=True, eq=False)
class KernelServices:
    """Services common to all resources: time, network, random draws, parameters, timers and
    resyncs.
    """

    clock: Clock
    network: Network
    chance: Chance
    parameters: DrbdParameters
    timers: Timers
    changed: Callable[[DrbdResource], None]
    """Called each time the replicas of a resource have settled on a new state."""
    resyncs: ResyncScheduler = field(init=False)
    _links_chance: Chance = field(init=False)

    def __post_init__(self) -> None:
        self.resyncs = ResyncScheduler(self.clock.now, self.timers, self.parameters)
        self._links_chance = Chance(f"{self.chance.seed}/drbd")

    def stream(self, resource: str, one: str, other: str) -> Stream:
        """Return the random stream of one connection, which ends with the connection: a long run
        has many, and none may stay in memory.
        """
        return self._links_chance.temporary_stream(f"{resource}/{one}/{other}")
