"""Cron schedules in the dialect of Kubernetes and Chaos Mesh (robfig/cron v3), and their times.

Pure; used by CronJobs and by the engine's Schedules. From an instant it jumps to the next one field
by field: the day, then hour, minute and second. A time zone is evaluated between two changes of its
offset, so a skipped hour (spring) gives no time, and a repeated hour (autumn) gives two.
"""

from __future__ import annotations

import bisect
import calendar
import datetime
import functools
import itertools
import re
import zoneinfo
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects.arguments import nanoseconds_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR, DAY = 3600, 86400
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
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
EXACT_COUNT_LIMIT = 100
YEARS_AHEAD = 9
"""Search limit in years: two leap days are eight years apart at most."""
LAST_YEAR = datetime.MAXYEAR - 1
EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()


class CronError(ValueError):
    """Malformed schedule; the text is that of the parser which Kubernetes uses, with the schedule
    before it.
    """


class CronField(NamedTuple):
    low: int
    high: int
    names: tuple[str, ...] = ()


SECOND = CronField(0, 59)
FIELDS = (
    CronField(0, 59),
    CronField(0, 23),
    CronField(1, 31),
    CronField(1, 12, MONTHS),
    CronField(0, 6, WEEKDAYS),
)


@dataclass(frozen=True)
class AllowedValues:
    numbers: frozenset[int]
    any: bool
    """True for `*` and `?`."""

    @functools.cached_property
    def at_least(self) -> list[int | None]:
        numbers = sorted(self.numbers)
        return [
            min((each for each in numbers if each >= start), default=None) for start in range(61)
        ]


