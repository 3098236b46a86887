"""Arithmetic, comparison, logic, indexing. `&&`, `||` and `?:` are evaluated elsewhere: they need not know all their parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.access import item, maybe_item
from pytest_kscen.cel.mistakes import EvaluationError
from pytest_kscen.cel.types import UInt
from pytest_kscen.cel.values import MapList, SetList, comes_before, contains, equal, unsigned, whole

if TYPE_CHECKING:
    from collections.abc import Callable


def _divided(one: int, other: int) -> int:
    """Towards zero."""
    if other == 0:
        raise EvaluationError("division by zero")
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _rest(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("modulus by zero")
    return one - other * _divided(one, other)


def _float_divided(one: float, other: float) -> float:
    if other == 0:
        return math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1, other)
    return one / other


def joined(one: list[Any], other: list[Any]) -> list[Any]:
    if isinstance(one, SetList):
        return SetList([*one, *(element for element in other if not contains(one, element))])
    if isinstance(one, MapList):
        others = MapList(other)
        others.keys = one.keys
        merged = MapList({**one.by_key(), **others.by_key()}.values())
        merged.keys = one.keys
        return merged
    return [*one, *other]


def _after(one: Any, other: Any) -> bool:
    return comes_before(other, one)


def _not_after(one: Any, other: Any) -> bool:
    return not comes_before(other, one)


def _not_before(one: Any, other: Any) -> bool:
    return not comes_before(one, other)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"_<_": comes_before, "_>_": _after, "_<=_": _not_after, "_>=_": _not_before}
NUMBERS = ("int", "uint", "double")
ORDERED = [
    *((kind, kind) for kind in ("bool", "string", "bytes", "timestamp", "duration")),
    *((one, other) for one in NUMBERS for other in NUMBERS),
]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"{name}({one}, {other}) bool": run for name, run in COMPARISONS.items() for one, other in ORDERED},
    "_==_(A, A) bool": equal,
    "_!=_(A, A) bool": lambda one, other: not equal(one, other),
    "@in(A, list(A)) bool": lambda wanted, elements: contains(elements, wanted),
    "@in(A, map(A, B)) bool": lambda wanted, entries: wanted in entries,
    "_&&_(bool, bool) bool": lambda one, other: one and other,
    "_||_(bool, bool) bool": lambda one, other: one or other,
    "_?_:_(bool, A, A) A": lambda condition, one, other: one if condition else other,
    "!_(bool) bool": lambda value: not value,
    "-_(int) int": lambda value: whole(-value),
    "-_(double) double": lambda value: -value,
    "_+_(int, int) int": lambda one, other: whole(one + other),
    "_-_(int, int) int": lambda one, other: whole(one - other),
    "_*_(int, int) int": lambda one, other: whole(one * other),
    "_/_(int, int) int": lambda one, other: whole(_divided(one, other)),
    "_%_(int, int) int": _rest,
    "_+_(uint, uint) uint": lambda one, other: unsigned(int(one) + int(other)),
    "_-_(uint, uint) uint": lambda one, other: unsigned(int(one) - int(other)),
    "_*_(uint, uint) uint": lambda one, other: unsigned(int(one) * int(other)),
    "_/_(uint, uint) uint": lambda one, other: UInt(_divided(one, other)),
    "_%_(uint, uint) uint": lambda one, other: UInt(_rest(one, other)),
    "_+_(double, double) double": lambda one, other: one + other,
    "_-_(double, double) double": lambda one, other: one - other,
    "_*_(double, double) double": lambda one, other: one * other,
    "_/_(double, double) double": _float_divided,
    "_+_(string, string) string": lambda one, other: one + other,
    "_+_(bytes, bytes) bytes": lambda one, other: one + other,
    "_+_(list(A), list(A)) list(A)": joined,
    "_+_(timestamp, duration) timestamp": lambda one, other: one + other,
    "_+_(duration, timestamp) timestamp": lambda one, other: other + one,
    "_+_(duration, duration) duration": lambda one, other: one + other,
    "_-_(timestamp, timestamp) duration": lambda one, other: one - other,
    "_-_(timestamp, duration) timestamp": lambda one, other: one - other,
    "_-_(duration, duration) duration": lambda one, other: one - other,
    "_[_](list(A), int) A": item,
    "_[_](map(A, B), A) B": item,
    "_[_](optional(list(A)), int) optional(A)": maybe_item,
    "_[_](optional(map(A, B)), A) optional(B)": maybe_item,
    "_[?_](list(A), int) optional(A)": maybe_item,
    "_[?_](map(A, B), A) optional(B)": maybe_item,
}
METHODS: dict[str, Callable[..., Any]] = {}
