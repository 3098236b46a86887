"""volume-attacher: does to a volume what a CSI driver would as pods come, move and go: cycles of attaching and detaching.

Most cycles leave the volume attached nowhere, some to one node, so that there is something to migrate.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pytest_kscen.megatest.attachments import attach, attached_nodes, detach, detach_everywhere
from pytest_kscen.megatest.season import unless
from pytest_kscen.megatest.subject import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Never

    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.churn import Seconds
    from pytest_kscen.megatest.subject import Subject

ATTACH_ONLY = 10  # of a hundred cycles that find the volume attached nowhere


class Cycle(Enum):
    """What is done next."""

    NORMAL = "normal"
    ATTACH = "attach"
    DETACH = "detach"
    MIGRATION = "migration"


def cycle_for(attached: Sequence[str], wanted: str, number: int) -> Cycle:
    match len(attached):
        case 0:
            return Cycle.ATTACH if number < ATTACH_ONLY else Cycle.NORMAL
        case 1:
            return Cycle.DETACH if wanted in attached else Cycle.MIGRATION
        case _:  # somebody went down in the middle and is up again
            return Cycle.DETACH


async def attach_and_detach(rv: Subject, period: Seconds | None, stop: Signal) -> None:
    """Until the signal, and then detach the volume from wherever it is. Without a period that is all."""
    actor = rv.actor("volume-attacher")
    if period:
        await unless(stop, Cycles(rv, actor, period).run())
    await stop.wait()
    await detach_everywhere(rv, actor)


@dataclass(frozen=True, slots=True)
class Cycles:
    """One after the other, for ever; what is refused ends the cycle, and the next one begins with what it finds."""

    rv: Subject
    actor: Actor
    period: Seconds

    async def run(self) -> Never:
        while True:
            await self._pause()
            if not (nodes := await self.rv.view.storage_nodes()):
                self.actor.log(logging.WARNING, "there is no node to attach to", volume=self.rv.name)
                continue
            wanted, attached = self.actor.chance.choice(nodes), attached_nodes(self.rv)
            cycle = cycle_for(attached, wanted, self.actor.chance.below(100))
            chosen = {"volume": self.rv.name, "cycle": cycle.value, "wanted": wanted, "attached": attached}
            self.actor.note("cycle", **chosen)
            self.actor.log(logging.INFO, "cycle chosen", **chosen)
            with contextlib.suppress(*REFUSALS):
                await self._go_through(cycle, wanted, attached)

    async def _go_through(self, cycle: Cycle, wanted: str, attached: Sequence[str]) -> None:
        match cycle:
            case Cycle.NORMAL:
                await self._attach(wanted)
                await self._pause()
                await self._detach(wanted)
            case Cycle.ATTACH:
                await self._attach(wanted)
            case Cycle.DETACH:
                await self._detach(self.actor.chance.choice(attached))
            case Cycle.MIGRATION:
                await self._attach(wanted)
                await self._detach(attached[0])
                await self._pause()
                await self._detach(wanted)

    async def _pause(self) -> None:
        await self.rv.pause(self.actor, self.period)

    async def _attach(self, node: str) -> None:
        await attach(self.rv, self.actor, node)

    async def _detach(self, node: str) -> None:
        await detach(self.rv, self.actor, node)
