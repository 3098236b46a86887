"""Which fields of a variable an expression looks at, so that nobody has to prepare the others."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.syntax import Ident, Node, Select

if TYPE_CHECKING:
    from collections.abc import Iterator

    Path = tuple[str, ...]


def paths_read(part: Any, variable: str) -> Iterator[Path]:
    """The way to each place that a tree looks at; () is the variable as a whole."""
    path = _path(part, variable)
    if path is not None:
        yield path
    elif isinstance(part, Node):
        for field in dataclasses.fields(part):
            yield from paths_read(getattr(part, field.name), variable)
    elif isinstance(part, tuple):
        for each in part:
            yield from paths_read(each, variable)


def _path(part: Any, variable: str) -> Path | None:
    if isinstance(part, Select):
        above = _path(part.operand, variable)
        return None if above is None else (*above, part.field)
    return () if isinstance(part, Ident) and part.name == variable else None
