"""Operators on values, optionals and lists; set functions.

`&&`, `||` and `?:` are evaluated in `program`, since they may skip operands.
"""

from __future__ import annotations

import math
from datetime import timedelta
from functools import cmp_to_key
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.errors import EvaluationError
from pytest_kscen.cel.types import UInt
from pytest_kscen.cel.values import (
    NONE,
    MapList,
    Optional,
    SetList,
    checked_int,
    checked_uint,
    contains,
    equal,
    index,
    index_optional,
    less_than,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def _divide(one: int, other: int) -> int:
    """Divide integers, rounding towards zero."""
    if other == 0:
        raise EvaluationError("division by zero")
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _modulo(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("modulus by zero")
    return one - other * _divide(one, other)


def _divide_floats(one: float, other: float) -> float:
    if other == 0:
        return (
            math.nan
            if one == 0 or math.isnan(one)
            else math.copysign(math.inf, one) * math.copysign(1, other)
        )
    return one / other


def concatenate(one: list[Any], other: list[Any]) -> list[Any]:
    if isinstance(one, SetList):
        return SetList([*one, *(element for element in other if not contains(one, element))])
    if isinstance(one, MapList):
        others = MapList(other)
        others.keys = one.keys
        merged = MapList({**one.by_key(), **others.by_key()}.values())
        merged.keys = one.keys
        return merged
    return [*one, *other]


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "_<_": less_than,
    "_>_": lambda one, other: less_than(other, one),
    "_<=_": lambda one, other: not less_than(other, one),
    "_>=_": lambda one, other: not less_than(one, other),
}
NUMBERS = ("int", "uint", "double")
ORDERED_PAIRS = [
    *((kind, kind) for kind in ("bool", "string", "bytes", "timestamp", "duration")),
    *((one, other) for one in NUMBERS for other in NUMBERS),
]
OPERATOR_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        f"{name}({one}, {other}) bool": run
        for name, run in COMPARISONS.items()
        for one, other in ORDERED_PAIRS
    },
    "_==_(A, A) bool": equal,
    "_!=_(A, A) bool": lambda one, other: not equal(one, other),
    "@in(A, list(A)) bool": lambda wanted, elements: contains(elements, wanted),
    "@in(A, map(A, B)) bool": lambda wanted, entries: wanted in entries,
    "_&&_(bool, bool) bool": lambda one, other: one and other,
    "_||_(bool, bool) bool": lambda one, other: one or other,
    "_?_:_(bool, A, A) A": lambda condition, one, other: one if condition else other,
    "!_(bool) bool": lambda value: not value,
    "-_(int) int": lambda value: checked_int(-value),
    "-_(double) double": lambda value: -value,
    "_+_(int, int) int": lambda one, other: checked_int(one + other),
    "_-_(int, int) int": lambda one, other: checked_int(one - other),
    "_*_(int, int) int": lambda one, other: checked_int(one * other),
    "_/_(int, int) int": lambda one, other: checked_int(_divide(one, other)),
    "_%_(int, int) int": _modulo,
    "_+_(uint, uint) uint": lambda one, other: checked_uint(int(one) + int(other)),
    "_-_(uint, uint) uint": lambda one, other: checked_uint(int(one) - int(other)),
    "_*_(uint, uint) uint": lambda one, other: checked_uint(int(one) * int(other)),
    "_/_(uint, uint) uint": lambda one, other: UInt(_divide(one, other)),
    "_%_(uint, uint) uint": lambda one, other: UInt(_modulo(one, other)),
    "_+_(double, double) double": lambda one, other: one + other,
    "_-_(double, double) double": lambda one, other: one - other,
    "_*_(double, double) double": lambda one, other: one * other,
    "_/_(double, double) double": _divide_floats,
    "_+_(string, string) string": lambda one, other: one + other,
    "_+_(bytes, bytes) bytes": lambda one, other: one + other,
    "_+_(list(A), list(A)) list(A)": concatenate,
    "_+_(timestamp, duration) timestamp": lambda one, other: one + other,
    "_+_(duration, timestamp) timestamp": lambda one, other: other + one,
    "_+_(duration, duration) duration": lambda one, other: one + other,
    "_-_(timestamp, timestamp) duration": lambda one, other: one - other,
    "_-_(timestamp, duration) timestamp": lambda one, other: one - other,
    "_-_(duration, duration) duration": lambda one, other: one - other,
    "_[_](list(A), int) A": index,
    "_[_](map(A, B), A) B": index,
    "_[_](optional(list(A)), int) optional(A)": index_optional,
    "_[_](optional(map(A, B)), A) optional(B)": index_optional,
    "_[?_](list(A), int) optional(A)": index_optional,
    "_[?_](map(A, B), A) optional(B)": index_optional,
}
OPERATOR_METHODS: dict[str, Callable[..., Any]] = {}


