"""CEL's types: names with parameters, and structs with fields.

A single capital letter is a type variable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class UInt(int):
    """Unsigned integer, which CEL never mixes with signed ones.

    A subclass of int, so that Python's operators work on it; results must be wrapped again.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Type:
    """Type with its parameters, such as list(int); `fields` makes it a struct.

    Types are equal if names and parameters are; fields do not count.
    """

    name: str
    parameters: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = field(default=None, compare=False, hash=False)

    def __str__(self) -> str:
        shown = "optional_type" if self.name == "optional" else self.name
        return f"{shown}({', '.join(map(str, self.parameters))})" if self.parameters else shown

    @property
    def is_variable(self) -> bool:
        return len(self.name) == 1 and self.name.isupper()


DYN, NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES = (
    Type(name) for name in ("dyn", "null", "bool", "int", "uint", "double", "string", "bytes")
)
TIMESTAMP, DURATION, ERROR = Type("timestamp"), Type("duration"), Type("!error!")
NULLABLE = {"timestamp", "duration", "optional", "dyn"}


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(inner: Type) -> Type:
    return Type("optional", (inner,))


@cache
def parse_type(text: str) -> Type:
    match = re.fullmatch(r"([\w.]+)(?:\((.*)\))?", text.strip())
    assert match, text
    parts, depth = [""], 0
    for letter in match[2] or "":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return Type(match[1], tuple(parse_type(part) for part in parts if part.strip()))


def is_assignable(wanted: Type, given: Type, bound: dict[str, Type]) -> bool:
    """Return True if a value of type `given` may be used as `wanted`.

    Type variables of `wanted` are bound in `bound`, also when the result is False. dyn and error
    types fit everything, null fits optionals and messages.
    """
    if wanted.is_variable:
        letter = wanted.name
        known = bound.get(letter)
        if known is None:
            bound[letter] = given
        elif given == DYN or is_assignable(known, given, {}):
            pass
        elif is_assignable(given, known, {}):
            bound[letter] = given
        else:
            return False
        return True
    if DYN in (wanted, given) or ERROR in (wanted, given):
        return True
    if NULL in (wanted, given):
        return wanted == given or any(
            each.fields is not None or each.name in NULLABLE for each in (wanted, given)
        )
    if wanted.name != given.name or len(wanted.parameters) != len(given.parameters):
        return False
    return all(
        is_assignable(one, other, bound)
        for one, other in zip(wanted.parameters, given.parameters, strict=True)
    )


def substitute(type_: Type, bound: Mapping[str, Type]) -> Type:
    """Return the type with its variables replaced; unbound ones become dyn."""
    if type_.is_variable:
        return bound.get(type_.name, DYN)
    if not type_.parameters:
        return type_
    return Type(
        type_.name, tuple(substitute(part, bound) for part in type_.parameters), type_.fields
    )


def common_type(one: Type, other: Type) -> Type | None:
    """Return the type of a value that has either type, or None if there is none."""
    if one == other:
        return one
    if is_assignable(one, other, {}):
        return DYN if other == DYN else one
    return other if is_assignable(other, one, {}) else None
