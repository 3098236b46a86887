"""Whether a custom value is in order, told in haste: nearly all are, and only for the others it is worth to find words.

Yes is certain: the judges would find nothing, nor a repetition that was not there before. No says nothing. Texts and
numbers that were found in order at some place are known there by heart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.schema.judging import COMBINATIONS, UNKNOWN, judge_by
from pytest_kscen.machinery.schema.keywords import types_of
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.machinery.schema.listtypes import repetitions
from pytest_kscen.machinery.schema.verdicts import Verdict
from pytest_kscen.machinery.schema.visiting import visitor

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj

    Fits = Callable[[Any, Any], bool]

SCALARS = (str, int, bool, float, type(None))
REMEMBERED = 128
LONGEST = 256  # of a text that is remembered
ODD = (*COMBINATIONS, "enum")


def fits_by(schema: Obj) -> Fits:
    """What tells of `(value, old)` whether a value fits a schema, beside the old value that it was or will be let through with."""
    judge = judge_by(schema)
    known: dict[type, set[Any]] = {scalar: set() for scalar in SCALARS}
    containers: dict[type, Fits] = {}

    def fits(value: Any, old: Any) -> bool:
        if value is old:
            return True
        kind = type(value)
        right = known.get(kind)
        if right is None:
            if not containers:
                containers.update({dict: _container(schema, "object"), list: _container(schema, "array")})
            return containers[kind](value, old)
        if value in right:
            return True
        verdict = Verdict()
        judge(value, "", UNKNOWN, verdict)
        if verdict.faults:
            return False
        if kind is not str or len(value) <= LONGEST:
            if len(right) == REMEMBERED:
                right.clear()
            right.add(value)
        return True

    return fits


def _container(schema: Obj, kind: str) -> Fits:
    wanted = types_of(schema)
    if wanted and kind not in wanted:
        return _never
    if any(schema.get(word) for word in ODD):
        return _judged(schema)
    return _objects(schema) if kind == "object" else _lists(schema)


def _never(_value: Any, _old: Any) -> bool:
    return False


def _judged(schema: Obj) -> Fits:
    """With all words, where it takes more than a glance."""
    judge, repeated = judge_by(schema), visitor(schema, repetitions)

    def fits(value: Any, old: Any) -> bool:
        verdict = Verdict()
        judge(value, "", old, verdict)
        return not verdict.faults and not (repeated and any(repeated(value, "")))

    return fits


def _objects(schema: Obj) -> Fits:
    fields = {name: fits_by(inner) for name, inner in schema.get("properties", NOTHING).items()}
    more = schema.get("additionalProperties")
    others = fits_by(more) if isinstance(more, dict) else _never if more is False else None
    wanted, least, most = frozenset(schema.get("required") or ()), schema.get("minProperties"), schema.get("maxProperties")

    def fits(value: Obj, old: Any) -> bool:
        if not wanted <= value.keys() or not is_between(least, len(value), most):
            return False
        before = (old if type(old) is dict else NOTHING).get
        for name, part in value.items():
            inner, was = fields.get(name, others), before(name, UNKNOWN)
            if inner and (part is not was or inner is _never) and not inner(part, was):
                return False
        return True

    return fits


def _lists(schema: Obj) -> Fits:
    items = schema.get("items")
    element = fits_by(items) if isinstance(items, dict) else None
    least, most, form = schema.get("minItems"), schema.get("maxItems"), schema.get("x-kubernetes-list-type")
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []

    right: dict[int, Any] = {}  # elements that were in order once: who keeps them knows them by their ids

    def fits(value: list[Any], _old: Any) -> bool:
        if not is_between(least, len(value), most) or (form in {"set", "map"} and not are_distinct(value, keys)):
            return False
        if element is None:
            return True
        for part in value:
            if right.get(id(part), UNKNOWN) is not part:
                if not element(part, UNKNOWN):
                    return False
                if type(part) is dict:
                    if len(right) == REMEMBERED:
                        right.clear()
                    right[id(part)] = part
        return True

    return fits


def is_between(least: int | None, count: int, most: int | None) -> bool:
    return (least is None or least <= count) and (most is None or count <= most)


def are_distinct(elements: list[Any], keys: list[str]) -> bool:
    """Whether the elements of a set or a map can easily be told from each other."""
    try:
        if len(keys) == 1:
            names = [element[keys[0]] for element in elements]
        else:
            names = [tuple([element[key] for key in keys]) for element in elements] if keys else elements
        return len({*names}) == len(elements)
    except (KeyError, TypeError):
        return False
