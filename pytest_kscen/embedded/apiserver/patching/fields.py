"""Sets of fields in the form of managedFields: `{"f:spec": {".": {}, "f:replicas": {}}}`.

Each path element maps to the set below it. `{}` is a member with nothing below, `.` marks a member
that has more below; an element with neither is only passed through. Sets are shared and must never
be changed, except by `insert` while a set is built.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.objects.resources import Obj

    Fields = Obj

SELF: Final = "."
MEMBER: Final[dict[str, Any]] = {SELF: {}}


def _explicit(node: Fields) -> Fields:
    return node or MEMBER


def _compact(node: Fields) -> Fields:
    return {} if len(node) == 1 and SELF in node else node


def union(one: Fields, other: Fields) -> Fields:
    """Return the union of two sets; the first itself if the second adds nothing.

    Identity lets callers detect that nothing changed without a comparison.
    """
    if not one or one is other:
        return other
    added: Fields = {}
    for element, second in other.items():
        first = one.get(element)
        if first is None:
            added[element] = second
        elif first is not second and element != SELF:
            both = union(_explicit(first), _explicit(second))
            if both is not first and (first or both is not MEMBER):
                added[element] = _compact(both)
    return {**one, **added} if added else one


def difference(one: Fields, other: Fields) -> Fields:
    """Return the first set without the second's members, but with the fields below them.

    Returns the first set itself if nothing is removed.
    """
    removed = [element for element in other if element in one]
    if not removed:
        return one
    rest = dict(one)
    for element in removed:
        first = one[element]
        left = difference(_explicit(first), _explicit(other[element])) if element != SELF else None
        if not left:
            del rest[element]
        elif left is not first:
            rest[element] = _compact(left)
    return (
        rest
        if len(rest) < len(one) or any(rest[element] is not one[element] for element in removed)
        else one
    )


def without_subtrees(one: Fields, other: Fields) -> Fields:
    """Return the first set without the second's members and everything below them."""
    if not any(element in one for element in other):
        return one
    rest = {}
    for element, first in one.items():
        second = other.get(element)
        if second is None:
            rest[element] = first
        elif second and SELF not in second and (left := without_subtrees(_explicit(first), second)):
            rest[element] = _compact(left)
    return rest


def intersection(one: Fields, other: Fields) -> Fields:
    both: Fields = {}
    for element, first in one.items():
        second = other.get(element)
        if second is None:
            continue
        if element == SELF:
            both[SELF] = {}
        elif common := intersection(_explicit(first), _explicit(second)):
            both[element] = _compact(common)
    return both


def insert(fields: Fields, path: Sequence[str]) -> None:
    """Add a path to a set that is still being built."""
    for element in path[:-1]:
        below = fields.get(element)
        if below is None:
            below = fields[element] = {}
        elif not below:
            below[SELF] = {}
        fields = below
    member = fields.setdefault(path[-1], {})
    if member:
        member[SELF] = {}


def set_of(*paths: Sequence[str]) -> Fields:
    fields: Fields = {}
    for path in paths:
        insert(fields, path)
    return fields


def has(fields: Fields, path: Sequence[str]) -> bool:
    for element in path:
        if element not in fields:
            return False
        fields = fields[element]
    return not fields or SELF in fields


def paths(fields: Fields, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every member, those of one level before those below."""
    elements = sorted((element for element in fields if element != SELF), key=rank)
    yield from (
        (*prefix, element) for element in elements if not fields[element] or SELF in fields[element]
    )
    for element in elements:
        yield from paths(fields[element], (*prefix, element))


def ordered(fields: Fields) -> Fields:
    """Return the same set in the order in which Kubernetes writes it; see `rank`."""
    elements = sorted(fields, key=rank) if len(fields) > 1 else fields
    return {
        element: ordered(below) if (below := fields[element]) else below for element in elements
    }


@lru_cache(maxsize=512)
def rank(element: str) -> tuple[Any, ...]:
    """Return the sort key of an element: names, then keys, then values, then indices."""
    kind, rest = element[:1], element[2:]
    match kind:
        case "k":
            return (2, [(name, *_value_rank(value)) for name, value in orjson.loads(rest).items()])
        case "v":
            return (3, _value_rank(orjson.loads(rest)))
        case "i":
            return (4, int(rest))
        case _:
            return (int(kind != SELF), rest)


def _value_rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, str):
        return (1, value)
    if value is None:
        return (3, 0)
    return (2, value) if isinstance(value, bool) else (0, value)


def path_text(path: Sequence[str]) -> str:
    """Return a path in the notation of messages: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    kind, rest = element[0], element[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        return (
            "["
            + ",".join(f"{name}={_text(value)}" for name, value in orjson.loads(rest).items())
            + "]"
        )
    return f"[={_text(orjson.loads(rest))}]" if kind == "v" else f"[{rest}]"


def _text(value: Any) -> str:
    if isinstance(value, dict):  # Go's notation: no brackets and no separators
        return "".join(f"{name}={_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return orjson.dumps(value).decode()
