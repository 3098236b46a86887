"""The volume that its actors are given, and how they go about it: again and again, and undeterred by what is refused."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.storage import DISKFUL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from pytest_kscen.kube.actor import Actor, Deed, Stage
    from pytest_kscen.megatest.churn import Seconds
    from pytest_kscen.megatest.season import Season
    from pytest_kscen.megatest.view import View
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.objects.volume_health import HealthSource

REFUSALS = (ApiError, OSError)
"""What ends an action but nobody's life. A time-out is an OSError."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One volume under test."""

    name: str
    stage: Stage
    season: Season
    view: View
    key: str = ""
    """What its actors' chance goes by, whatever it is called; without one, its name."""

    def actor(self, role: str) -> Actor:
        return self.stage.actor(f"{role}/{self.name}", key=f"{role}/{self.key or self.name}", passing=True)

    @contextlib.contextmanager
    def key_known(self) -> Iterator[None]:
        """To those who draw one of the volumes."""
        self.stage.keys[self.name] = self.key or self.name
        try:
            yield
        finally:
            self.stage.keys.pop(self.name, None)

    @property
    def health(self) -> HealthSource:
        return self.stage.health

    @property
    def volume(self) -> Obj | None:
        return self.view.volume(self.name)

    async def pause(self, actor: Actor, period: Seconds) -> None:
        """Wait at random; and while the run heals, for its end first."""
        await actor.clock.sleep(actor.chance.between(*period))
        while self.season.heals:
            await self.season.over.wait()
            await actor.clock.sleep(actor.chance.between(*period))


@contextlib.asynccontextmanager
async def attempt(actor: Actor, action: str, **particulars: Any) -> AsyncIterator[Deed]:
    """Do it. A refusal or a time-out is logged and noted as the result, and whoever tried goes on."""
    with contextlib.suppress(*REFUSALS):
        async with actor.doing(action, **particulars) as deed:
            yield deed


class HinderedError(OSError):
    """Something was not done in time, and the storage is not to blame."""


@contextlib.contextmanager
def unless_hindered(hindrance: Callable[[], str]) -> Iterator[None]:
    """Who waits in vain, or does not wait to the end, is told what stood in the storage's way, if this knows of something."""
    try:
        yield
    except TimeoutError as error:
        if why := hindrance():
            raise HinderedError(f"{error}: {why}") from None
        raise
    except asyncio.CancelledError:
        if why := hindrance():
            raise asyncio.CancelledError(why) from None
        raise


@contextlib.contextmanager
def asking(deed: Deed) -> Iterator[None]:
    """Of what the API has not taken yet the storage has not heard."""
    with unless_hindered(lambda: "the API has not taken it"):
        yield
    deed.heard()


def disk_going(rv: Subject, node: str = "") -> str:
    """Newer storage replaces no disk that is deleted, so it may never let it go. The first generation's does."""
    if not rv.health.is_of_newer_storage:
        return ""
    for replica in rv.view.replicas(rv.name):
        spec, metadata = replica["spec"], replica["metadata"]
        if spec.get("type") == DISKFUL and metadata.get("deletionTimestamp") and node in {"", spec.get("nodeName")}:
            return f"{metadata['name']} is being deleted"
    return ""


@contextlib.contextmanager
def unless_gone(actor: Actor, **what: str) -> Iterator[None]:
    """What is there no more needs nothing; the view may be older than its end."""
    try:
        yield
    except NotFound:
        actor.note("already-gone", **what)


def made(actor: Actor, resource: Resource, name: str, spec: Obj) -> Obj:
    """An object of ours."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": actor.labels},
        "spec": spec,
    }
