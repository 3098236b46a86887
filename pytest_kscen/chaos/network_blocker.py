"""network-blocker: cuts machines off from each other for a while, again and again: all TCP, one DRBD link, or two groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.faults.blocks import DRBD, EVERYTHING, SPLIT_BRAIN, Block, of_link
from pytest_kscen.chaos.hands import Hands, Impossible
from pytest_kscen.chaos.recurring import drawn, recur, valid_times, valid_variants
from pytest_kscen.chaos.replicas import links_of
from pytest_kscen.objects.numbers import is_whole

if TYPE_CHECKING:
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Stage

WEIGHTS = {EVERYTHING: 30, DRBD: 30, SPLIT_BRAIN: 40}
PAIR = 2


@dataclass(frozen=True, slots=True)
class NetworkBlock:
    """How often and for how long, in seconds; a group size of 0 is one half."""

    period: tuple[float, float] = (60.0, 300.0)
    incident: tuple[float, float] = (10.0, 60.0)
    group_size: int = 0
    variants: tuple[str, ...] = tuple(WEIGHTS)

    profile: ClassVar[str] = Block.profile

    def __post_init__(self) -> None:
        valid_times(self)
        valid_variants(self.variants, WEIGHTS)
        if not is_whole(self.group_size, 0):
            raise ValueError(f"group_size={self.group_size!r}: give a whole number, 0 for one half")

    @property
    def soonest(self) -> float:
        return self.period[0]

    def needs_machines(self) -> int:
        return max(PAIR, self.group_size + 1 if SPLIT_BRAIN in self.variants else 0)

    @property
    def needs_volumes(self) -> bool:
        """Whether all that it does is done to a volume's link."""
        return set(self.variants) == {DRBD}

    async def run(self, stage: Stage, stop: Signal) -> None:
        await recur(stage, stop, self, "chaos-network-blocker", self._draw)

    async def _draw(self, hands: Hands, _: float) -> Block:
        chance = hands.nested.chance
        machines = chance.shuffled(list(await hands.machines()))
        variant = drawn(chance, self.variants, WEIGHTS)
        needed = self.group_size + 1 if variant == SPLIT_BRAIN else PAIR
        if len(machines) < max(PAIR, needed):
            raise Impossible(f"{variant} needs {max(PAIR, needed)} virtual machines, and there are {len(machines)}")
        if variant == DRBD:
            return await _one_link(hands, machines[0])
        size = 1 if variant == EVERYTHING else self.group_size or (len(machines) + 1) // 2
        others = machines[1:PAIR] if variant == EVERYTHING else machines[size:]
        return Block(variant, tuple(machines[:size]), tuple(others))


async def _one_link(hands: Hands, machine: str) -> Block:
    found = await links_of(hands, machine)
    if not found:
        raise Impossible(f"{DRBD}: no volume has a link between {machine} and another machine")
    return of_link(hands.nested.chance.choice(found))
