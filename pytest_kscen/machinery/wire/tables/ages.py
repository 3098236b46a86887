"""Durations as people read them in a table: two or three figures and no more."""

from __future__ import annotations

from pytest_kscen.clock import epoch_of

MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY


def age(timestamp: str, now: float) -> str:
    return duration(now - epoch_of(timestamp))


def duration(seconds: float) -> str:
    """As Kubernetes shortens it; what lies more than a second ahead is no age."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    for below, unit, part in STEPS:
        if whole < below:
            return _written(whole, unit, part)
    return f"{whole // YEAR}y"


STEPS = (
    (2 * MINUTE, 1, 0),
    (10 * MINUTE, MINUTE, 1),
    (3 * HOUR, MINUTE, 0),
    (8 * HOUR, HOUR, MINUTE),
    (2 * DAY, HOUR, 0),
    (8 * DAY, DAY, HOUR),
    (2 * YEAR, DAY, 0),
    (8 * YEAR, YEAR, DAY),
)
LETTERS = {1: "s", MINUTE: "m", HOUR: "h", DAY: "d", YEAR: "y"}


def _written(whole: int, unit: int, part: int) -> str:
    rest = whole % unit // part if part else 0
    return f"{whole // unit}{LETTERS[unit]}" + (f"{rest}{LETTERS[part]}" if rest else "")
