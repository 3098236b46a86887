"""Where a controller is held while a Scenario wants it to stand still: at the end of each of its
loops.

The Scenario's own status says who may work. Nobody is held before somebody follows Scenarios.
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
    """Of those whose coming and going is seen: who stands at a gate, and who has passed it and
    not come back.
    """

    _all: ClassVar[weakref.WeakKeyDictionary[Clock, Self]] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        self._stands: dict[str, dict[object, bool]] = {}
        """By controller and visitor, whether it has been told to wait."""
        self.tell: Callable[[], None] = lambda: None
        """Called when somebody begins to wait."""

    @classmethod
    def of(cls, clock: Clock) -> Self:
        """That of all who live by this clock."""
        if clock not in cls._all:
            cls._all[clock] = cls()
        return cls._all[clock]

    def asks(self, controller: str, visitor: object) -> None:
        """It has come to its gate, and goes on unless it is told to wait."""
        visitors = self._stands.setdefault(controller, {})
        for each in [each for each in visitors if _is_gone(each)]:
            del visitors[each]
        visitors[visitor] = False

    def waits(self, controller: str, visitor: object) -> None:
        """It was told to."""
        self._stands[controller][visitor] = True
        self.tell()

    def is_away(self, controller: str) -> bool:
        """Whether it may be in the middle of a loop."""
        visitors = self._stands.get(controller) or {}
        return any(not stands and not _is_gone(each) for each, stands in visitors.items())


def _is_gone(visitor: object) -> bool:
    return isinstance(visitor, asyncio.Task) and visitor.done()


async def check_scenario_step_phase(controller: str, api: Api, clock: Clock) -> None:
    """For the end of a controller's loop: returns when the Scenario that is on, if there is one,
    lets it go on.
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
    """One cluster's: who passes, and who waits."""

    def __init__(self) -> None:
        self._api: Api | None = None
        self._scenarios: Informer | None = None
        self._listeners: list[Callable[[], None]] = []
        self._attendance = Attendance()
        self._changed = asyncio.Event()

    async def follow(self, api: Api, clock: Clock) -> Never:
        """From now on Scenarios are obeyed."""
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
        """Whether it had to stand still when Scenarios were last heard of."""
        return self._scenarios is not None and not may_work(self._scenarios, controller)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Tell when somebody may have to stand still, or may go on."""
        self._listeners.append(listener)

    def of(self, controller: str) -> Callable[[], Awaitable[None]]:
        """What this controller awaits before it begins its next loop."""

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
        """The same for somebody outside, of whom nothing is seen but that he comes."""
        attendance = self._attendance
        while True:
            changed = self._changed
            attendance.asks(controller, self)
            if not await self._holds_now(controller):
                return
            attendance.waits(controller, self)
            await changed.wait()

    async def _holds_now(self, controller: str) -> bool:
        """As the API has it at this moment, which is asked only if the Scenario that is on names
        this controller.
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
