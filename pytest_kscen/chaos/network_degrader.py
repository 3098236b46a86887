"""network-degrader: makes the network between two machines worse for a while, again and again: losses, or a loaded link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.faults.latency import Latency
from pytest_kscen.chaos.faults.losses import Losses, valid_loss
from pytest_kscen.chaos.faults.pairs import PROFILE
from pytest_kscen.chaos.hands import Hands, Impossible
from pytest_kscen.chaos.recurring import drawn, recur, valid_times, valid_variants

if TYPE_CHECKING:
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Stage

WEIGHTS = {Losses.variant: 50, Latency.variant: 50}
PAIR = 2


@dataclass(frozen=True, slots=True)
class NetworkDegrade:
    """How often and for how long, in seconds; the share of packets to lose is from 0 to 1."""

    period: tuple[float, float] = (60.0, 300.0)
    incident: tuple[float, float] = (10.0, 60.0)
    loss: float = 0.01
    variants: tuple[str, ...] = tuple(WEIGHTS)

    profile: ClassVar[str] = PROFILE

    def __post_init__(self) -> None:
        valid_times(self)
        valid_variants(self.variants, WEIGHTS)
        valid_loss(self.loss)

    @property
    def soonest(self) -> float:
        return self.period[0]

    def needs_machines(self) -> int:
        return PAIR

    async def run(self, stage: Stage, stop: Signal) -> None:
        await recur(stage, stop, self, "chaos-network-degrader", self._draw)

    async def _draw(self, hands: Hands, seconds: float) -> Losses | Latency:
        chance = hands.nested.chance
        machines = chance.shuffled(list(await hands.machines()))
        if len(machines) < PAIR:
            raise Impossible(f"{self.profile} needs {PAIR} virtual machines, and there are {len(machines)}")
        pair = machines[0], machines[1]
        if drawn(chance, self.variants, WEIGHTS) == Losses.variant:
            return Losses(pair, self.loss, seconds)
        return Latency(pair, seconds)
