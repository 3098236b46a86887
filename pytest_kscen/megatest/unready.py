"""Why a volume is not ready yet: what it and its replicas say, looked at again and again, and when nobody waits any longer.

It is noted when it has changed. Of a volume that is ready at once there is nothing to say.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Never

from pytest_kscen.megatest.attachments import attached_nodes
from pytest_kscen.megatest.checker import replicas_false
from pytest_kscen.objects.volume_health import Observed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.subject import Subject

LOOK_AGAIN = 10.0  # seconds
ABSENT = Observed("absent")


@contextlib.asynccontextmanager
async def shortcomings_noted(rv: Subject, actor: Actor) -> AsyncIterator[None]:
    wait = _Wait(rv, actor)
    looking = asyncio.get_running_loop().create_task(wait.look_again(), name=f"what {rv.name} lacks")
    try:
        yield
    finally:
        looking.cancel()
        wait.look(last=True)


@dataclass(slots=True)
class _Wait:
    """What was noted last."""

    rv: Subject
    actor: Actor
    told: list[tuple[str, Observed]] = field(default_factory=list)
    told_of_replicas: dict[str, list[str]] = field(default_factory=dict)

    async def look_again(self) -> Never:
        while True:
            await self.actor.clock.sleep(LOOK_AGAIN)
            self.look()

    def look(self, *, last: bool = False) -> None:
        """A message may count something: it alone is no change, unless there will be no other."""
        if self.rv.volume is None or self.rv.health.is_ready(self.rv.volume):
            return
        lacks = list(_lacks(self.rv).items())
        replicas = replicas_false(self.rv.view.replicas(self.rv.name), attached_nodes(self.rv))
        same = lacks == self.told if last else _states(lacks) == _states(self.told)
        if same and replicas == self.told_of_replicas:
            return
        self.told, self.told_of_replicas = lacks, replicas
        self.actor.note("not-ready", volume=self.rv.name, **_told(lacks, replicas))


def shortcomings(rv: Subject) -> dict[str, Any]:
    """As they are noted, of a volume that is there."""
    return _told(_lacks(rv).items(), replicas_false(rv.view.replicas(rv.name), attached_nodes(rv)))


def _told(lacks: Iterable[tuple[str, Observed]], replicas: dict[str, list[str]]) -> dict[str, Any]:
    return {"conditions": {name: seen._asdict() for name, seen in lacks}, "replicas": replicas}


def _lacks(rv: Subject) -> dict[str, Observed]:
    """What does not hold, or is not there although the volume promises it."""
    stated = ((rv.volume or {}).get("status") or {}).get("conditions") or ()
    seen = dict.fromkeys(rv.health.conditions, ABSENT)
    seen |= {one["type"]: Observed(one["status"], one.get("reason", ""), one.get("message", "")) for one in stated}
    seen |= rv.health.read(rv.volume)
    return {name: one for name, one in seen.items() if not one.holds}


def _states(lacks: Iterable[tuple[str, Observed]]) -> list[tuple[str, str, str]]:
    return [(name, seen.status, seen.reason) for name, seen in lacks]
