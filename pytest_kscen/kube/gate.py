"""Gates that hold controllers at the end of each loop while a Scenario requires them to pause.

The Scenario's status names which controllers may work. No controller is held before Scenarios are
followed.
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

AGAIN = 0.5  # seconds before a watch that broke is opened again


class Attendance:
    """Presence of controllers at a gate: which wait there, and which have passed and not come
    back.
    """

    _all: ClassVar[weakref.WeakKeyDictionary[Clock, Self]] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        self._stands: dict[str, dict[object, bool]] = {}
        """True while a visitor is held, by controller and visitor."""
        self.notify: Callable[[], None] = lambda: None
        """Called when a controller begins to wait."""

    @classmethod
    def of(cls, clock: Clock) -> Self:
        """Return the one attendance list of this clock."""
        if clock not in cls._all:
            cls._all[clock] = cls()
        return cls._all[clock]

    def asks(self, controller: str, visitor: object) -> None:
        """Note that the controller has come to its gate; it goes on unless it is held."""
        visitors = self._stands.setdefault(controller, {})
        for each in [each for each in visitors if _is_gone(each)]:
            del visitors[each]
        visitors[visitor] = False

    def waits(self, controller: str, visitor: object) -> None:
        """Note that the controller is held."""
        self._stands[controller][visitor] = True
        self.notify()

    def is_away(self, controller: str) -> bool:
        """Return True if the controller may be in the middle of a loop."""
        visitors = self._stands.get(controller) or {}
        return any(not stands and not _is_gone(each) for each, stands in visitors.items())


def _is_gone(visitor: object) -> bool:
    return isinstance(visitor, asyncio.Task) and visitor.done()


async def check_scenario_step_phase(controller: str, api: Api, clock: Clock) -> None:
    """Wait, at the end of a controller's loop, until the active Scenario allows the controller
    to go on. Returns at once if no Scenario is active.
    """
    attendance, this = Attendance.of(clock), asyncio.current_task()
    while True:
        attendance.asks(controller, this)
        listing = await api.list(SCENARIOS)
        if may_work(listing.items, controller):
            return
        attendance.waits(controller, this)
        watch = api.watch(SCENARIOS, resource_version=listing.resource_version)
        try:
            async for event in watch:
                if event.type in ("ERROR", "DELETED") or may_work([event.object], controller):
                    break
        except OSError:
            await clock.sleep(AGAIN)
        finally:
            watch.close()


class Gates:
    """Gates of one cluster: which controllers pass, and which wait."""

    def __init__(self) -> None:
        self._api: Api | None = None
        self._scenarios: Informer | None = None
        self._listeners: list[Callable[[], None]] = []
        self._attendance = Attendance()
        self._changed = asyncio.Event()

    async def follow(self, api: Api, clock: Clock) -> Never:
        """Follow Scenarios, and hold controllers as their status demands."""
        self._api, self._scenarios, self._attendance = (
            api,
            Informer(api, clock, SCENARIOS),
            Attendance.of(clock),
        )
        self._scenarios.on_change(self._look_again)
        try:
            await self._scenarios.run()
        finally:
            self._api = self._scenarios = None
            self._look_again(None, None)

    # every change is one
    def _look_again(self, new: Obj | None, old: Obj | None) -> None:  # noqa: ARG002
        self._changed.set()
        self._changed = (
            asyncio.Event()
        )  # one for each change: who waits for this one has not seen it
        for listener in self._listeners:
            listener()

    def holds(self, controller: str) -> bool:
        """Return True if the controller was to pause as of the last seen state of the
        Scenarios.
        """
        return self._scenarios is not None and not may_work(self._scenarios, controller)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this listener when a controller may have to pause, or may go on."""
        self._listeners.append(listener)

    def of(self, controller: str) -> Callable[[], Awaitable[None]]:
        """Return the function that this controller awaits before its next loop."""

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
        """Wait until a controller outside the process may work; only its visits are known."""
        attendance = self._attendance
        while True:
            changed = self._changed
            attendance.asks(controller, self)
            if not await self._holds_now(controller):
                return
            attendance.waits(controller, self)
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