@dataclass(frozen=True)
class Cron:
    """Parsed schedule with its zone. Equal texts share one object through a cache, so reading one
    again costs nothing.
    """

    text: str
    zone: datetime.tzinfo = datetime.UTC
    period: int = 0
    """Seconds of an `@every`, which counts from the previous time instead of following the
    clock.
    """
    fields: tuple[AllowedValues, ...] = field(default=(), repr=False)
    """Seconds, minutes, hours, days of the month, months, weekdays."""

    @classmethod
    def of(cls, text: str, zone: datetime.tzinfo = datetime.UTC, *, seconds: bool = True) -> Cron:
        """Parse a schedule of five fields, or of six if seconds are allowed. A zone in the text
        takes precedence. Raises CronError.
        """
        try:
            return _read(text, zone, seconds=seconds)
        except ValueError as fault:
            raise CronError(f"{text!r} is not a schedule: {fault}") from None

    def next_after(self, instant: float) -> float | None:
        """Return the first time after this instant, in seconds since 1970, or None if there is none
        within nine years, such as the 30th of February.
        """
        start = int(instant // 1)
        if self.period:
            return float(start + self.period)
        return self._next(start + 1)

    def after(self, instant: float) -> Iterator[float]:
        following = self.next_after(instant)
        while following is not None:
            yield following
            following = self.next_after(following)

    def missed(self, since: float, now: float) -> tuple[float | None, int]:
        """Return the latest time between two instants, and the number of times: exact up to a
        hundred, then estimated from the interval.
        """
        first = self.next_after(since)
        if first is None or first > now:
            return None, 0
        few = list(
            itertools.takewhile(
                lambda moment: moment <= now,
                itertools.islice(self.after(since), EXACT_COUNT_LIMIT + 1),
            )
        )
        if len(few) <= EXACT_COUNT_LIMIT:
            return few[-1], len(few)
        count = int((now - few[0]) // (few[1] - few[0])) + 1
        return self._last(since, now), max(count, len(few))

    def _last(self, since: float, now: float) -> float:
        """Return the latest time until now, given that there is one after `since`."""
        if self.period:
            start = int(since // 1)
            return float(start + (now - start) // self.period * self.period)
        before, after = int(since // 1), int(now // 1)
        while after - before > 1:
            middle = (before + after) // 2
            following = self.next_after(middle)
            before, after = (
                (middle, after) if following is not None and following <= now else (before, middle)
            )
        return float(after)

    def _next(self, start: int) -> float | None:
        """Return the first time from this instant on, searching from one change of the zone's
        offset to the next.
        """
        while True:
            # UTC offset at this instant, and until when it applies.
            zone = self.zone
            if zone is datetime.UTC:
                offset, until = 0, None
            else:
                year = datetime.datetime.fromtimestamp(start, datetime.UTC).year
                changes = _changes(zone, year)
                place = bisect.bisect_right(changes, start)
                if place < len(changes):
                    offset, until = _utc_offset(zone, start), changes[place]
                else:
                    offset, until = _utc_offset(zone, start), _new_year(year + 1)
            local = self._next_local(start + offset)
            if local is None:
                return None
            if until is None or local - offset < until:
                return float(local - offset)
            start = until

    def _next_local(self, local: int) -> int | None:
        """Return the first allowed time of a clock without zone from this one on, in that clock's
        seconds.
        """
        day, rest = divmod(local, DAY)
        today = datetime.date.fromordinal(EPOCH_DAY + day)
        if self._is_allowed(today) and (found := self._within_day(rest)) is not None:
            return day * DAY + found
        date, first = self._day_after(today), self._within_day(0)
        return (
            None if date is None or first is None else (date.toordinal() - EPOCH_DAY) * DAY + first
        )

    def _within_day(self, rest: int) -> int | None:
        seconds, minutes, hours = (each.at_least for each in self.fields[:3])
        hour, minute, second = rest // HOUR, rest % HOUR // 60, rest % 60
        first_minute, first_second = minutes[0], seconds[0]
        if first_minute is None or first_second is None:
            return None
        if hours[hour] == hour:
            if minutes[minute] == minute and (found := seconds[second]) is not None:
                return hour * HOUR + minute * 60 + found
            if (found := minutes[minute + 1]) is not None:
                return hour * HOUR + found * 60 + first_second
        found = hours[hour + 1]
        return None if found is None else found * HOUR + first_minute * 60 + first_second

    def _day_after(self, date: datetime.date) -> datetime.date | None:
        for year in range(date.year, min(date.year + YEARS_AHEAD, LAST_YEAR) + 1):
            for month in range(date.month if year == date.year else 1, 13):
                if month in self.fields[4].numbers:
                    begin = date.day + 1 if (year, month) == (date.year, date.month) else 1
                    for day in range(begin, calendar.monthrange(year, month)[1] + 1):
                        if self._is_allowed(candidate := datetime.date(year, month, day)):
                            return candidate
        return None

    def _is_allowed(self, date: datetime.date) -> bool:
        """Return True if a date is allowed: by both of the two day fields if one of them is `*`,
        otherwise by either.
        """
        _, _, _, days, months, weekdays = self.fields
        if date.month not in months.numbers:
            return False
        by_day, by_weekday = date.day in days.numbers, date.isoweekday() % 7 in weekdays.numbers
        return by_day and by_weekday if days.any or weekdays.any else by_day or by_weekday


@functools.lru_cache(maxsize=1024)
def _changes(zone: datetime.tzinfo, year: int) -> list[int]:
    """Return the instants at which a zone's offset changes within a year, in order. Days are
    compared first, then the instant is found by bisection.
    """
    changes = []
    for day in range(_new_year(year), _new_year(year + 1), DAY):
        old = _utc_offset(zone, day)
        if old != _utc_offset(zone, day + DAY):
            before, after = day, day + DAY
            while after - before > 1:
                middle = (before + after) // 2
                is_before = _utc_offset(zone, middle) == old
                before, after = (middle, after) if is_before else (before, middle)
            changes.append(after)
    return changes


def _utc_offset(zone: datetime.tzinfo, instant: int) -> int:
    offset = datetime.datetime.fromtimestamp(instant, zone).utcoffset()
    return int(offset.total_seconds()) if offset else 0


@functools.lru_cache(maxsize=1024)
def _new_year(year: int) -> int:
    return calendar.timegm((year, 1, 1, 0, 0, 0))


@functools.lru_cache(maxsize=256)
def unknown_zone(name: str) -> str:
    """Return Go's error for a time zone that the host's database does not have; empty for a known
    one.
    """
    if name in {"", "UTC", "Local"}:
        return ""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return f"unknown time zone {name}"
    return ""


def fault_of(text: str, *, seconds: bool = False) -> str:
    """Return the error of Kubernetes' parser for a schedule, without any of our own words; empty
    for a valid schedule.
    """
    try:
        _read(text, datetime.UTC, seconds=seconds)
    except ValueError as fault:
        return str(fault)
    return ""


@functools.lru_cache(maxsize=1024)
def _read(text: str, zone: datetime.tzinfo, *, seconds: bool) -> Cron:
    rest = text
    if text.startswith(("TZ=", "CRON_TZ=")):
        assignment, _, rest = text.partition(" ")
        name = assignment.partition("=")[2]
        if unknown := unknown_zone(name):
            raise ValueError(f"provided bad location {name}: {unknown}")
        zone = datetime.UTC if name in {"", "UTC", "Local"} else zoneinfo.ZoneInfo(name)
        rest = rest.strip()
    if rest.strip().startswith(EVERY):
        duration = rest.strip().removeprefix(EVERY)
        try:
            period = max(1, nanoseconds_of_text(duration) // 10**9)
        except ValueError:
            words = f'failed to parse duration {rest.strip()}: time: invalid duration "{duration}"'
            raise ValueError(words) from None
        return Cron(text, zone, period)
    if rest.strip().startswith("@"):
        if rest.strip() not in MACROS:
            raise ValueError(f"unrecognized descriptor: {rest.strip()}")
        rest = MACROS[rest.strip()]
    return Cron(text, zone, 0, _fields(rest.split(), seconds=seconds))


def _fields(texts: list[str], *, seconds: bool) -> tuple[AllowedValues, ...]:
    least = len(FIELDS)
    if len(texts) not in {least, least + seconds}:
        count = f"{least} to {least + 1}" if seconds else f"exactly {least}"
        raise ValueError(f"expected {count} fields, found {len(texts)}: [{' '.join(texts)}]")
    if len(texts) == least:
        texts = ["0", *texts]
    fields = []
    for text, cron_field in zip(texts, (SECOND, *FIELDS), strict=True):
        numbers: set[int] = set()
        anything = False
        for part in filter(None, text.split(",")):
            spread, is_any = _spread(part, cron_field)
            numbers.update(spread)
            anything = anything or is_any
        fields.append(AllowedValues(frozenset(numbers), anything))
    return tuple(fields)


def _spread(text: str, cron_field: CronField) -> tuple[range, bool]:
    span, *steps = text.split("/")
    ends = span.split("-")
    if ends[0] in {"*", "?"}:
        low, high = cron_field.low, cron_field.high
    else:
        low = _named_number(ends[0], cron_field)
        if len(ends) > 2:  # noqa: PLR2004
            raise ValueError(f"too many hyphens: {text}")
        high = _named_number(ends[-1], cron_field)
    step = 1
    if steps:
        if len(steps) > 1:
            raise ValueError(f"too many slashes: {text}")
        step = _number(steps[0])
        high = cron_field.high if len(ends) == 1 else high
    if low < cron_field.low:
        raise ValueError(f"beginning of range ({low}) below minimum ({cron_field.low}): {text}")
    if high > cron_field.high:
        raise ValueError(f"end of range ({high}) above maximum ({cron_field.high}): {text}")
    if low > high:
        raise ValueError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if not step:
        raise ValueError(f"step of range should be a positive number: {text}")
    return range(low, high + 1, step), span[:1] in {"*", "?"} and step == 1


def _named_number(text: str, cron_field: CronField) -> int:
    return (
        cron_field.names.index(text.lower()) + cron_field.low
        if text.lower() in cron_field.names
        else _number(text)
    )


def _number(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
        raise ValueError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    if int(text) < 0:
        raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
