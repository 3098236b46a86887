"""multivolume: starts volumes in steps until there are enough, for as long as the run lasts, and ends them all after it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.megatest.volume import Destiny, live

if TYPE_CHECKING:
    from pytest_kscen.chance import Stream
    from pytest_kscen.kube.actor import Stage
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.megatest.season import Season


async def multivolume(stage: Stage, churn: Churn, season: Season) -> None:
    actor = stage.actor("multivolume")
    running: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as volumes:
        while not season.frozen.given:
            if len(running) < churn.max_volumes:
                for _ in range(actor.chance.whole(*churn.step)):
                    destiny = _draw(actor.chance, churn)
                    task = volumes.create_task(live(stage, season, destiny), name=destiny.name)
                    running.add(task)
                    task.add_done_callback(running.discard)
            await season.frozen.within(actor.clock, actor.chance.between(*churn.step_period))


def _draw(chance: Stream, churn: Churn) -> Destiny:
    name = f"mgt-{chance.uid()}"
    return Destiny(name, chance.choice(churn.storage_classes), churn.size, chance.between(*churn.lifetime))
