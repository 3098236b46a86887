"""Events do not stay: an hour after an event was last written the API server has forgotten it.

Every ten minutes they are looked through, if the oldest may have had its time, so some stay a
little longer."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import EVENTS

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj

EVENT_TTL, SCAN_PERIOD = 3600.0, 600.0


class EventExpiry:
    """The actor."""

    def __init__(self, context: ControllerContext) -> None:
        self._api = context.api.plain
        self._clock = context.clock
        self._oldest = ""
        """When the first of those that are left was told: what has come since is younger."""

    async def run(self) -> Never:
        while True:
            await self._clock.sleep(SCAN_PERIOD, background=True)
            with contextlib.suppress(ApiError, OSError):  # once more at the next look
                await self._look()

    async def _look(self) -> None:
        now = self._clock.now()
        oldest, dead = timestamp_of(now), timestamp_of(now - EVENT_TTL)
        if self._oldest > dead:
            return
        for event in (await self._api.list(EVENTS)).items:
            told = _last_occurrence(event)
            if told <= dead and _last_write(event) <= dead:
                metadata = event["metadata"]
                await self._api.delete(
                    EVENTS,
                    metadata["name"],
                    metadata["namespace"],
                    precondition_uid=metadata["uid"],
                )
            elif told < oldest:
                oldest = told
        self._oldest = oldest


def _last_occurrence(event: Obj) -> str:
    """When it was last, by what it says itself; the timestamps of one zone sort as they are."""
    again = (event.get("series") or {}).get("lastObservedTime") or ""
    return str(max(event["metadata"]["creationTimestamp"], event.get("lastTimestamp") or "", again))


def _last_write(event: Obj) -> str:
    """When it was written last, so far as that is known; to know it takes work."""
    return max(
        (managed.get("time", "") for managed in event["metadata"].get("managedFields") or ()),
        default="",
    ) or _last_occurrence(event)
