"""volume-replica-destroyer: deletes a replica of the volume at random, again and again, and never waits for it to go."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytest_kscen.megatest.replacements import Replacements
from pytest_kscen.megatest.subject import attempt, unless_gone
from pytest_kscen.megatest.view import name_of
from pytest_kscen.objects.storage import DISKFUL, REPLICATED_VOLUME_REPLICAS

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.megatest.churn import Seconds
    from pytest_kscen.megatest.subject import Subject


async def destroy_replicas(rv: Subject, period: Seconds, patience: float) -> Never:
    """The patience is with whoever replaces a disk."""
    actor = rv.actor("volume-replica-destroyer")
    async with asyncio.TaskGroup() as crew:
        replacements = Replacements(rv, actor, patience, crew)
        while True:
            await rv.pause(actor, period)
            replicas = [one for one in rv.view.replicas(rv.name) if not one["metadata"].get("deletionTimestamp")]
            if not replicas:
                actor.log(logging.INFO, "there is no replica to delete", volume=rv.name)
                continue
            doomed = actor.chance.choice(replicas)
            name, spec = name_of(doomed), doomed["spec"]
            what = {"replica": name, "type": spec.get("type", ""), "node": spec.get("nodeName", "")}
            is_disk, before = spec.get("type") == DISKFUL, len(replacements.disks())
            within = {"patience": patience} if is_disk else {}
            async with attempt(actor, "delete a replica", volume=rv.name, **what, **within):
                with unless_gone(actor, volume=rv.name, replica=name):
                    await actor.api.delete(REPLICATED_VOLUME_REPLICAS, name)
                replacements.taken.add(doomed["metadata"]["uid"])
            if is_disk:
                replacements.expect(before)
