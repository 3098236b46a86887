"""Durations as people write them (`90s`, `1h30m`, Go's syntax) or as seconds."""

from __future__ import annotations

import math
from datetime import timedelta

import durationpy


def seconds_of(duration: str | float | timedelta) -> float:
    """How many seconds a length of time is; a string needs its unit."""
    seconds = _seconds(duration)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{duration!r} is no length of time: write seconds, zero or more, or a string such as '90s' or '1h30m'")
    return seconds


def seconds_of_text(duration: str) -> float:
    """What Go makes of it, negative ones too."""
    try:
        return float(durationpy.from_str(duration.strip()).total_seconds())
    except durationpy.DurationError:
        raise ValueError(f"{duration!r} is no duration: write a number and a unit, as in '90s', '5m' or '1h30m'") from None


def _seconds(duration: str | float | timedelta) -> float:
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    return seconds_of_text(duration) if isinstance(duration, str) else float(duration)


def in_words(seconds: float) -> str:
    """A length of time as people write it: 90 is 1m30s."""
    whole = round(seconds)
    if whole < 1:
        return f"{seconds:g}s"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return "".join(f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if number)
