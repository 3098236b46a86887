"""Durations as people write them (`90s`, `1h30m`, Go's syntax) or as seconds."""

from __future__ import annotations

import difflib
import math
import re
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable


Duration: TypeAlias = float
"""Seconds, which people may write as a duration."""
UNIT_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""In nanoseconds; days and weeks are not always of one length, and Go has none."""
DURATION_PART = re.compile(
    r"(?P<whole>[0-9]*)(?:\.(?P<rest>[0-9]*))?"
    rf"(?P<unit>{'|'.join(sorted(UNIT_NANOSECONDS, key=len, reverse=True))})"
)
MOST_DIGITS, MAX_NANOSECONDS = 19, 2**63 - 1
"""Of nanoseconds that Go can count."""


def seconds_of(duration: str | float | timedelta) -> float:
    """How many seconds a length of time is; a string needs its unit."""
    is_one = isinstance(duration, str | int | float | timedelta) and not isinstance(duration, bool)
    seconds = _seconds(duration) if is_one else math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(
            f"{duration!r} is no length of time: write seconds, zero or more, or a string "
            "such as '90s' or '1h30m'"
        )
    return seconds


def seconds_of_text(duration: str) -> float:
    """What Go makes of it, negative ones too."""
    return nanoseconds_of_text(duration) / 1e9


def nanoseconds_of_text(duration: str) -> int:
    """To the nanosecond; ValueError for what Go's ParseDuration does not take."""
    text = duration[1:] if duration[:1] in {"+", "-"} else duration
    if text == "0":
        return 0
    total, at = 0, 0
    while at < len(text) or not text:
        part = DURATION_PART.match(text, at)
        if part is None or not (part["whole"] or part["rest"]):
            raise ValueError(
                f"{duration!r} is no duration: write a number and a unit, as in '90s', "
                "'5m' or '1h30m'"
            )
        whole, rest, unit = (
            part["whole"].lstrip("0"),
            part["rest"] or "",
            UNIT_NANOSECONDS[part["unit"]],
        )
        if len(whole) > MOST_DIGITS:
            raise _too_long(duration)
        total += int(whole or "0") * unit + int(float(f"0.{rest or 0}") * unit)
        at = part.end()
    is_negative = duration[0] == "-"
    if total > MAX_NANOSECONDS + is_negative:
        raise _too_long(duration)
    return -total if is_negative else total


def _too_long(duration: str) -> ValueError:
    shown = duration if len(duration) <= 2 * MOST_DIGITS else f"{duration[:MOST_DIGITS]}…"
    return ValueError(f"{shown!r} is longer than any duration: that ends after 292 years")


def _seconds(duration: str | float | timedelta) -> float:
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    return seconds_of_text(duration.strip()) if isinstance(duration, str) else float(duration)


def in_words(seconds: float) -> str:
    """A length of time as people write it: 90 is 1m30s."""
    whole = round(seconds)
    if whole < 1:
        return f"{seconds:g}s"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return "".join(
        f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if number
    )


# What may be given as a number of things, and as a range from the least to the most; and what
# is said of anything else.


PAIR = 2
ORDER = "give the least and the most, in this order, each more than zero"


def is_whole_number(given: object, least: int = 1) -> bool:
    """Whether it is a number of things; True and False are none."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= least


def is_number(given: object) -> bool:
    """Whether it is a number above zero."""
    return isinstance(given, int | float) and not isinstance(given, bool) and given > 0


def is_range(given: object, *, whole: bool = False) -> bool:
    may_be = is_whole_number if whole else is_number
    return (
        isinstance(given, list | tuple)
        and len(given) == PAIR
        and all(map(may_be, given))
        and given[0] <= given[1]
    )


def require_range(name: str, given: object, *, whole: bool = False) -> None:
    if not is_range(given, whole=whole):
        raise range_error(name, given, whole=whole)


def range_error(name: str, given: object, *, whole: bool = False) -> ValueError:
    """What is wrong with what was given for the parameter of this name."""
    return ValueError(f"{name}={given!r}: {ORDER}{', in whole numbers' if whole else ''}")


# What somebody may have meant who wrote a word that there is not.


def nearest(word: object, words: Iterable[str]) -> str:
    """A question for the end of a refusal; empty if nothing is near."""
    found = closest_match(str(word), words)
    return f" (did you mean {found!r}?)" if found else ""


def closest_match(word: str, words: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, list(words), 1)), None)
