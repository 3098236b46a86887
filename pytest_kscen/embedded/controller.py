"""Base of every controller: a queue of keys, one worker that reconciles them, and retries.

Also the context that a controller works with: API client, shared informers, clock and Event
recorder. Imports neither the API server nor any single controller.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
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
    """Return at once: the default of `Controller.ready`."""


class Controller(Generic[KeyT]):
    """Work queue without duplicates, and its single worker.

    `reconcile` may return the seconds after which the key is to be reconciled again; a later result
    replaces an earlier one. `ready` is awaited before each call. An API error requeues the key with
    a delay that doubles; any other exception ends the controller.
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
        self._delayed: dict[KeyT, asyncio.TimerHandle] = {}
        self._requeues: dict[KeyT, asyncio.TimerHandle] = {}
        self._failures: dict[KeyT, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = (
            None  # cached: looking it up costs a system call
        )
        self._idle: asyncio.Future[None] | None = None

    def enqueue(self, key: KeyT) -> None:
        self._queue[key] = None
        if self._idle and not self._idle.done():
            self._idle.set_result(None)

    def enqueue_after(self, key: KeyT, seconds: float) -> None:
        """Enqueue the key after this many seconds, unless it is already due earlier."""
        loop = self._loop or asyncio.get_running_loop()
        if seconds <= 0:  # after all callbacks that are ready now
            loop.call_soon(self.enqueue, key)
            return
        when, timer = loop.time() + seconds, self._delayed.get(key)
        if timer is None or when < timer.when():
            if timer:
                timer.cancel()
            self._delayed[key] = loop.call_at(when, self._due, key)

    def _due(self, key: KeyT) -> None:
        del self._delayed[key]
        self.enqueue(key)

    async def run(self) -> Never:
        loop = self._loop = asyncio.get_running_loop()
        try:
            while True:
                while not self._queue:
                    self._idle = loop.create_future()
                    await self._idle
                key = next(iter(self._queue))
                await self._ready(key)  # changes until here are covered by this call
                del self._queue[key]
                await self._work(key)
        finally:
            for timer in [*self._delayed.values(), *self._requeues.values()]:
                timer.cancel()

    async def _work(self, key: KeyT) -> None:
        try:
            requeue_after = await self._reconcile(key)
        except (ApiError, OSError) as error:
            failures = self._failures[key] = self._failures.get(key, -1) + 1
            if not isinstance(error, Conflict | NotFound):
                logger.warning("%s: %s: %s", self.name, key, error)
            self.enqueue_after(key, min(FIRST_RETRY * 2**failures, LONGEST_RETRY))
            return
        self._failures.pop(key, None)
        if pending := self._requeues.pop(key, None):
            pending.cancel()
        if requeue_after is not None:
            # 0 s means: after all callbacks that are ready now.
            loop = self._loop or asyncio.get_running_loop()
            self._requeues[key] = loop.call_at(
                loop.time() + max(0.0, requeue_after), self.enqueue, key
            )


def follow(controller: Controller[Ref], informer: Informer) -> None:
    """Enqueue every object of the informer's resource now, and again on each change."""

    def changed(new: Obj | None, _: Obj | None) -> None:
        if new:
            controller.enqueue(Ref.of(new))

    informer.on_change(changed)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """API client, caches, clock and Event recorder of one controller, in whose name all of them
    act.
    """

    name: str
    api: OwnWrites
    clock: Clock
    informers: Informers
    recorder: EventRecorder
    gate: Callable[[], Awaitable[None]] | None = None
    """Awaited before each reconciliation; a Scenario closes it to hold this controller."""

    @classmethod
    def of(cls, name: str, api: Api, clock: Clock, informers: Informers) -> ControllerContext:
        return cls(
            name, OwnWrites(api, informers), clock, informers, EventRecorder(api, clock, name)
        )

    def behind(self, gate: Callable[[], Awaitable[None]]) -> ControllerContext:
        """Return a copy of the context that waits for this gate before each reconciliation."""
        return replace(self, gate=gate)

    def controller(
        self, reconcile: Callable[[KeyT], Awaitable[float | None]], *caches: Informer
    ) -> Controller[KeyT]:
        """Return a controller that starts once these informers are synced and that reads its own
        writes.

        Before each key it waits for the gate and for the caches to contain what it wrote to this
        key.
        """

        async def ready(key: KeyT) -> None:
            for informer in caches:
                if not informer.version:
                    await informer.synced()
            if self.gate:
                await self.gate()
            await self.api.select_subject(key)

        return Controller(self.name, self.clock, reconcile, ready=ready)

    def now(self) -> float:
        return self.clock.now()

    def timestamp(self) -> str:
        return timestamp_of(self.clock.now())

    async def write_status(self, resource: Resource, obj: Obj, status: Obj) -> Obj:
        """Replace an object's status. After a conflict, write the same status once more on top
        of the newest version.
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
    """Enqueue the owners of one kind on every change except the writer's own status writes.

    Writing a status through it thus causes no second reconciliation.
    """

    def __init__(
        self, context: ControllerContext, controller: Controller[Ref], owners: Resource
    ) -> None:
        self._context = context
        self._controller = controller
        self._owners = owners
        self._own_versions: dict[Ref, str] = {}
        """Resource version of each own status write until its event arrives."""
        context.informers.of(owners).on_change(self._changed)

    async def write(self, owner: Obj, status: Obj, *, failed: bool = False) -> Obj:
        """Write the status. The change of a failed reconciliation (`failed`) enqueues the owner
        again, as in Kubernetes.
        """
        written = await self._context.write_status(self._owners, owner, status)
        if not failed:
            self._own_versions[Ref.of(written)] = written["metadata"]["resourceVersion"]
        return written

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        written = self._own_versions.pop(Ref.of(new or old or {}), "")
        if new and not (
            old
            and new["metadata"]["resourceVersion"] == written
            # apart from the status both are equal: no other client's change is skipped
            and _without_status(new) == _without_status(old)
        ):
            self._controller.enqueue(Ref.of(new))


def _without_status(obj: Obj) -> Obj:
    metadata = {
        name: value
        for name, value in obj["metadata"].items()
        if name not in {"resourceVersion", "managedFields"}
    }
    return {**obj, "metadata": metadata, "status": None}


class Reconciler(ABC):
    """Controller with a single queue of references, which a subclass fills from its informers.

    The constructor gets the informers that `_reconcile` reads; the queue exists from then on, so a
    subclass registers its handlers afterwards. `run` ends only with an error that is no API error.
    """

    def __init__(self, context: ControllerContext, *caches: Informer) -> None:
        self._context = context
        self._controller = context.controller(self._reconcile, *caches)

    async def run(self) -> None:
        await self._controller.run()

    @abstractmethod
    async def _reconcile(self, ref: Ref, /) -> float | None:
        """Bring one object up to date. Return the seconds until it is to be reconciled again."""
