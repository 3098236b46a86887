"""What all resources of a cluster share: the time, the network, chance and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.chance import Chance
from pytest_kscen.simulation.storage.drbd.resync import Resyncs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Stream
    from pytest_kscen.clock import Clock
    from pytest_kscen.simulation.network import Network
    from pytest_kscen.simulation.storage.drbd.figures import Figures
    from pytest_kscen.simulation.storage.drbd.timers import Timers
    from pytest_kscen.simulation.storage.drbd.volume import Volume


@dataclass(slots=True, eq=False)
class Kernel:
    """The part of the kernels that knows no resource."""

    clock: Clock
    network: Network
    chance: Chance
    figures: Figures
    timers: Timers
    changed: Callable[[Volume], None]
    """Told whenever the replicas of a resource have agreed anew."""
    resyncs: Resyncs = field(init=False)
    _links_chance: Chance = field(init=False)

    def __post_init__(self) -> None:
        self.resyncs = Resyncs(self.clock.now, self.timers, self.figures)
        self._links_chance = Chance(f"{self.chance.seed}/drbd")

    def stream(self, resource: str, one: str, other: str) -> Stream:
        """A link's own. It is forgotten with the link: a long run has many."""
        return self._links_chance.passing_stream(f"{resource}/{one}/{other}")
