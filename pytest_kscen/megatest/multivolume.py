"""multivolume: starts volumes in steps until there are enough, for as long as the run lasts, and ends them all after it.

A step that begins below the limit is done whole, so the limit may be overshot by one step.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from pytest_kscen.chaos.pods import PodDestroy
from pytest_kscen.megatest.destiny import draw
from pytest_kscen.megatest.season import unless
from pytest_kscen.megatest.volume import live

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.kube.actor import Actor, Stage
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.megatest.season import Season

POD_DESTROYER = PodDestroy()


async def multivolume(stage: Stage, churn: Churn, season: Season) -> None:
    async with season.view(stage), asyncio.TaskGroup() as together:
        if churn.pod_destroyer:
            season.shakers.append(together.create_task(POD_DESTROYER.run(stage, season.frozen), name="pod-destroyer"))
        await unless(season.frozen, _steps(stage, churn, season, together))


async def _steps(stage: Stage, churn: Churn, season: Season, volumes: asyncio.TaskGroup) -> Never:
    actor, running = stage.actor("multivolume"), season.running
    while True:
        if len(running) < churn.max_volumes:
            for _ in range(_step(actor, churn, len(running))):
                destiny = draw(actor.chance, churn)
                running[destiny.name] = None
                task = volumes.create_task(live(stage, season, destiny), name=destiny.name)
                task.add_done_callback(partial(_is_over, running))
        await actor.clock.sleep(actor.chance.between(*churn.step_period))


def _is_over(running: dict[str, None], task: asyncio.Task[None]) -> None:
    """Whatever has become of the volume, its place is free."""
    running.pop(task.get_name(), None)


def _step(actor: Actor, churn: Churn, running: int) -> int:
    count = actor.chance.whole(*churn.step)
    actor.log(logging.INFO, "start volumes", count=count, running=running, max_volumes=churn.max_volumes)
    return count
