"""Lists: Kubernetes' functions, the lists extension, and sets."""

from __future__ import annotations

from datetime import timedelta
from functools import cmp_to_key
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.functions.operators import FUNCTIONS as OPERATORS
from pytest_kscen.cel.mistakes import EvaluationError
from pytest_kscen.cel.types import UInt
from pytest_kscen.cel.values import comes_before, contains, equal

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
SUMMED: dict[str, Any] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": timedelta()}


def _is_sorted(elements: list[Any]) -> bool:
    return not any(comes_before(after, before) for before, after in pairwise(elements))


def _sum(kind: str) -> Callable[[list[Any]], Any]:
    add = OPERATORS[f"_+_({kind}, {kind}) {kind}"]

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
            if comes_before(element, best) if name == "min" else comes_before(best, element):
                best = element
        return best

    return found


def _index_of(elements: list[Any], wanted: Any) -> int:
    return next((place for place, element in enumerate(elements) if equal(element, wanted)), -1)


def _last_index_of(elements: list[Any], wanted: Any) -> int:
    found = _index_of(elements[::-1], wanted)
    return found if found < 0 else len(elements) - 1 - found


def _slice(elements: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(elements):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return elements[start:end]


def _flat(elements: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    found: list[Any] = []
    for element in elements:
        found += _flat(element, depth - 1) if isinstance(element, list) and depth else [element]
    return found


def _distinct(elements: list[Any]) -> list[Any]:
    found: list[Any] = []
    for element in elements:
        if not contains(found, element):
            found.append(element)
    return found


def _sorted(elements: list[Any]) -> list[Any]:
    return sorted(elements, key=cmp_to_key(lambda one, other: comes_before(other, one) - comes_before(one, other)))


def _holds(elements: list[Any], wanted: list[Any]) -> bool:
    return all(contains(elements, each) for each in wanted)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lists.range(int) list(int)": lambda count: list(range(count)),
    "sets.contains(list(A), list(A)) bool": _holds,
    "sets.equivalent(list(A), list(A)) bool": lambda one, other: _holds(one, other) and _holds(other, one),
    "sets.intersects(list(A), list(A)) bool": lambda one, other: any(contains(other, each) for each in one),
}
METHODS: dict[str, Callable[..., Any]] = {
    **{f"list({kind})::isSorted() bool": _is_sorted for kind in ORDERED},
    **{f"list({kind})::sum() {kind}": _sum(kind) for kind in SUMMED},
    **{f"list({kind})::min() {kind}": _extreme("min") for kind in ORDERED},
    **{f"list({kind})::max() {kind}": _extreme("max") for kind in ORDERED},
    **{f"list({kind})::sort() list({kind})": _sorted for kind in ORDERED},
    "list(A)::indexOf(A) int": _index_of,
    "list(A)::lastIndexOf(A) int": _last_index_of,
    "list(A)::slice(int, int) list(A)": _slice,
    "list(A)::flatten() list(dyn)": _flat,
    "list(A)::flatten(int) list(dyn)": _flat,
    "list(A)::distinct() list(A)": _distinct,
    "list(A)::reverse() list(A)": lambda elements: elements[::-1],
}
