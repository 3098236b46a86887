"""volume-replica-creator: adds a replica without data to the volume, again and again, and never waits for it to work."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.megatest.placement import nodes_of
from pytest_kscen.megatest.subject import attempt, made
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
    """Delete what was added in the very moment in which the volume went: nobody else would."""
    actor = rv.actor("volume-replica-creator")
    listing = await actor.api.list(REPLICATED_VOLUME_REPLICAS, labels=f"{RUN_LABEL}={rv.stage.run_id}")
    for left in [name_of(one) for one in listing.items if volume_of(one) == rv.name]:
        async with attempt(actor, "delete a replica that was left", volume=rv.name, replica=left):
            with contextlib.suppress(NotFound):  # an answer was lost, and the deletion was asked for again
                await actor.api.delete(REPLICATED_VOLUME_REPLICAS, left)


def first_free(volume: str, taken: Iterable[str]) -> str | None:
    names = list(taken)
    return next((name for name in (f"{volume}-{number}" for number in range(REPLICAS)) if name not in names), None)


def _replica(rv: Subject, actor: Actor, name: str, kind: str, node: str) -> Obj:
    """One with data is never made: nobody takes away what is too many of them. A tie-breaker's node is the storage's choice."""
    spec = {"replicatedVolumeName": rv.name, "type": kind, **({"nodeName": node} if node else {})}
    return made(actor, REPLICATED_VOLUME_REPLICAS, name, spec)
