"""What becomes of the volumes that are left when everything is healed: each is ready again within a stated time, or is late.

One that was never ready yet has at least the time for that which it had from its beginning, and one that lacks a disk that we
took the same from when we took it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import Unseen, wait_for
from pytest_kscen.objects.storage import REPLICATED_VOLUMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.kube.actor import Actor, Stage

HEALING = 300.0  # seconds of cluster time
ASKED_AGAIN = 10.0  # seconds after which a refused look is told as one


async def late(stage: Stage, awaits: Callable[[str], float]) -> list[str] | None:
    """The volumes that did not make it; None if none is known to be late, and at one nobody could look to the end."""
    actor = stage.actor("run")
    staying = [
        one["metadata"]["name"] for one in await actor.own(REPLICATED_VOLUMES) if not one["metadata"].get("deletionTimestamp")
    ]
    async with asyncio.TaskGroup() as waiting:
        healed = [waiting.create_task(_heals(stage, actor, name, awaits(name)), name=f"healing of {name}") for name in staying]
    found = {name: heals.result() for name, heals in zip(staying, healed, strict=True)}
    known = [name for name, heals in found.items() if heals is False]
    return known if known or None not in found.values() else None


async def _heals(stage: Stage, actor: Actor, name: str, until: float) -> bool | None:
    """One that goes meanwhile is waited for no more; whether it should have gone is judged by who deleted it."""
    try:
        await wait_for(
            actor.with_patience(ASKED_AGAIN).api,
            actor.clock,
            REPLICATED_VOLUMES,
            name,
            condition=lambda volume: volume is None or stage.health.is_ready(volume),
            timeout=max(HEALING, until - actor.clock.now()),
        )
    except Unseen as unseen:
        actor.log(logging.WARNING, "whether it became ready again nobody could see", volume=name, why=str(unseen))
        return None
    except TimeoutError:
        return False
    return True
