"""Where a controller is held while a Scenario wants it to stand still: at the end of each of its loops.

The Scenario's own status says who may work. Nobody is held before somebody follows Scenarios.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.scenarios import SCENARIOS, may_work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj


class Gates:
    """One cluster's: who passes, and who waits."""

    def __init__(self) -> None:
        self._api: Api | None = None
        self._changed = asyncio.Event()

    async def follow(self, api: Api, clock: Clock) -> Never:
        """From now on Scenarios are obeyed."""
        informer = Informer(api, clock, SCENARIOS)
        informer.on_change(self._look_again)
        self._api = api
        try:
            await informer.run()
        finally:
            self._api = None
            self._changed.set()

    def _look_again(self, new: Obj | None, old: Obj | None) -> None:  # noqa: ARG002  # every change is one
        self._changed.set()

    def of(self, controller: str) -> Callable[[], Awaitable[None]]:
        """What this controller awaits before it begins its next loop."""

        async def passed() -> None:
            if self._api is not None:
                await self.passed(controller)

        return passed

    async def passed(self, controller: str) -> None:
        """Wait until this controller may work."""
        while self._api is not None:
            self._changed.clear()
            if may_work((await self._api.list(SCENARIOS)).items, controller):
                return
            await self._changed.wait()
