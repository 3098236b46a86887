"""Custom objects on their way in, decoded and judged in one walk: nearly all are in order, and none
is walked through twice.

What is taken is what `structural` makes of it, and it fits as `fitting` means it, beside the old
value. Whatever is odd is left to those two (`Doubt`). Scalars that were in order once are known by
heart at their place, and so are the elements of lists, for which it does not matter what was there
before: who writes one again is given the one that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.embedded.apiserver.schema.keywords import Verdict, types_of
from pytest_kscen.embedded.apiserver.schema.scalars import NOTHING, repeats
from pytest_kscen.embedded.apiserver.schema.structural import (
    EMBEDDED,
    NO_SCHEMA,
    PRESERVE,
    ROOT_HEAD,
    defaults_of,
    drops_null,
    number,
    or_old,
    walk_by,
)
from pytest_kscen.embedded.apiserver.schema.validation import (
    COMBINATIONS,
    UNKNOWN,
    judge_by,
    repetitions,
    visitor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.embedded.apiserver.schema.scalars import Walk
    from pytest_kscen.objects.resources import Obj

    Known = Mapping[type, dict[Any, Any]]
    Fits = Callable[[Any, Any], bool]


# Whether a custom value is in order, told in haste: nearly all are, and only for the others it
# is worth to find words. Yes is certain: the judges would find nothing, nor a repetition that
# was not there before. No says nothing. Texts and numbers that were found in order at some
# place are known there by heart.


SCALARS = (str, int, bool, float, type(None))
REMEMBERED = 128
LONGEST = 256  # of a text that is remembered
ODD = (*COMBINATIONS, "enum")


def fits_by(schema: Obj) -> Fits:
    """What tells of `(value, old)` whether a value fits a schema, beside the old value that it
    was or will be let through with.
    """
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
                containers.update(
                    {
                        dict: _container_fits(schema, "object"),
                        list: _container_fits(schema, "array"),
                    }
                )
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


def _container_fits(schema: Obj, kind: str) -> Fits:
    wanted = types_of(schema)
    if wanted and kind not in wanted:
        return _never
    if any(schema.get(word) for word in ODD):
        # With all words, where it takes more than a glance.
        judge, repeated = judge_by(schema), visitor(schema, repetitions)

        def fits(value: Any, old: Any) -> bool:
            verdict = Verdict()
            judge(value, "", old, verdict)
            return not verdict.faults and not (repeated and any(repeated(value, "")))

        return fits
    return _objects_fit(schema) if kind == "object" else _lists_fit(schema)


def _never(_value: Any, _old: Any) -> bool:
    return False


def _objects_fit(schema: Obj) -> Fits:
    fields = {name: fits_by(inner) for name, inner in schema.get("properties", NOTHING).items()}
    more = schema.get("additionalProperties")
    others = fits_by(more) if isinstance(more, dict) else _never if more is False else None
    wanted, least, most = (
        frozenset(schema.get("required") or ()),
        schema.get("minProperties"),
        schema.get("maxProperties"),
    )

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


def _lists_fit(schema: Obj) -> Fits:
    items = schema.get("items")
    element = fits_by(items) if isinstance(items, dict) else None
    least, most, form = (
        schema.get("minItems"),
        schema.get("maxItems"),
        schema.get("x-kubernetes-list-type"),
    )
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []

    right: dict[
        int, Any
    ] = {}  # elements that were in order once: who keeps them knows them by their ids

    def fits(value: list[Any], _old: Any) -> bool:
        if not is_between(least, len(value), most) or (
            form in {"set", "map"} and not are_distinct(value, keys)
        ):
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
            names = (
                [tuple([element[key] for key in keys]) for element in elements]
                if keys
                else elements
            )
        return len({*names}) == len(elements)
    except (KeyError, TypeError):
        return False


# that are remembered of a list's, and as many as the longest one has: a busy cluster is as quick
# with them
ELEMENTS = 1_000
LONGEST_ELEMENT = 2048  # bytes of one

UNHEARD: Known = {}


class Doubt(Exception):
    """A value that needs a closer look."""


def taken_by(schema: Obj) -> Walk | None:
    """The walk of whole objects, of whose metadata nothing is judged; None if all of them need a
    closer look.
    """
    return None if _is_odd(schema) else _take_objects(schema, ROOT_HEAD)


def _is_odd(schema: Obj) -> bool:
    return any(schema.get(word) for word in (PRESERVE, EMBEDDED, *ODD))


def _take(schema: Obj) -> tuple[Known, Walk]:
    """The walk of a schema, and the scalars that it knows, by their types: what becomes of each."""
    fits = fits_by(schema)
    known: Known = {scalar: {} for scalar in SCALARS}
    containers: dict[type, Walk] = {}

    def take(value: Any, old: Any) -> Any:
        kind = type(value)
        right = known.get(kind)
        if right is None:
            if kind is type(old) and value == old and repeats(value, old):
                return old
            if not containers:
                containers.update(
                    {
                        dict: _take_container(schema, "object"),
                        list: _take_container(schema, "array"),
                    }
                )
            return containers.get(kind, _doubted)(value, old)
        found = number(value)
        if not fits(found, UNKNOWN):
            raise Doubt
        if kind is not str or len(value) <= LONGEST:
            if len(right) == REMEMBERED:
                right.clear()
            right[value] = found
        return found

    return known, take


def _take_container(schema: Obj, kind: str) -> Walk:
    wanted = types_of(schema)
    if wanted and kind not in wanted:
        return _doubted
    if _is_odd(schema):
        # First decoded and then judged, where it takes more than a glance.
        walk, fits = walk_by(schema), fits_by(schema)

        def take(value: Any, old: Any) -> Any:
            new = walk(value, old)
            if not fits(new, UNKNOWN if old is None else old):
                raise Doubt
            return new

        return take
    return _take_objects(schema) if kind == "object" else _take_lists(schema)


def _doubted(_value: Any, _old: Any) -> Any:
    raise Doubt


class _Members(dict[str, "tuple[Known, Walk]"]):
    """The walks of an object's fields, each made at its first use."""

    def __init__(self, schema: Obj, head: Mapping[str, Walk]) -> None:
        super().__init__({name: (UNHEARD, walk) for name, walk in head.items()})
        self._properties: Obj = schema.get("properties", NOTHING)
        more = schema.get("additionalProperties")
        self._others = (
            _take(more if isinstance(more, dict) else NO_SCHEMA) if more else (UNHEARD, _doubted)
        )

    def __missing__(self, name: str) -> tuple[Known, Walk]:
        if name not in self._properties:
            return self._others
        member = self[name] = _take(self._properties[name])
        return member


