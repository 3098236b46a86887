"""Columns, and the cells that many of them share: a text, a number, a count, an age."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pytest_kscen.machinery.wire.tables.ages import age
from pytest_kscen.objects.resources import Obj
from pytest_kscen.objects.selectors import field_at

Cell: TypeAlias = Callable[[Obj, float], Any]
"""From an object, and the instant at which it is looked at, to what is shown."""

NONE, UNSET = "<none>", "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. A wide one is shown when asked for (`-o wide`)."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    wide: bool = False
    description: str = ""

    def definition(self) -> Obj:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": int(self.wide),
        }


def text(path: str, default: Any = "") -> Cell:
    """What stands at a path; the default for what is not there or empty."""

    def cell(obj: Obj, _: float) -> Any:
        return field_at(obj, path) or default

    return cell


def present(path: str, default: Any = "") -> Cell:
    """What stands at a path, even if it is false or zero."""

    def cell(obj: Obj, _: float) -> Any:
        found = field_at(obj, path)
        return default if found is None else found

    return cell


def number(path: str) -> Cell:
    return present(path, 0)


def flag(path: str, *, default: bool = False) -> Cell:
    return present(path, default)


def count(*paths: str) -> Cell:
    """How many there are at these paths together."""

    def cell(obj: Obj, _: float) -> int:
        return sum(len(field_at(obj, path) or ()) for path in paths)

    return cell


def joined(path: str, default: str = "") -> Cell:
    def cell(obj: Obj, _: float) -> str:
        return ",".join(field_at(obj, path) or ()) or default

    return cell


def since(path: str, default: str = "<unknown>") -> Cell:
    """How long ago an instant was."""

    def cell(obj: Obj, now: float) -> str:
        found = field_at(obj, path)
        return age(found, now) if found else default

    return cell


def whole(function: Callable[[Obj], Any]) -> Cell:
    """A cell that needs no time."""

    def cell(obj: Obj, _: float) -> Any:
        return function(obj)

    return cell


def wide(name: str, cell: Cell) -> Column:
    return Column(name, cell, wide=True)


def integer(name: str, cell: Cell) -> Column:
    return Column(name, cell, "integer")


def boolean(name: str, cell: Cell) -> Column:
    return Column(name, cell, "boolean")


NAME = Column("Name", text("metadata.name"), format="name")
AGE = Column("Age", since("metadata.creationTimestamp"))
CREATED_AT = Column("Created At", text("metadata.creationTimestamp"), "date")
PLAIN = (NAME, CREATED_AT)


def named_default(annotation: str) -> Column:
    """A name that tells whether its class is the default."""

    def cell(obj: Obj, _: float) -> str:
        metadata = obj["metadata"]
        is_default = (metadata.get("annotations") or {}).get(annotation) == "true"
        return str(metadata["name"]) + " (default)" * is_default

    return Column("Name", cell, format="name")
