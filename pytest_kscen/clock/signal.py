"""The word that an actor waits for beside its timers: stop."""

from __future__ import annotations

import asyncio
import contextlib


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

    async def within(self, seconds: float) -> bool:
        """Sleep this long, by the time of the loop, which is its clock's; True at once when the signal comes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        return self.given
