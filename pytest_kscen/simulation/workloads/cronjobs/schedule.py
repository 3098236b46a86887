"""A CronJob's appointed times. Pure."""

from __future__ import annotations

import datetime
import zoneinfo
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.cron import Cron, CronError

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a CronJob is due."""

    cron: Cron

    @classmethod
    def of(cls, cron_job: Obj) -> Schedule:
        """A ValueError says what cannot be read."""
        text, zone = cron_job["spec"]["schedule"], _zone(cron_job["spec"].get("timeZone"))
        try:
            cron = Cron.of(text, zone, seconds=False)
        except CronError as error:
            raise ValueError(f"unparseable schedule: {error}") from None
        if cron.next_after(0) is None:
            raise ValueError(f"unparseable schedule: {text}: there is no such time")
        return cls(cron)

    @property
    def zone(self) -> datetime.tzinfo:
        return self.cron.zone

    def next(self, instant: float) -> float | None:
        return self.cron.next_after(instant)

    def missed(self, since: float, now: float) -> tuple[float | None, int]:
        return self.cron.missed(since, now)

    def timestamp(self, instant: float) -> str:
        """The instant as a clock in the schedule's zone shows it."""
        return datetime.datetime.fromtimestamp(instant, self.zone).isoformat(timespec="seconds").replace("+00:00", "Z")


def _zone(name: str | None) -> datetime.tzinfo:
    if not name:
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f'invalid timeZone: "{name}": unknown time zone {name}') from error
