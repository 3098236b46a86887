"""volume-replica-creator: adds a replica without data to the volume, again and again, and never waits for it to work."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from pytest_kscen.megatest.placement import nodes_of
from pytest_kscen.megatest.subject import REFUSALS, attempt, made
from pytest_kscen.megatest.view import name_of
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.storage import ACCESS, REPLICAS, REPLICATED_VOLUME_REPLICAS, TIE_BREAKER, volume_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Never

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.churn import Seconds
    from pytest_kscen.megatest.subject import Subject
    from pytest_kscen.objects.resources import Obj

TRY_AGAIN = 60.0  # seconds until it is looked again for what was left, if nobody could tell


async def create_replicas(rv: Subject, period: Seconds) -> Never:
    actor = rv.actor("volume-replica-creator")
    while True:
        await rv.pause(actor, period)
        kind = actor.chance.choice((ACCESS, TIE_BREAKER))
        replicas, nodes = rv.view.replicas(rv.name), await rv.view.storage_nodes()
        free = [node for node in nodes if node not in nodes_of(replicas)]
        name = first_free(rv.name, map(name_of, replicas))
        if name is None or (kind == ACCESS and not free):
            actor.log(logging.INFO, "there is no room for a replica", volume=rv.name, type=kind, replicas=len(replicas))
            continue
        node = actor.chance.choice(free) if kind == ACCESS else ""
        async with attempt(actor, "create a replica", volume=rv.name, replica=name, type=kind, node=node):
            await actor.api.create(REPLICATED_VOLUME_REPLICAS, _replica(rv, actor, name, kind, node))


async def sweep_replicas(rv: Subject) -> None:
    """Delete what was added in the very moment in which the volume went: nobody else would. The run's end is the last occasion."""
    actor = rv.actor("volume-replica-creator")
    while not await _swept(rv, actor) and not rv.season.over.given:
        await rv.season.over.within(TRY_AGAIN)


async def _swept(rv: Subject, actor: Actor) -> bool:
    left: list[str] | None = None
    async with attempt(actor, "look for replicas that were left", volume=rv.name):
        left = [name_of(one) for one in await actor.own(REPLICATED_VOLUME_REPLICAS) if volume_of(one) == rv.name]
    return left is not None and all([await _deleted(rv, actor, replica) for replica in left])


async def _deleted(rv: Subject, actor: Actor, replica: str) -> bool:
    try:
        async with actor.doing("delete a replica that was left", volume=rv.name, replica=replica):
            with contextlib.suppress(NotFound):  # an answer was lost, and the deletion was asked for again
                await actor.api.delete(REPLICATED_VOLUME_REPLICAS, replica)
    except REFUSALS:
        return False
    return True


def first_free(volume: str, taken: Iterable[str]) -> str | None:
    names = list(taken)
    return next((name for name in (f"{volume}-{number}" for number in range(REPLICAS)) if name not in names), None)


def _replica(rv: Subject, actor: Actor, name: str, kind: str, node: str) -> Obj:
    """One with data is never made: nobody takes away what is too many of them. A tie-breaker's node is the storage's choice."""
    spec = {"replicatedVolumeName": rv.name, "type": kind, **({"nodeName": node} if node else {})}
    return made(actor, REPLICATED_VOLUME_REPLICAS, name, spec)
