"""Arguments that people pass: durations in Go's syntax (`90s`, `1h30m`) or in seconds, whole
numbers, ranges, and suggestions for misspelt words.

Used by options, markers, fixtures and validation. Functions raise ValueError with the remedy.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import sys
import types
import typing
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


Duration: TypeAlias = Annotated[float, "duration"]
"""Annotation of a parameter in seconds. Markers may give it as a string such as `90s`."""
DurationRange: TypeAlias = tuple[float, float]
"""Annotation of a parameter with the least and the most seconds. Markers may give strings."""
CountRange: TypeAlias = tuple[int, int]
"""Annotation of a parameter with the least and the most of a whole number."""
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
"""Nanoseconds per unit. Days and weeks are missing, as in Go: their length varies."""
DURATION_PART = re.compile(
    r"(?P<whole>[0-9]*)(?:\.(?P<rest>[0-9]*))?"
    rf"(?P<unit>{'|'.join(sorted(UNIT_NANOSECONDS, key=len, reverse=True))})"
)
MOST_DIGITS, MAX_NANOSECONDS = 19, 2**63 - 1
"""Limits of Go's durations: digits of a number, and nanoseconds."""


def seconds_of(duration: str | float | timedelta) -> float:
    """Return a duration in seconds. A string needs its unit; ValueError for anything negative,
    infinite or malformed.
    """
    if isinstance(duration, bool) or not isinstance(duration, str | int | float | timedelta):
        seconds = math.nan
    elif isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        seconds = seconds_of_text(duration.strip())
    else:
        seconds = float(duration)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(
            f"{duration!r} is not a length of time: write seconds, zero or more, or a string "
            "such as '90s' or '1h30m'"
        )
    return seconds


def seconds_of_text(duration: str) -> float:
    return nanoseconds_of_text(duration) / 1e9


def nanoseconds_of_text(duration: str) -> int:
    """Return the nanoseconds of a duration in Go's syntax. Raises ValueError for what Go's
    ParseDuration refuses.
    """
    text = duration[1:] if duration[:1] in {"+", "-"} else duration
    if text == "0":
        return 0
    total, at = 0, 0
    while at < len(text) or not text:
        part = DURATION_PART.match(text, at)
        if part is None or not (part["whole"] or part["rest"]):
            raise ValueError(f"{duration!r} is not a duration: write for example 90s, 5m or 1h30m")
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


def in_words(seconds: float) -> str:
    """Format seconds as a duration, rounded to whole seconds from one second on: 90 is 1m30s."""
    whole = round(seconds)
    if whole < 1:
        return f"{seconds:g}s"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return "".join(
        f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if number
    )


PAIR = 2
ORDER = "give the least and the most, in this order, each more than zero"


def is_whole_number(given: object, least: int = 1) -> bool:
    """Return True if a value is a whole number of at least `least`; booleans are none."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= least


def is_number(given: object) -> bool:
    """Return True if a value is a number above zero; booleans are none."""
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
    return ValueError(f"{name}={given!r}: {ORDER}{', in whole numbers' if whole else ''}")


def nearest(word: object, words: Iterable[str]) -> str:
    """Return the suggestion for the end of an error message, or an empty string if no word is
    similar.
    """
    found = closest_match(str(word), words)
    return f" (did you mean {found!r}?)" if found else ""


def closest_match(word: str, words: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, list(words), 1)), None)


def parameter_types(kind: type[Any]) -> Mapping[str, Any]:
    """Return the annotations of a dataclass's fields, evaluated and without `| None`, by name.

    Raises ValueError, which names the field, for an annotation that cannot be evaluated when the
    program runs.
    """
    return {
        field.name: _parameter_type(kind, field.name, field.type)
        for field in dataclasses.fields(kind)
    }


def _parameter_type(kind: type[Any], name: str, annotation: Any) -> Any:
    owner = next(each for each in kind.__mro__ if name in vars(each).get("__annotations__", {}))
    holder: Any = types.SimpleNamespace(__annotations__={name: annotation})
    try:
        found = typing.get_type_hints(
            holder, vars(sys.modules[owner.__module__]), include_extras=True
        )[name]
    except (AttributeError, NameError, SyntaxError, TypeError) as error:
        raise ValueError(
            f"the annotation of its field {name!r}, {annotation}, cannot be evaluated: {error}: "
            "import its names outside of `if TYPE_CHECKING:`"
        ) from error
    if typing.get_origin(found) not in (typing.Union, types.UnionType):
        return found
    some = [each for each in typing.get_args(found) if each is not types.NoneType]
    return some[0] if len(some) == 1 else found
