"""Numbers as Go writes them in JSON."""

from __future__ import annotations

LARGEST_PLAIN = 1e21  # from here on a number has an exponent


def go_number(number: float) -> float:
    """Without a fraction if it has none."""
    return int(number) if number.is_integer() and abs(number) < LARGEST_PLAIN else number
