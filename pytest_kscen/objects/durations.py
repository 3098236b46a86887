"""Durations as people write them (`90s`, `1h30m`, Go's syntax) or as seconds."""

from __future__ import annotations

from datetime import timedelta

import durationpy


def seconds_of(duration: str | float | timedelta) -> float:
    """How many seconds a duration is; a string needs its unit."""
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, int | float):
        return float(duration)
    try:
        return float(durationpy.from_str(duration.strip()).total_seconds())
    except durationpy.DurationError as error:
        raise ValueError(f"{duration!r} is no duration: write a number and a unit, as in '90s', '5m' or '1h30m'") from error
