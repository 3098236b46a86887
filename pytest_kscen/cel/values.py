"""CEL's values in Python: what is equal, what comes first, and the few that need a class of their own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pytest_kscen.cel.mistakes import EvaluationError, no_such_overload
from pytest_kscen.cel.types import UInt

SMALLEST, LARGEST, LARGEST_UNSIGNED = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    value: Any = None
    there: bool = False


NONE = Optional()


class SetList(list[Any]):
    """A list whose order means nothing."""


class MapList(list[Any]):
    """A list of objects that are known by their keys."""

    keys: tuple[str, ...] = ()

    def by_key(self) -> dict[str, Any]:
        return {repr([element.get(key) for key in self.keys]): element for element in self if isinstance(element, dict)}


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(one: Any, other: Any) -> bool:
    """Numbers are equal across their types; nothing else is."""
    if is_number(one) and is_number(other):
        return bool(one == other)
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(name in other and equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return _equal_lists(one, other)
    if isinstance(one, Optional) and isinstance(other, Optional):
        return one.there == other.there and equal(one.value, other.value)
    return type(one) is type(other) and bool(one == other)


def _equal_lists(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, SetList):
        return all(contains(other, element) for element in one)
    if isinstance(one, MapList):
        others = MapList(other)
        others.keys = one.keys
        return equal(one.by_key(), others.by_key())
    return all(equal(first, second) for first, second in zip(one, other, strict=True))


def contains(elements: Any, wanted: Any) -> bool:
    return any(equal(element, wanted) for element in elements)


def comes_before(one: Any, other: Any) -> bool:
    if is_number(one) and is_number(other):
        return bool(one < other)
    if type(one) is type(other) and isinstance(one, (str, bytes, bool, datetime, timedelta)):
        return bool(one < other)
    raise no_such_overload()


def whole(value: int) -> int:
    """A signed integer, if it is one still."""
    if SMALLEST <= value <= LARGEST:
        return value
    raise EvaluationError("integer overflow")


def unsigned(value: int) -> UInt:
    if 0 <= value <= LARGEST_UNSIGNED:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def shown(value: Any) -> str:
    """As CEL's string() writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)  # noqa: PLR2004 - as Go does
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return f"{int(seconds) if seconds.is_integer() else seconds}s"
    return value.decode() if isinstance(value, bytes) else str(value)
