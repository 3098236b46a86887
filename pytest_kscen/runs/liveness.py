"""What becomes of the volumes that are left when everything is healed: each is ready again within a stated time, or is late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.storage import REPLICATED_VOLUMES

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor, Stage

HEALING = 300.0  # seconds of cluster time


async def late(stage: Stage) -> list[str]:
    """The volumes that did not make it."""
    actor = stage.actor("run")
    staying = [
        one["metadata"]["name"] for one in await actor.own(REPLICATED_VOLUMES) if not one["metadata"].get("deletionTimestamp")
    ]
    async with asyncio.TaskGroup() as waiting:
        healed = [waiting.create_task(_heals(stage, actor, name), name=f"healing of {name}") for name in staying]
    return [name for name, heals in zip(staying, healed, strict=True) if not heals.result()]


async def _heals(stage: Stage, actor: Actor, name: str) -> bool:
    """One that goes meanwhile is waited for no more; whether it should have gone is judged by who deleted it."""
    try:
        await wait_for(
            actor.api,
            actor.clock,
            REPLICATED_VOLUMES,
            name,
            condition=lambda volume: volume is None or stage.health.is_ready(volume),
            timeout=HEALING,
        )
    except TimeoutError:
        return False
    return True
