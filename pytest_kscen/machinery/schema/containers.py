"""Structs, lists and maps: each is walked once, next to the old object's part, which is shared where it is the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.schema.leaves import NOTHING, repeats
from pytest_kscen.machinery.schema.mismatch import Mismatch, Stranger, Unfit

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.machinery.schema.leaves import Walk

    Filling = tuple[str, Callable[[], Any]]
ANY_MAP, ANY_SLICE = "map[", "[]"
PLAIN = frozenset([str, int, float, bool, dict, list])  # whose truth is told without work


@dataclass(slots=True)
class Members:
    """What a struct is made of. `fillings` are what Go prints of absent fields; `labels` are the odd pieces of paths."""

    fields: dict[str, Walk] = field(default_factory=dict)
    fillings: list[Filling] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)


def struct(name: str, go_type: str, load: Callable[[Members], None]) -> Walk:
    """A struct whose members are loaded when a value first comes."""
    members = Members()
    fields, fillings = members.fields, members.fillings
    walk_of = fields.get

    def walk(value: Any, old: Any) -> Any:
        if value is old or value is None:
            return value
        if type(value) is not dict and not isinstance(value, dict):
            raise Mismatch(value, go_type)
        if type(old) is dict and value == old and repeats(value, old):
            return old
        if not fields:
            load(members)
        old_part = (old if type(old) is dict else NOTHING).get
        new = {}
        place = ""
        try:
            for place, part in value.items():
                was = old_part(place)
                if part is was and type(part) in PLAIN and part and place in fields:
                    new[place] = part  # which has been put in form before
                elif (found := walk_of(place, stranger)(part, was)) is not None:
                    new[place] = found
        except Unfit as misfit:
            misfit.inside(name, members.labels.get(place, place))
            raise
        return _filled(new, fillings) if fillings else new

    return walk


def _filled(new: dict[str, Any], fillings: list[Filling]) -> dict[str, Any]:
    for missing, filling in fillings:
        if missing not in new:
            new[missing] = filling()
    return new


def stranger(_value: Any, _old: Any) -> Any:
    """Stands where a struct has no such field."""
    raise Stranger


def listing(go_type: str, element: Walk, zero: Callable[[], Any], *, keep: bool = False) -> Walk:
    """A slice; an empty one is nothing unless it is kept, and null in it stands for its element's zero."""

    def walk(value: Any, old: Any) -> Any:
        if value is old or value is None:
            return value
        if type(value) is not list:
            if not isinstance(value, list):
                raise Mismatch(value, go_type, basic=ANY_SLICE)
            value = list(value)  # one that is worked out when it is looked at
        if type(old) is list:
            if value and repeats(value, old):
                return old
            new = [element(part, before) for part, before in zip_longest(value, old[: len(value)])]
        else:
            new = [element(part, None) for part in value]
        if None in new:
            new = [zero() if part is None else part for part in new]
        return new if new or keep else None

    return walk


def mapping(go_type: str, element: Walk, zero: Callable[[], Any]) -> Walk:
    """A map by strings; an empty one is nothing, and null in it stands for its element's zero."""

    def walk(value: Any, old: Any) -> Any:
        if value is old or value is None:
            return value
        if type(value) is not dict and not isinstance(value, dict):
            raise Mismatch(value, go_type, basic=ANY_MAP)
        if type(old) is not dict:
            old = NOTHING
        elif value and repeats(value, old):
            return old
        new = {}
        for name, part in value.items():
            found = element(part, old.get(name))
            new[name] = zero() if found is None else found
        return new or None

    return walk


def texts(slow: Walk) -> Walk:
    """A slice of plain strings."""

    def walk(value: Any, old: Any) -> Any:
        if value is old or type(value) is not list:
            return slow(value, old)
        for part in value:
            if type(part) is not str:
                return slow(value, old)
        return old if value and value == old and type(old) is list else value.copy() or None

    return walk


def texts_by_name(slow: Walk) -> Walk:
    """A map of plain strings to strings, which is most maps there are."""

    def walk(value: Any, old: Any) -> Any:
        if value is old or type(value) is not dict:
            return slow(value, old)
        for part in value.values():
            if type(part) is not str:
                return slow(value, old)
        return old if value and value == old and type(old) is dict else value.copy() or None

    return walk
