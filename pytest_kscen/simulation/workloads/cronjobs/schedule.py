"""Appointed times: a cron line in a time zone, or Kubernetes' macros, as instants. Pure."""

from __future__ import annotations

import datetime
import zoneinfo
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cronsim import CronSim, CronSimError

from pytest_kscen.objects.durations import seconds_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
EVERY = "@every "


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a CronJob is due."""

    line: str
    zone: datetime.tzinfo = datetime.UTC
    period: float = 0.0
    """Of an `@every`, which counts from the last time instead of from the clock's face."""

    @classmethod
    def of(cls, cron_job: Obj) -> Schedule:
        """A ValueError says what cannot be read."""
        text, zone = cron_job["spec"]["schedule"], _zone(cron_job["spec"].get("timeZone"))
        if text.startswith(EVERY):
            return cls(text, zone, max(1.0, float(int(seconds_of_text(text.removeprefix(EVERY))))))
        line = MACROS.get(text, text).replace("?", "*")
        try:
            CronSim(line, datetime.datetime(2000, 1, 1, tzinfo=zone))
        except CronSimError as error:
            raise ValueError(f"unparseable schedule: {text}: {error}") from error
        return cls(line, zone)

    def after(self, instant: float) -> Iterator[float]:
        """The appointed times after this instant."""
        if self.period:
            instant = float(int(instant))
            while True:
                instant += self.period
                yield instant
        for moment in CronSim(self.line, datetime.datetime.fromtimestamp(instant, self.zone)):
            yield moment.timestamp()

    def next(self, instant: float) -> float | None:
        """The first appointed time after this instant; none for a 30th of February."""
        return next(self.after(instant), None)

    def missed(self, since: float, now: float) -> tuple[float | None, int]:
        """The last appointed time since an instant, and how many there were: more than a few are counted by their distance."""
        times = self.after(since)
        first, second = next(times, None), next(times, None)
        if first is None or first > now:
            return None, 0
        if second is None or second > now:
            return first, 1
        distance = max(1.0, second - first)
        count = int((now - first) // distance) + 1
        last = first
        for moment in self.after(first + (count - 2) * distance - 1):
            if moment > now:
                break
            last = moment
        return last, count

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
