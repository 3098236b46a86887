"""How every controller lives: keys go into a queue, one worker reconciles them in turn, and what
fails comes again later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_kscen.clock import timestamp_of
from pytest_kscen.kube.cache import Ref
from pytest_kscen.kube.events import EventRecorder
from pytest_kscen.kube.informer import OwnWrites
from pytest_kscen.objects.errors import ApiError, Conflict, NotFound, conflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.informer import Informer, Informers
    from pytest_kscen.objects.resources import Obj, Resource


KeyT = TypeVar("KeyT", bound=Hashable)

logger = logging.getLogger(__name__)

FIRST_RETRY, LONGEST_RETRY = 0.005, 1000.0


async def no_wait(*_: Hashable) -> None:
    """Nothing to wait for."""


class Controller(Generic[KeyT]):
    """A queue without duplicates and its worker.

    `reconcile` may return the seconds after which it wants to look again; the latest look's answer
    stands in place of the one before. `ready` is awaited before each look. A refusal of the API
    brings the key back after a delay that doubles each time; any other error ends the controller.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        reconcile: Callable[[KeyT], Awaitable[float | None]],
        *,
        ready: Callable[[KeyT], Awaitable[None]] = no_wait,
    ) -> None:
        self.name = name
        self._clock = clock
        self._reconcile = reconcile
        self._ready = ready
        self._queue: dict[KeyT, None] = {}
        self._later: dict[KeyT, asyncio.TimerHandle] = {}
        self._again: dict[KeyT, asyncio.TimerHandle] = {}
        self._failures: dict[KeyT, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = (
            None  # kept: to ask for it each time costs a system call
        )
        self._idle: asyncio.Future[None] | None = None

    def enqueue(self, key: KeyT) -> None:
        self._queue[key] = None
        if self._idle and not self._idle.done():
            self._idle.set_result(None)

    def enqueue_after(self, key: KeyT, seconds: float) -> None:
        """Look again after this time, or sooner if that was promised before."""
        loop = self._loop or asyncio.get_running_loop()
        if seconds <= 0:  # but not before everybody else has had a turn
            loop.call_soon(self.enqueue, key)
            return
        when, promised = loop.time() + seconds, self._later.get(key)
        if promised is None or when < promised.when():
            if promised:
                promised.cancel()
            self._later[key] = loop.call_at(when, self._due, key)

    def _due(self, key: KeyT) -> None:
        del self._later[key]
        self.enqueue(key)

    async def run(self) -> Never:
        loop = self._loop = asyncio.get_running_loop()
        try:
            while True:
                while not self._queue:
                    self._idle = loop.create_future()
                    await self._idle
                key = next(iter(self._queue))
                await self._ready(key)  # what changes meanwhile needs no look of its own
                del self._queue[key]
                await self._work(key)
        finally:
            for promised in [*self._later.values(), *self._again.values()]:
                promised.cancel()

    async def _work(self, key: KeyT) -> None:
        try:
            again = await self._reconcile(key)
        except (ApiError, OSError) as error:
            failures = self._failures[key] = self._failures.get(key, -1) + 1
            if not isinstance(error, Conflict | NotFound):
                logger.warning("%s: %s: %s", self.name, key, error)
            self.enqueue_after(key, min(FIRST_RETRY * 2**failures, LONGEST_RETRY))
            return
        self._failures.pop(key, None)
        if before := self._again.pop(key, None):
            before.cancel()
        if again is not None:
            loop = (
                self._loop or asyncio.get_running_loop()
            )  # even at once means: not before everybody else has had a turn
            self._again[key] = loop.call_at(loop.time() + max(0.0, again), self.enqueue, key)


def follow(controller: Controller[Ref], informer: Informer) -> None:
    """Look at every object of this resource, and again at each change."""

    def changed(new: Obj | None, _: Obj | None) -> None:
        if new:
            controller.enqueue(Ref.of(new))

    informer.on_change(changed)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """One controller's place."""

    name: str
    api: OwnWrites
    clock: Clock
    informers: Informers
    recorder: EventRecorder
    gate: Callable[[], Awaitable[None]] | None = None
    """Awaited before each loop: a Scenario may want this controller to stand still."""

    @classmethod
    def of(cls, name: str, api: Api, clock: Clock, informers: Informers) -> ControllerContext:
        return cls(
            name, OwnWrites(api, informers), clock, informers, EventRecorder(api, clock, name)
        )

    def behind(self, gate: Callable[[], Awaitable[None]]) -> ControllerContext:
        """The same place, held there."""
        return replace(self, gate=gate)

    def controller(
        self, reconcile: Callable[[KeyT], Awaitable[float | None]], *pictures: Informer
    ) -> Controller[KeyT]:
        """A queue whose worker begins when these pictures are there, and sees in them what it
        wrote itself.
        """

        async def ready(key: KeyT) -> None:
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
        """Replace an object's status; if somebody else has written it meanwhile, once more on
        top of that.
        """
        try:
            return await self.api.update(resource, {**obj, "status": status}, subresource="status")
        except Conflict:
            live = await self.api.get(
                resource, obj["metadata"]["name"], obj["metadata"].get("namespace", "")
            )
            if live["metadata"]["uid"] != obj["metadata"]["uid"]:
                raise conflict(
                    resource, obj["metadata"]["name"], "another object has taken its name"
                ) from None
            return await self.api.update(resource, {**live, "status": status}, subresource="status")


class StatusWriter:
    """Brings every owner of one kind to its controller, and again at each change but this
    controller's own words.
    """

    def __init__(
        self, context: ControllerContext, controller: Controller[Ref], owners: Resource
    ) -> None:
        self._context = context
        self._controller = controller
        self._owners = owners
        self._told: dict[Ref, str] = {}
        """The version of each owner in which it says what it was told to say, until that is
        seen.
        """
        context.informers.of(owners).on_change(self._changed)

    async def tell(self, owner: Obj, status: Obj, *, failed: bool = False) -> Obj:
        """Write the status that follows from a look; what is told of one that failed brings the
        owner back, as in Kubernetes.
        """
        told = await self._context.write_status(self._owners, owner, status)
        if not failed:
            self._told[Ref.of(told)] = told["metadata"]["resourceVersion"]
        return told

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        told = self._told.pop(Ref.of(new or old or {}), "")
        if new and not (
            old and new["metadata"]["resourceVersion"] == told and _differs_in_status_only(new, old)
        ):
            self._controller.enqueue(Ref.of(new))


def _differs_in_status_only(new: Obj, old: Obj) -> bool:
    """Whether nothing but the status was written: whoever told it may have missed what somebody
    else has written.
    """
    return _without_status(new) == _without_status(old)


def _without_status(obj: Obj) -> Obj:
    metadata = {
        name: value
        for name, value in obj["metadata"].items()
        if name not in {"resourceVersion", "managedFields"}
    }
    return {**obj, "metadata": metadata, "status": None}
