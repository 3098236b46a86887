"""What a run has left behind: every object with its label, in every resource of both clusters. What is going gets time to go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import Forbidden, MethodNotAllowed, NotFound
from pytest_kscen.objects.resources import EVENTS

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor

PATIENCE, HURRIED = 120.0, 5.0  # seconds for what was deleted to be gone
LOOK_AGAIN = 2.0


async def leftovers(actors: list[Actor], patience: float) -> list[str]:
    """The names of what is still there, after waiting for what is on its way."""
    clock = actors[0].clock
    end = clock.now() + patience
    while (left := await _look(actors)) and clock.now() < end:
        await clock.sleep(LOOK_AGAIN)
    return left


async def _look(actors: list[Actor]) -> list[str]:
    """Each object once, by its uid: the actors' clusters may be one, and a kind may be served in several groups."""
    found: dict[str, str] = {}
    for actor in actors:
        found |= await _labelled(actor)
    return list(found.values())


async def _labelled(actor: Actor) -> dict[str, str]:
    selector = ",".join(f"{label}={value}" for label, value in actor.labels.items())
    found: dict[str, str] = {}
    for resource in await actor.api.resources():
        if resource.plural == EVENTS.plural:
            continue
        try:
            items = (await actor.api.list(resource, labels=selector)).items
        except Forbidden:
            actor.note("not-looked-into", resource=resource.qualified, why="forbidden")
            continue
        except (MethodNotAllowed, NotFound):
            continue
        for item in items:
            metadata = item["metadata"]
            place = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
            found.setdefault(metadata["uid"], f"{resource.plural}/{place}")
    return found
