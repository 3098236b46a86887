"""volume-main: makes one volume, waits until it is ready, has it checked for its lifetime, and takes it away."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.megatest.checker import check, is_ready
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.storage import REPLICATED_VOLUMES

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor, Stage
    from pytest_kscen.megatest.season import Season
    from pytest_kscen.objects.resources import Obj

PATIENCE = 600.0  # seconds within which a volume has to become ready, and to go


@dataclass(frozen=True, slots=True)
class Destiny:
    """What is drawn for a volume before it is made."""

    name: str
    storage_class: str
    size: str
    lifetime: float


async def live(stage: Stage, season: Season, destiny: Destiny) -> None:
    name = destiny.name
    actor = stage.actor(f"volume-main/{name}")
    actor.note("volume", volume=name, storage_class=destiny.storage_class, lifetime=destiny.lifetime)
    async with actor.doing("create the volume", volume=name, storage_class=destiny.storage_class, size=destiny.size):
        await actor.api.create(REPLICATED_VOLUMES, _volume(actor, destiny))
    if await _becomes_ready(actor, season, name):
        checker = asyncio.get_running_loop().create_task(check(stage, name), name=f"volume-checker/{name}")
        try:
            if await season.frozen.within(actor.clock, destiny.lifetime):
                checker.cancel()
                await season.over.wait()
        finally:
            checker.cancel()
            await asyncio.wait([checker])
            if not checker.cancelled() and (crash := checker.exception()):
                actor.note("check-crashed", volume=name, error=repr(crash))
    async with actor.doing("delete the volume", volume=name):
        await _remove(actor, name)


async def _becomes_ready(actor: Actor, season: Season, name: str) -> bool:
    """Wait until the volume is ready, or until the run is over for it."""
    ready = asyncio.ensure_future(_wait_until_ready(actor, name))
    over = asyncio.ensure_future(season.over.wait())
    try:
        await asyncio.wait((ready, over), return_when=asyncio.FIRST_COMPLETED)
        return ready.done() and ready.result()
    finally:
        ready.cancel()
        over.cancel()


async def _wait_until_ready(actor: Actor, name: str) -> bool:
    try:
        async with actor.doing("wait until the volume is ready", volume=name):
            await wait_for(actor.api, actor.clock, REPLICATED_VOLUMES, name, condition=is_ready, timeout=PATIENCE)
    except TimeoutError:
        actor.note("never-ready", volume=name, waited=PATIENCE)
        return False
    actor.note("ready", volume=name)
    return True


async def _remove(actor: Actor, name: str) -> None:
    try:
        await actor.api.delete(REPLICATED_VOLUMES, name)
        await wait_for(actor.api, actor.clock, REPLICATED_VOLUMES, name, condition=lambda volume: volume is None, timeout=PATIENCE)
    except NotFound:
        actor.note("already-gone", volume=name)
    except TimeoutError:
        actor.note("never-gone", volume=name, waited=PATIENCE)


def _volume(actor: Actor, destiny: Destiny) -> Obj:
    return {
        "apiVersion": REPLICATED_VOLUMES.api_version,
        "kind": REPLICATED_VOLUMES.kind,
        "metadata": {"name": destiny.name, "labels": actor.labels},
        "spec": {"size": destiny.size, "replicatedStorageClassName": destiny.storage_class},
    }
