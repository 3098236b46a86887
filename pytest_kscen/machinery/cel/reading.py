"""Which fields of a variable an expression looks at, so that nobody has to prepare the others."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.cel.syntax import Ident, Node, Select

if TYPE_CHECKING:
    from collections.abc import Iterator


def fields_read(tree: Node, variable: str) -> frozenset[str] | None:
    """None if it looks at the variable as a whole."""
    fields = set(_fields(tree, variable))
    return None if None in fields else frozenset(field for field in fields if field)


def _fields(part: Any, variable: str) -> Iterator[str | None]:
    if isinstance(part, Select) and isinstance(part.operand, Ident) and part.operand.name == variable:
        yield part.field
    elif isinstance(part, Ident):
        if part.name == variable:
            yield None
    elif isinstance(part, Node):
        for field in dataclasses.fields(part):
            yield from _fields(getattr(part, field.name), variable)
    elif isinstance(part, tuple):
        for each in part:
            yield from _fields(each, variable)