# Optionals.


def _value(held: Optional) -> Any:
    if not held.present:
        raise EvaluationError("optional.none() dereference")
    return held.value


OPTIONAL_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "optional.of(A) optional(A)": lambda value: Optional(value, present=True),
    "optional.ofNonZeroValue(A) optional(A)": lambda value: (
        Optional(value, present=True) if value else NONE
    ),
    "optional.none() optional(A)": lambda: NONE,
}
OPTIONAL_METHODS: dict[str, Callable[..., Any]] = {
    "optional(A)::hasValue() bool": lambda held: held.present,
    "optional(A)::value() A": _value,
    "optional(A)::orValue(A) A": lambda held, instead: held.value if held.present else instead,
    "optional(A)::or(optional(A)) optional(A)": lambda held, instead: (
        held if held.present else instead
    ),
}


# Lists: Kubernetes' functions, the lists extension, and sets.


ORDERED_TYPES = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
SUMMED: dict[str, Any] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": timedelta()}


def _sum(kind: str) -> Callable[[list[Any]], Any]:
    add = OPERATOR_FUNCTIONS[f"_+_({kind}, {kind}) {kind}"]

    def total(elements: list[Any]) -> Any:
        if not elements:
            return SUMMED[kind]
        found = elements[0]
        for element in elements[1:]:
            found = add(found, element)
        return found

    return total


def _extreme(name: str) -> Callable[[list[Any]], Any]:
    def found(elements: list[Any]) -> Any:
        if not elements:
            raise EvaluationError(f"{name} called on empty list")
        best = elements[0]
        for element in elements[1:]:
            if less_than(element, best) if name == "min" else less_than(best, element):
                best = element
        return best

    return found


def _index_of(elements: list[Any], wanted: Any) -> int:
    return next((place for place, element in enumerate(elements) if equal(element, wanted)), -1)


def _slice(elements: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(elements):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return elements[start:end]


def _flatten(elements: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    found: list[Any] = []
    for element in elements:
        found += _flatten(element, depth - 1) if isinstance(element, list) and depth else [element]
    return found


def _distinct(elements: list[Any]) -> list[Any]:
    found: list[Any] = []
    for element in elements:
        if not contains(found, element):
            found.append(element)
    return found


def _contains_all(elements: list[Any], wanted: list[Any]) -> bool:
    return all(contains(elements, each) for each in wanted)


LIST_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lists.range(int) list(int)": lambda count: list(range(count)),
    "sets.contains(list(A), list(A)) bool": _contains_all,
    "sets.equivalent(list(A), list(A)) bool": lambda one, other: (
        _contains_all(one, other) and _contains_all(other, one)
    ),
    "sets.intersects(list(A), list(A)) bool": lambda one, other: any(
        contains(other, each) for each in one
    ),
}
LIST_METHODS: dict[str, Callable[..., Any]] = {
    **{
        f"list({kind})::isSorted() bool": lambda elements: (
            not any(less_than(after, before) for before, after in pairwise(elements))
        )
        for kind in ORDERED_TYPES
    },
    **{f"list({kind})::sum() {kind}": _sum(kind) for kind in SUMMED},
    **{f"list({kind})::min() {kind}": _extreme("min") for kind in ORDERED_TYPES},
    **{f"list({kind})::max() {kind}": _extreme("max") for kind in ORDERED_TYPES},
    **{
        f"list({kind})::sort() list({kind})": lambda elements: sorted(
            elements,
            key=cmp_to_key(lambda one, other: less_than(other, one) - less_than(one, other)),
        )
        for kind in ORDERED_TYPES
    },
    "list(A)::indexOf(A) int": _index_of,
    "list(A)::lastIndexOf(A) int": lambda elements, wanted: (
        found if (found := _index_of(elements[::-1], wanted)) < 0 else len(elements) - 1 - found
    ),
    "list(A)::slice(int, int) list(A)": _slice,
    "list(A)::flatten() list(dyn)": _flatten,
    "list(A)::flatten(int) list(dyn)": _flatten,
    "list(A)::distinct() list(A)": _distinct,
    "list(A)::reverse() list(A)": lambda elements: elements[::-1],
}
