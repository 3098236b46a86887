"""Nodes of an expression's tree, named as in cel-go.

`at` is the source offset at which an issue of the node is shown. Macros are comprehensions from the
start.
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
    """List literal; `optional` holds the indexes of `?` elements, which are left out when empty."""

    elements: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MapExpr(Expr):
    entries: tuple[tuple[Expr, Expr], ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ComprehensionExpr(Expr):
    """Macro over a list, map or optional: a step per element, after a condition if there is one.

    `macro` is the name in the source, with aliases resolved; `variables` are one or two names.
    """

    macro: str
    over: Expr
    variables: tuple[str, ...]
    step: Expr
    condition: Expr | None = None


def paths_read(part: Any, variable: str) -> Iterator[Path]:
    """Yield the field paths of a variable that a tree reads; () means the whole variable.

    Callers prepare only these parts of the variable.
    """
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
