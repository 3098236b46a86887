"""What one controller works with: requests in its own name, the pictures that all controllers share, time, and a voice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.kube.events import Recorder
from pytest_kscen.kube.informer import Ref
from pytest_kscen.kube.own_writes import OwnWrites
from pytest_kscen.objects.errors import Conflict, conflict
from pytest_kscen.simulation.controller import Controller, K

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.informer import Informer, Informers
    from pytest_kscen.objects.resources import Obj, Resource


def follow(controller: Controller[Ref], informer: Informer) -> None:
    """Look at every object of this resource, and again at each change."""

    def changed(new: Obj | None, _: Obj | None) -> None:
        if new:
            controller.enqueue(Ref.of(new))

    informer.on_change(changed)


@dataclass(frozen=True, slots=True)
class Bench:
    """One controller's place."""

    name: str
    api: OwnWrites
    clock: Clock
    informers: Informers
    recorder: Recorder
    gate: Callable[[], Awaitable[None]] | None = None
    """Awaited before each loop: a Scenario may want this controller to stand still."""

    @classmethod
    def of(cls, name: str, api: Api, clock: Clock, informers: Informers) -> Bench:
        return cls(name, OwnWrites(api, informers), clock, informers, Recorder(api, clock, name))

    def behind(self, gate: Callable[[], Awaitable[None]]) -> Bench:
        """The same place, held there."""
        return replace(self, gate=gate)

    def controller(self, reconcile: Callable[[K], Awaitable[float | None]], *pictures: Informer) -> Controller[K]:
        """A queue whose worker begins when these pictures are there, and sees in them what it wrote itself."""

        async def ready(key: K) -> None:
            for picture in pictures:
                if not picture.version:
                    await picture.synced()
            if self.gate:
                await self.gate()
            await self.api.turn_to(key)

        return Controller(self.name, self.clock, reconcile, ready=ready)

    def now(self) -> float:
        return self.clock.now()

    def timestamp(self) -> str:
        return timestamp_of(self.clock.now())

    async def write_status(self, resource: Resource, obj: Obj, status: Obj) -> Obj:
        """Replace an object's status; if somebody else has written it meanwhile, once more on top of that."""
        try:
            return await self.api.update(resource, {**obj, "status": status}, subresource="status")
        except Conflict:
            live = await self.api.get(resource, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
            if live["metadata"]["uid"] != obj["metadata"]["uid"]:
                raise conflict(resource, obj["metadata"]["name"], "another object has taken its name") from None
            return await self.api.update(resource, {**live, "status": status}, subresource="status")
