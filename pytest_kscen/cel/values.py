"""CEL's values in Python: equality, order, selection, and classes for optionals and keyed lists.

Used by `program` and `functions`; raises EvaluationError with cel-go's messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pytest_kscen.cel.errors import EvaluationError, no_such_overload
from pytest_kscen.cel.types import UInt

INT_MIN, INT_MAX, UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
EXPONENT_LIMIT = 1e21  # from here on Go writes an exponent


@dataclass(frozen=True, slots=True)
class Optional:
    """Value of an optional_type; `present` is False for optional.none()."""

    value: Any = None
    present: bool = False


NONE = Optional()


class SetList(list[Any]):
    """List of a schema with list type `set`: equality ignores order, and `+` is a union."""


class MapList(list[Any]):
    """List of a schema with list type `map`: elements are identified by `keys`.

    Equality ignores order, and `+` replaces elements with the same keys.
    """

    keys: tuple[str, ...] = ()

    def by_key(self) -> dict[str, Any]:
        return {
            repr([element.get(key) for key in self.keys]): element
            for element in self
            if isinstance(element, dict)
        }


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(one: Any, other: Any) -> bool:
    """Return CEL's equality: numbers compare across types, other types never.

    Lists with a schema's list type `set` or `map` compare without order.
    """
    if is_number(one) and is_number(other):
        return bool(one == other)
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(
            name in other and equal(value, other[name]) for name, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return _equal_lists(one, other)
    if isinstance(one, Optional) and isinstance(other, Optional):
        return one.present == other.present and equal(one.value, other.value)
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


def less_than(one: Any, other: Any) -> bool:
    if is_number(one) and is_number(other):
        return bool(one < other)
    if type(one) is type(other) and isinstance(one, (str, bytes, bool, datetime, timedelta)):
        return bool(one < other)
    raise no_such_overload()


def checked_int(value: int) -> int:
    """Return the number if it fits a signed 64-bit integer; raises EvaluationError.

    Python's integers have no bounds, so every arithmetic result passes here.
    """
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def checked_uint(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def to_string(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return (
            str(int(value)) if value.is_integer() and abs(value) < EXPONENT_LIMIT else repr(value)
        )
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return f"{int(seconds) if seconds.is_integer() else seconds}s"
    return value.decode() if isinstance(value, bytes) else str(value)


ESCAPED = {"__underscores__": "__", "__dot__": ".", "__dash__": "-", "__slash__": "/"}


def unescape_field(name: str) -> str:
    """Return the field name that CEL's escaped form stands for, such as `__dot__` for a dot."""
    if "__" not in name:
        return name
    if name.startswith("__") and name.endswith("__") and name not in ESCAPED:
        return name[2:-2]
    for escaped, text in ESCAPED.items():
        name = name.replace(escaped, text)
    return name


def select_field(value: Any, name: str) -> Any:
    if isinstance(value, Optional):
        return select_optional(value, name)
    if not isinstance(value, dict):
        raise no_such_overload()
    if name not in value:
        raise EvaluationError(f"no such key: {name}")
    return value[name]


def select_optional(value: Any, name: str) -> Optional:
    inner = value.value if isinstance(value, Optional) else value
    return (
        Optional(inner[name], present=True) if isinstance(inner, dict) and name in inner else NONE
    )


def has(value: Any, name: str) -> bool:
    if isinstance(value, Optional):
        return isinstance(value.value, dict) and name in value.value
    if not isinstance(value, dict):
        raise no_such_overload()
    return name in value


def index(value: Any, at: Any) -> Any:
    """Return the element at an index of a list, or under a key of a map."""
    if isinstance(value, Optional):
        return index_optional(value, at)
    if isinstance(value, dict):
        if at not in value:
            raise EvaluationError(f"no such key: {at}")
        return value[at]
    if not isinstance(value, list) or not is_number(at):
        raise no_such_overload()
    if isinstance(at, float) and not at.is_integer():
        raise EvaluationError(f"unsupported index value: {at}")
    if not 0 <= at < len(value):
        raise EvaluationError(f"index out of bounds: {int(at)}")
    return value[int(at)]


def index_optional(value: Any, at: Any) -> Optional:
    """Return an element as an optional, empty if it is missing."""
    inner = value.value if isinstance(value, Optional) else value
    if isinstance(inner, list):
        return Optional(inner[at], present=True) if 0 <= at < len(inner) else NONE
    return Optional(inner[at], present=True) if isinstance(inner, dict) and at in inner else NONE
