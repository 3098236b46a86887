"""The word that an actor waits for beside its timers: stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.clock.clock import Clock


class Signal:
    """Given once, seen by all."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def give(self) -> None:
        self._event.set()

    @property
    def given(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()

    async def within(self, clock: Clock, seconds: float) -> bool:
        """Sleep this long; True at once when the signal comes."""
        waiting = asyncio.ensure_future(self._event.wait())
        sleeping = asyncio.ensure_future(clock.sleep(seconds))
        try:
            await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()
        return self.given
