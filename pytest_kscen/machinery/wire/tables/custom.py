"""Columns that a CustomResourceDefinition brings itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.wire.tables.ages import age
from pytest_kscen.machinery.wire.tables.columns import NAME, Column
from pytest_kscen.machinery.wire.tables.jsonpath import found, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.machinery.wire.tables.columns import Cell
    from pytest_kscen.objects.resources import Obj

BY_DEFAULT = ({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},)


def custom_columns(definition: Obj, version: str) -> tuple[Column, ...]:
    """The columns of one version."""
    served: Obj = next((entry for entry in definition["spec"]["versions"] if entry["name"] == version), {})
    given: Sequence[Obj] = served.get("additionalPrinterColumns") or BY_DEFAULT
    return (NAME, *map(_column, given))


def _column(given: Obj) -> Column:
    path = given["jsonPath"]
    return Column(
        given["name"],
        _cell(path, given["type"]),
        given["type"],
        given.get("format", ""),
        wide=bool(given.get("priority")),
        description=given.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
    )


def _cell(path: str, type_: str) -> Cell:
    def cell(obj: Obj, now: float) -> Any:
        values = found(path, obj)
        return _shown(values[0], type_, now) if values else None

    return cell


def _shown(value: Any, type_: str, now: float) -> Any:
    """A value of the column's type, or nothing."""
    if type_ == "string":
        return shown(value)
    if type_ == "date":
        return _dated(value, now)
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if type_ == "integer" else value


def _dated(value: Any, now: float) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return age(value, now)
    except ValueError:
        return "<invalid>"
