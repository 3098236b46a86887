"""Columns and shared cells: texts, numbers, counts, ages, selectors and shortened lists.

Used by the modules of columns; every cell takes an object and the current time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.resources import Obj
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from collections.abc import Sequence


MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY


def age(timestamp: str, now: float) -> str:
    return duration(now - epoch_of(timestamp))


def duration(seconds: float) -> str:
    """Return seconds in kubectl's short form, such as 3d4h; a time over 1 s ahead is invalid."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    for below, unit, part in STEPS:
        if whole < below:
            rest = whole % unit // part if part else 0
            return f"{whole // unit}{LETTERS[unit]}" + (f"{rest}{LETTERS[part]}" if rest else "")
    return f"{whole // YEAR}y"


STEPS = (
    (2 * MINUTE, 1, 0),
    (10 * MINUTE, MINUTE, 1),
    (3 * HOUR, MINUTE, 0),
    (8 * HOUR, HOUR, MINUTE),
    (2 * DAY, HOUR, 0),
    (8 * DAY, DAY, HOUR),
    (2 * YEAR, DAY, 0),
    (8 * YEAR, YEAR, DAY),
)
LETTERS = {1: "s", MINUTE: "m", HOUR: "h", DAY: "d", YEAR: "y"}


Cell: TypeAlias = Callable[[Obj, float], Any]
"""Function from an object and the current time to the value shown."""

NONE, UNSET = "<none>", "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table: name, cell function and OpenAPI type; a wide one is shown with
    `-o wide`.
    """

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
    """Return a cell with the value at a path, or the default if it is missing or empty."""

    def cell(obj: Obj, _: float) -> Any:
        return field_at(obj, path) or default

    return cell


def present(path: str, default: Any = "") -> Cell:
    """Return a cell with the value at a path, including false and zero."""

    def cell(obj: Obj, _: float) -> Any:
        found = field_at(obj, path)
        return default if found is None else found

    return cell


def number(path: str) -> Cell:
    return present(path, 0)


def flag(path: str, *, default: bool = False) -> Cell:
    return present(path, default)


def count(*paths: str) -> Cell:
    """Return a cell with the total number of entries at these paths."""

    def cell(obj: Obj, _: float) -> int:
        return sum(len(field_at(obj, path) or ()) for path in paths)

    return cell


def joined(path: str, default: str = "") -> Cell:
    def cell(obj: Obj, _: float) -> str:
        return ",".join(field_at(obj, path) or ()) or default

    return cell


def since(path: str, default: str = "<unknown>") -> Cell:
    """Return a cell with the time since the instant at a path."""

    def cell(obj: Obj, now: float) -> str:
        found = field_at(obj, path)
        return age(found, now) if found else default

    return cell


def object_cell(function: Callable[[Obj], Any]) -> Cell:
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
PLAIN_COLUMNS = (NAME, CREATED_AT)


def named_default(annotation: str) -> Column:
    def cell(obj: Obj, _: float) -> str:
        metadata = obj["metadata"]
        is_default = (metadata.get("annotations") or {}).get(annotation) == "true"
        return str(metadata["name"]) + " (default)" * is_default

    return Column("Name", cell, format="name")


SHOWN_ENTRIES = 3  # entries shown of a longer list
MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def containers(path: str = "spec.template.spec.containers") -> tuple[Column, Column]:
    """Return columns with the names and images of a workload's containers."""
    return wide("Containers", _each(path, "name")), wide("Images", _each(path, "image"))


def _each(path: str, name: str) -> Cell:
    def cell(obj: Obj, _: float) -> str:
        return ",".join(container.get(name, "") for container in field_at(obj, path) or ())

    return cell


def labels(path: str) -> Cell:
    """Return a cell with a map of labels in selector notation."""

    def cell(obj: Obj, _: float) -> str:
        found = field_at(obj, path) or {}
        return ",".join(f"{name}={value}" for name, value in sorted(found.items())) or NONE

    return cell


def selector(path: str = "spec.selector", default: str = NONE) -> Cell:
    def cell(obj: Obj, _: float) -> str:
        found = field_at(obj, path)
        return (selector_line(found) if found else "") or default

    return cell


def selector_line(selector: Obj) -> str:
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for part in selector.get("matchExpressions") or ():
        key, values = part["key"], ",".join(sorted(part.get("values") or ()))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append((key, forms.get(part["operator"], "<error>")))
    return ",".join(written for _, written in sorted(parts, key=lambda part: part[0]))


def truncated(entries: Sequence[str]) -> str:
    """Return the first entries of a list, and the number of the others."""
    shown = ",".join(entries[:SHOWN_ENTRIES])
    return (
        f"{shown} + {len(entries) - SHOWN_ENTRIES} more..."
        if len(entries) > SHOWN_ENTRIES
        else shown
    )


def access_modes(path: str) -> Cell:
    def cell(obj: Obj, _: float) -> str:
        found = field_at(obj, path) or ()
        return ",".join(short for mode, short in MODES.items() if mode in found)

    return cell


def load_balancer(obj: Obj) -> str:
    ingress = field_at(obj, "status.loadBalancer.ingress") or ()
    return ",".join(
        sorted({entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""})
    )


def condition(obj: Obj, type_: str) -> Any:
    found = field_at(obj, "status.conditions") or ()
    return next((condition for condition in found if condition.get("type") == type_), {})