def _take_objects(schema: Obj, head: Mapping[str, Walk] = NOTHING) -> Walk:
    members = _Members(schema, head)
    defaults = defaults_of(schema)
    wanted, least, most = (
        frozenset(schema.get("required") or ()),
        schema.get("minProperties"),
        schema.get("maxProperties"),
    )
    is_limited = least is not None or most is not None

    def take(value: Any, old: Any) -> Any:
        before = old if type(old) is dict else NOTHING
        new = value.copy()
        for name, part in value.items():
            was = before.get(name)
            if part is None:
                if not drops_null(schema, name):
                    raise Doubt
                del new[name]
            elif part is not was or name not in members:
                known, walk = members[name]
                if (right := known.get(type(part))) is None or (
                    found := right.get(part, UNKNOWN)
                ) is UNKNOWN:
                    found = walk(part, was)
                new[name] = found
        for name, default in defaults.items():
            if name not in new:
                new[name] = members[name][1](default(), before.get(name))
        if (wanted and not wanted <= new.keys()) or (
            is_limited and not is_between(least, len(new), most)
        ):
            raise Doubt
        return new if len(new) == len(value) else or_old(new, old)

    return take


def _take_lists(schema: Obj) -> Walk:
    scalars, element = _take(schema.get("items", NO_SCHEMA))
    least, most, form = (
        schema.get("minItems"),
        schema.get("maxItems"),
        schema.get("x-kubernetes-list-type"),
    )
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    is_limited, has_keys = least is not None or most is not None, form in {"set", "map"}
    known: dict[str, Any] = {}  # what was made of elements, by their content
    right: dict[int, Any] = {}  # and the same by its id, as long as it is kept here
    longest = 0

    def take(value: Any, _old: Any) -> Any:
        nonlocal longest
        if len(value) > longest:  # noqa: PLR1730  # without a call for each list
            longest = len(value)
        new = [part if right.get(id(part), UNKNOWN) is part else one(part) for part in value]
        if (is_limited and not is_between(least, len(new), most)) or (
            has_keys and not are_distinct(new, keys)
        ):
            raise Doubt
        return new

    def one(part: Any) -> Any:
        if type(part) is not dict:
            heard = scalars.get(type(part))
            return heard[part] if heard and part in heard else element(part, None)
        try:
            content = orjson.dumps(
                part
            ).decode()  # as text: orjson's bytes hold four KiB each, however short they are
        except TypeError:  # no plain JSON
            raise Doubt from None
        found = known.get(content)
        if found is None:
            found = element(part, None)
            if len(content) <= LONGEST_ELEMENT:
                if len(known) >= longest + ELEMENTS:
                    known.clear()
                    right.clear()
                known[content] = right[id(found)] = found
        return found

    return take
