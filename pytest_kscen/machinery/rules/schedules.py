"""Cron schedules and time zones: what is wrong with one, in the words of the parser that Kubernetes uses."""

from __future__ import annotations

import functools
import re
import zoneinfo
from typing import NamedTuple

import durationpy


class Field(NamedTuple):
    """A field of a schedule: its range, and the names that its numbers may have."""

    low: int
    high: int
    names: tuple[str, ...] = ()


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS = (Field(0, 59), Field(0, 23), Field(1, 31), Field(1, 12, MONTHS), Field(0, 6, DAYS))
DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


@functools.lru_cache(maxsize=1024)
def schedule_fault(schedule: str) -> str:
    """What the parser says; empty if it can read the schedule."""
    try:
        _read(schedule)
    except ValueError as fault:
        return str(fault)
    return ""


def _read(schedule: str) -> None:
    rest = schedule
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        assignment, _, rest = schedule.partition(" ")
        zone = assignment.partition("=")[2]
        if unknown := _unknown_zone(zone):
            raise ValueError(f"provided bad location {zone}: {unknown}")
    if rest.strip().startswith("@"):
        _descriptor(rest.strip())
        return
    fields = rest.split()
    if len(fields) != len(FIELDS):
        raise ValueError(f"expected exactly {len(FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for text, field in zip(fields, FIELDS, strict=True):
        for part in filter(None, text.split(",")):
            _range(part, field)


def _descriptor(text: str) -> None:
    if text.startswith("@every "):
        duration = text.removeprefix("@every ")
        try:
            durationpy.from_str(duration)
        except durationpy.DurationError:
            words = f'failed to parse duration {text}: time: invalid duration "{duration}"'
            raise ValueError(words) from None
    elif text not in DESCRIPTORS:
        raise ValueError(f"unrecognized descriptor: {text}")


def _range(text: str, field: Field) -> None:
    span, *steps = text.split("/")
    low, high, is_single = _span(text, span.split("-"), field)
    step = 1
    if steps:
        if len(steps) > 1:
            raise ValueError(f"too many slashes: {text}")
        step = _number(steps[0])
        high = field.high if is_single else high
    if low < field.low:
        raise ValueError(f"beginning of range ({low}) below minimum ({field.low}): {text}")
    if high > field.high:
        raise ValueError(f"end of range ({high}) above maximum ({field.high}): {text}")
    if low > high:
        raise ValueError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if not step:
        raise ValueError(f"step of range should be a positive number: {text}")


def _span(text: str, ends: list[str], field: Field) -> tuple[int, int, bool]:
    """The ends of a range, and whether only one was given."""
    if ends[0] in {"*", "?"}:
        return field.low, field.high, len(ends) == 1
    low = _named_number(ends[0], field)
    if len(ends) > 2:  # noqa: PLR2004
        raise ValueError(f"too many hyphens: {text}")
    return low, _named_number(ends[-1], field), len(ends) == 1


def _named_number(text: str, field: Field) -> int:
    return field.names.index(text.lower()) + field.low if text.lower() in field.names else _number(text)


def _number(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


def zone_faults(zone: str) -> list[str]:
    """What is wrong with a CronJob's time zone."""
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    faults = [f"unknown time zone {zone}" for part in zone.split("/") if not _is_zone_part(part)]
    if zone.lower() == "local":
        faults.append("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
    unknown = _unknown_zone(zone)
    return [*faults, unknown] if unknown else faults


def _is_zone_part(part: str) -> bool:
    return part not in {".", ".."} and not part.startswith("-") and _ZONE_PART.fullmatch(part) is not None


@functools.lru_cache(maxsize=256)
def _unknown_zone(zone: str) -> str:
    if zone in {"", "UTC", "Local"}:
        return ""
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return f"unknown time zone {zone}"
    return ""
