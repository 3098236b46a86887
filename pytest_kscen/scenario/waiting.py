"""Wait until the controllers have finished: one waiter for each controller reports its unfinished
work.

A cluster has converged when no waiter reports unfinished work and nothing has changed for a short
time. A timeout ends the wait, with a list of the unfinished work.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.cache import ObjectCache, Ref
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj, Resource

PATIENCE = 600.0  # seconds for one wait
EVENT_DELAY = 2.0  # seconds within which a write is expected in the caches
MISSED_READS = 2  # reads without the change after which the write counts as failed
REPORTED_ITEMS = 3  # items of one controller in a message


class ControllerWaiter(Protocol):
    """Protocol of a waiter, which decides from the cluster whether one controller has finished.

    Users write waiters for their own controllers.
    """

    @property
    def name(self) -> str:
        """Return the controller's name, as used in Scenarios and in the API's user names."""

    @property
    def resources(self) -> Sequence[Resource]:
        """Return the resources that the controller reads and writes."""

    def unfinished(self, cluster: Mapping[Resource, ObjectCache]) -> Iterable[str]:
        """Yield the controller's remaining work, in words; empty if the present cluster leaves it
        nothing to do.
        """

    def quiet(self, cluster: Mapping[Resource, ObjectCache]) -> float:
        """Return the seconds without any change after which the controller is known to have
        finished.
        """

    async def is_idle(self) -> bool:
        """Return True if the controller itself reports that it is idle. Called last; a
        controller without such a report returns True.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """Waiter by rules for single objects: each returns the remaining work of one object, or an
    empty text.

    A rule must depend on the object alone, because it is called once for each version.
    """

    name: str
    rules: dict[Resource, Callable[[Obj], str]]
    quiet_time: Callable[[Mapping[Resource, ObjectCache]], float] = lambda _: 0.0
    idle: Callable[[], Awaitable[bool]] | None = None

    @property
    def resources(self) -> Sequence[Resource]:
        return tuple(self.rules)

    def unfinished(self, cluster: Mapping[Resource, ObjectCache]) -> Iterator[str]:
        for resource, rule in self.rules.items():
            index = cluster[resource].index(self, functools.partial(_index_key, rule))
            for obj in index.of(True):
                yield f"{resource.kind} {_name(obj)} {rule(obj)}"

    def quiet(self, cluster: Mapping[Resource, ObjectCache]) -> float:
        return self.quiet_time(cluster)

    async def is_idle(self) -> bool:
        return self.idle is None or await self.idle()


def _index_key(rule: Callable[[Obj], str], obj: Obj) -> list[bool]:
    """Return keys of an index: True for an object with work left.

    A rule that fails raises when it is called, not whenever its object changes.
    """
    try:
        return [True] if rule(obj) else []
    except Exception:  # noqa: BLE001  # a user's code
        return [True]


class NotConvergedError(Exception):
    """Report controllers that have not finished in time, with their remaining work."""


class WaiterFailed(Exception):
    """Report that a waiter itself raised an error, which fails the scenario; the message names the
    controller.
    """


@dataclass(slots=True, eq=False)
class Expected:
    """Change that a cache will show after a write. The wait is bounded, because the write may still
    fail.
    """

    resource: Resource
    ref: Ref
    has_come: Callable[[Obj | None], bool]
    until: float
    """Time at which the object is read from the server; infinite before the write is admitted."""
    on_failure: Callable[[], None]
    """Function that is called if the write has failed."""
    missed_reads: int = 0


