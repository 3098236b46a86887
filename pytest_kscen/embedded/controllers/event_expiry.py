"""Delete Events an hour after their last write, as etcd's leases do for a real API server.

Started by `actors`. Scans every ten minutes, and only if the oldest Event may have expired, so an
Event may be deleted up to ten minutes late.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import EVENTS

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.embedded.controller import ControllerContext

EVENT_TTL, SCAN_PERIOD = 3600.0, 600.0


class EventExpiry:
    """Scan all Events periodically and delete the expired ones.

    Uses the plain API client: Events are not cached by informers. A failed scan is repeated at the
    next period.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._api = context.api.plain
        self._clock = context.clock
        self._oldest = ""
        """Last occurrence of the oldest Event that was kept, as a timestamp; later Events are
        younger.
        """

    async def run(self) -> Never:
        while True:
            await self._clock.sleep(SCAN_PERIOD, background=True)
            with contextlib.suppress(ApiError, OSError):  # retried in the next period
                now = self._clock.now()
                oldest, deadline = timestamp_of(now), timestamp_of(now - EVENT_TTL)
                if self._oldest > deadline:
                    continue
                for event in (await self._api.list(EVENTS)).items:
                    # Timestamps of one zone sort as text, so they are compared without parsing.
                    metadata, series = event["metadata"], event.get("series") or {}
                    occurred = str(
                        max(
                            metadata["creationTimestamp"],
                            event.get("lastTimestamp") or "",
                            series.get("lastObservedTime") or "",
                        )
                    )
                    # Managed fields, a long list, are read only if the Event looks expired.
                    if occurred <= deadline and all(
                        managed.get("time", "") <= deadline
                        for managed in metadata.get("managedFields") or ()
                    ):
                        await self._api.delete(
                            EVENTS,
                            metadata["name"],
                            metadata["namespace"],
                            precondition_uid=metadata["uid"],
                        )
                    elif occurred < oldest:
                        oldest = occurred
                self._oldest = oldest
