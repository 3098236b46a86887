"""A number or a percentage, as in maxSurge and minAvailable."""

from __future__ import annotations


def share(value: int | str, whole: int, *, up: bool) -> int:
    """How many of the whole that is; parts of one count or not."""
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-percent * whole // 100) if up else percent * whole // 100