@dataclass(eq=False)
class Convergence:
    """Caches of the cluster for the waiters, and the waits for convergence. One per scenario;
    `stop` ends its watches.
    """

    api: Api
    informers: Informers
    clock: Clock
    settle: float
    """Seconds without a change after which the cluster counts as settled."""
    _changes: int = 0
    _last_changed: deque[Obj] = field(default_factory=lambda: deque(maxlen=REPORTED_ITEMS))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: dict[Resource, ObjectCache] = field(default_factory=dict)
    _expected: list[Expected] = field(default_factory=list)
    _active: list[str] = field(default_factory=list)
    """Controllers that were not idle at the last check."""

    async def watch_all(self, waiters: Iterable[ControllerWaiter]) -> None:
        """Watch all resources of these waiters from now on; return when the caches are synced."""
        for resource in dict.fromkeys(
            resource for waiter in waiters for resource in waiter.resources
        ):
            await self.watch(resource)

    async def watch(self, resource: Resource) -> None:
        if resource not in self._seen:
            informer = self.informers.of(resource)
            await informer.synced()
            self._seen[resource] = informer
            informer.on_change(self._on_change)

    def stop(self) -> None:
        """Stop watching; called when the scenario is over, so that later changes cost nothing."""
        while self._seen:
            self._seen.popitem()[1].off_change(self._on_change)

    def _on_change(self, new: Obj | None, old: Obj | None) -> None:
        self._changes += 1
        is_heartbeat = (
            new
            and old
            and new.get("kind") == NODES.kind
            and new.get("spec") == old.get("spec")
            and _conditions(new) == _conditions(old)
        )
        if not is_heartbeat:
            self._last_changed.append(new or old or {})
        self._changed.set()

    def expect(
        self,
        resource: Resource,
        ref: Ref,
        has_come: Callable[[Obj | None], bool],
        on_failure: Callable[[], None] = lambda: None,
        *,
        is_admitted: bool = True,
    ) -> Expected | None:
        """Register a write in progress: the cluster has not converged before caches show it."""
        watched = next(
            (
                each
                for each in self._seen
                if (each.group, each.plural) == (resource.group, resource.plural)
            ),
            None,
        )
        if watched is None:
            return None
        until = self.clock.now() + EVENT_DELAY if is_admitted else math.inf
        self._expected.append(Expected(watched, ref, has_come, until, on_failure))
        return self._expected[-1]

    def mark_admitted(self, expected: Expected) -> None:
        """Start the time limit of an expected write, which the server processes from now on."""
        expected.until = self.clock.now() + EVENT_DELAY

    def cached(self, resource: Resource, ref: Ref) -> Obj | None:
        return self._seen[resource].objects.get(ref) if resource in self._seen else None

    async def _read_expected(self, overdue: Expected) -> None:
        """Read the object from the server, because its event is late or will not come."""
        overdue.until = self.clock.now() + EVENT_DELAY
        try:
            live = await self.api.get(overdue.resource, overdue.ref.name, overdue.ref.namespace)
        except NotFound:
            live = None
        except (ApiError, OSError):
            return
        overdue.missed_reads = 0 if overdue.has_come(live) else overdue.missed_reads + 1
        if overdue.missed_reads == MISSED_READS:
            self._expected.remove(overdue)
            overdue.on_failure()

    def unfinished(self, waiters: Iterable[ControllerWaiter]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for waiter in waiters:
            try:
                words = list(waiter.unfinished(self._seen))
            except Exception as error:
                raise WaiterFailed(f"the waiter of {waiter.name} has failed: {error!r}") from error
            if words:
                found[waiter.name] = words
        return found

    async def reached(
        self,
        waiters: Sequence[ControllerWaiter],
        *,
        or_when: Callable[[], object] = lambda: False,
        patience: float = PATIENCE,
    ) -> None:
        """Wait until all controllers have finished, or `or_when` returns true. Raise
        NotConvergedError after `patience` seconds, with the remaining work.
        """
        await self.watch_all(waiters)
        end = self.clock.now() + patience
        while not or_when():
            left = end - self.clock.now()
            if left <= 0:
                raise NotConvergedError(self.report(waiters, patience))
            for each in list(self._expected):
                if each.has_come(self.cached(each.resource, each.ref)):
                    self._expected.remove(each)
                elif self.clock.now() >= each.until:
                    await self._read_expected(each)
            if bool(self._expected):
                await self._wait_for_change(min(left, EVENT_DELAY))
            elif self.unfinished(waiters):
                # Bounded, because a waiter may also query its controller, which changes no object.
                await self._wait_for_change(min(left, EVENT_DELAY))
            elif await self._is_calm(waiters, or_when):
                return

    async def until(self, holds: Callable[[], object], patience: float) -> bool:
        """Wait for a condition whose cause calls `wake`; return True if it came in time."""
        end = self.clock.now() + patience
        while not holds():
            left = end - self.clock.now()
            if left <= 0:
                return False
            await self._wait_for_change(min(left, EVENT_DELAY))
        return True

    async def _is_calm(
        self, waiters: Sequence[ControllerWaiter], or_when: Callable[[], object]
    ) -> bool:
        """Return True if nothing changes for the required time, and all controllers are idle
        then.
        """
        until = self.clock.now() + max(
            self.settle, *(waiter.quiet(self._seen) for waiter in waiters), 0.0
        )
        before = self._changes
        while not or_when() and self._changes == before:
            left = until - self.clock.now()
            if left <= 0:
                self._active = [waiter.name for waiter in waiters if not await waiter.is_idle()]
                return not self._active and self._changes == before
            await self._wait_for_change(left)
        return False

    def report(self, waiters: Iterable[ControllerWaiter], patience: float) -> str:
        """Return a message for people with the controllers that have not finished in time and
        their remaining work, or else the last changes.
        """
        unfinished = "; ".join(
            f"{name}: {_counted(words)}" for name, words in self.unfinished(waiters).items()
        )
        if not unfinished:
            changed = dict.fromkeys(
                f"{obj.get('kind', '')} {_name(obj)}{_trouble(obj)}".strip()
                for obj in self._last_changed
            )
            at_work = ", ".join(self._active) or "a controller"
            unfinished = f"{at_work} is not idle; last changes: {', '.join(changed) or 'none'}"
        errors = [
            f"Pod {_name(pod)}{_trouble(pod)}"
            for pod in self._seen.get(PODS, ())
            if (condition(pod, "PodScheduled") or {}).get("reason") == "SchedulerError"
        ]
        failed = f"; the scheduler reports an error for {_counted(errors)}" if errors else ""
        return f"not finished within {patience:g} s: {unfinished}{failed}"

    async def _wait_for_change(self, seconds: float) -> None:
        self._changed.clear()
        loop = asyncio.get_running_loop()
        patience = loop.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            patience.cancel()

    def wake(self) -> None:
        self._changed.set()


def _counted(words: Sequence[str]) -> str:
    more = f" and {len(words) - REPORTED_ITEMS} more" if len(words) > REPORTED_ITEMS else ""
    return f"{', '.join(words[:REPORTED_ITEMS])}{more}"


def _conditions(obj: Obj) -> list[tuple[str, str]]:
    return [
        (each["type"], each["status"]) for each in (obj.get("status") or {}).get("conditions") or ()
    ]


def _trouble(obj: Obj) -> str:
    placed = condition(obj, "PodScheduled") or {}
    return f" ({placed['message']})" if placed.get("message") else ""


def _name(obj: Obj) -> str:
    metadata = obj["metadata"]
    return (
        f"{metadata['namespace']}/{metadata['name']}"
        if metadata.get("namespace")
        else str(metadata["name"])
    )
