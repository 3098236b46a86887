"""Gates that hold controllers at the end of each loop while a Scenario requires them to pause.

The Scenario's status names the controllers that may work. `Gates` holds no controller before
`follow` runs.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, ClassVar, Self

from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.scenarios import SCENARIOS, is_named, may_work, on

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

REOPEN_DELAY = 0.5  # seconds before a watch that broke is opened again


class GateAttendance:
    """State of each controller at its gate: held there, or passed and not yet back."""

    _all: ClassVar[weakref.WeakKeyDictionary[Clock, Self]] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        self._held: dict[str, dict[object, bool]] = {}
        """True while a visitor is held, by controller and visitor. A visitor is a task of the
        controller, or its `Gates`.
        """
        self.notify: Callable[[], None] = lambda: None
        """Called when a controller begins to wait."""

    @classmethod
    def of(cls, clock: Clock) -> Self:
        """Return the one attendance list of this clock."""
        if clock not in cls._all:
            cls._all[clock] = cls()
        return cls._all[clock]

    def arrive(self, controller: str, visitor: object) -> None:
        """Record that the controller has reached its gate; it passes unless `hold` follows."""
        visitors = self._held.setdefault(controller, {})
        for each in [each for each in visitors if _has_ended(each)]:
            del visitors[each]
        visitors[visitor] = False

    def hold(self, controller: str, visitor: object) -> None:
        """Record that the controller is held, and notify."""
        self._held[controller][visitor] = True
        self.notify()

    def is_in_loop(self, controller: str) -> bool:
        """Return True if the controller may be in the middle of a loop."""
        visitors = self._held.get(controller) or {}
        return any(not held and not _has_ended(each) for each, held in visitors.items())


def _has_ended(visitor: object) -> bool:
    return isinstance(visitor, asyncio.Task) and visitor.done()


async def check_scenario_step_phase(controller: str, api: Api, clock: Clock) -> None:
    """Wait, at the end of a controller's loop, until the active Scenario lets the controller
    continue. Returns at once if no Scenario is active.
    """
    attendance, task = GateAttendance.of(clock), asyncio.current_task()
    while True:
        attendance.arrive(controller, task)
        listing = await api.list(SCENARIOS)
        if may_work(listing.items, controller):
            return
        attendance.hold(controller, task)
        watch = api.watch(SCENARIOS, resource_version=listing.resource_version)
        try:
            async for event in watch:
                if event.type in ("ERROR", "DELETED") or may_work([event.object], controller):
                    break
        except OSError:
            await clock.sleep(REOPEN_DELAY)
        finally:
            watch.close()


class Gates:
    """Gates of one cluster: they hold controllers that the active Scenario pauses."""

    def __init__(self) -> None:
        self._api: Api | None = None
        self._scenarios: Informer | None = None
        self._listeners: list[Callable[[], None]] = []
        self._attendance = GateAttendance()
        self._changed = asyncio.Event()

    async def follow(self, api: Api, clock: Clock) -> Never:
        """Follow Scenarios until cancelled, and hold controllers as their status requires."""
        self._api, self._scenarios, self._attendance = (
            api,
            Informer(api, clock, SCENARIOS),
            GateAttendance.of(clock),
        )
        self._scenarios.on_change(self._notify_change)
        try:
            await self._scenarios.run()
        finally:
            self._api = self._scenarios = None
            self._notify_change(None, None)

    # called for every change of a Scenario
    def _notify_change(self, new: Obj | None, old: Obj | None) -> None:  # noqa: ARG002
        self._changed.set()
        self._changed = asyncio.Event()  # a new event for the next change
        for listener in self._listeners:
            listener()

    def holds(self, controller: str) -> bool:
        """Return True if the controller has to pause, by the last observed Scenarios."""
        return self._scenarios is not None and not may_work(self._scenarios, controller)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this listener at every change that may pause or release a controller."""
        self._listeners.append(listener)

    def of(self, controller: str) -> Callable[[], Awaitable[None]]:
        """Return the function that this controller awaits before each loop."""

        async def passed() -> None:
            if self._api is not None:
                await self.passed(controller)

        return passed

    async def passed(self, controller: str) -> None:
        """Wait until this controller may work."""
        while True:
            changed = self._changed
            if not await self._holds_now(controller):
                return
            await changed.wait()

    async def visited(self, controller: str) -> None:
        """Wait until a controller in another process may work. Only its calls are known, not its
        tasks.
        """
        attendance = self._attendance
        while True:
            changed = self._changed
            attendance.arrive(controller, self)
            if not await self._holds_now(controller):
                return
            attendance.hold(controller, self)
            await changed.wait()

    async def _holds_now(self, controller: str) -> bool:
        """Return True if the API has the controller paused at this moment. The API is read only
        if the active Scenario names it.
        """
        scenario = on(self._scenarios) if self._scenarios else None
        if self._api is None or scenario is None or not is_named(scenario, controller):
            return False
        try:
            return not may_work(
                [await self._api.get(SCENARIOS, scenario["metadata"]["name"])], controller
            )
        except NotFound:
            return False
