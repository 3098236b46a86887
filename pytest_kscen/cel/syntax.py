"""An expression's tree.

`at` is the offset that a mistake in the node is shown at; macros are folds from the start.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expr:
    at: int


@dataclass(frozen=True, slots=True)
class LiteralExpr(Expr):
    value: Any


@dataclass(frozen=True, slots=True)
class IdentExpr(Expr):
    name: str


@dataclass(frozen=True, slots=True)
class SelectExpr(Expr):
    """`operand.field`, `operand.?field`, or has(operand.field)."""

    operand: Expr
    field: str
    test: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class CallExpr(Expr):
    function: str
    target: Expr | None
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ListExpr(Expr):
    """Elements, and the places of those that are left out when their optional is empty."""

    elements: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MapExpr(Expr):
    entries: tuple[tuple[Expr, Expr], ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ComprehensionExpr(Expr):
    """A macro over a list or a map: one step's expression, after a condition if there is one."""

    macro: str
    over: Expr
    variables: tuple[str, ...]
    step: Expr
    condition: Expr | None = None


# Which fields of a variable an expression looks at, so that nobody has to prepare the others.


def paths_read(part: Any, variable: str) -> Iterator[Path]:
    """The way to each place that a tree looks at; () is the variable as a whole."""
    path = _path(part, variable)
    if path is not None:
        yield path
    elif isinstance(part, Expr):
        for field in dataclasses.fields(part):
            yield from paths_read(getattr(part, field.name), variable)
    elif isinstance(part, tuple):
        for each in part:
            yield from paths_read(each, variable)


def _path(part: Any, variable: str) -> Path | None:
    if isinstance(part, SelectExpr):
        above = _path(part.operand, variable)
        return None if above is None else (*above, part.field)
    return () if isinstance(part, IdentExpr) and part.name == variable else None
