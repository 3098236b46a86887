"""What a version of a definition brings beside its name: schema, subresources, columns, selectable fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.crds.schemas import schema_faults
from pytest_kscen.machinery.schema.fieldpaths import BadPath, schema_at
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.resources import Obj

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
MOST_SELECTABLE = 8
SELECTABLE = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."


def part_faults(own: Obj, version: Obj, path: str, schema_name: str, *, has_status: bool) -> Iterator[Cause]:
    """The schema, subresources, columns and selectable fields, as far as they are to be judged here."""
    schema = (own.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        yield from schema_faults(schema, f"{path}.{schema_name}.openAPIV3Schema", has_status=has_status)
    if scale := (own.get("subresources") or {}).get("scale"):
        yield from _scale(scale, f"{path}.subresources.scale")
    for place, column in enumerate(own.get("additionalPrinterColumns") or ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{place}]")
    if own.get("selectableFields"):
        whole = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        yield from _selectable(own["selectableFields"], whole, f"{path}.selectableFields")


def _scale(scale: Obj, path: str) -> Iterator[Cause]:
    for name, roots in (("specReplicasPath", (".spec.",)), ("statusReplicasPath", (".status.",))):
        if given := scale.get(name, ""):
            yield from _rooted(f"{path}.{name}", given, roots, f"should be a json path under {roots[0].rstrip('.')}")
        else:
            yield Cause.required(f"{path}.{name}")
    if given := scale.get("labelSelectorPath"):
        why = "should be a json path under either .spec or .status"
        yield from _rooted(f"{path}.labelSelectorPath", given, (".spec.", ".status."), why)


def _rooted(field: str, given: str, roots: tuple[str, ...], why: str) -> Iterator[Cause]:
    if not given.startswith("."):
        yield Cause.invalid(field, given, "must be a simple json path starting with .")
    elif not given.startswith(roots):
        yield Cause.invalid(field, given, why)


def _column(column: Obj, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield Cause.required(f"{path}.name")
    given, why = column.get("type", ""), f"must be one of {','.join(COLUMN_TYPES)}"
    if given not in COLUMN_TYPES:
        yield Cause.invalid(f"{path}.type", given, why) if given else Cause.required(f"{path}.type", why)
    form = column.get("format", "")
    if form and form not in COLUMN_FORMATS:
        yield Cause.invalid(f"{path}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}")
    where = column.get("jsonPath", "")
    if not where:
        yield Cause.required(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield Cause.invalid(f"{path}.JSONPath", where, "must be a simple json path starting with .")


def _selectable(fields: list[Obj], schema: Obj, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for place, given in enumerate(fields):
        where, field = given.get("jsonPath", ""), f"{path}[{place}].jsonPath"
        if not where:
            yield Cause.required(field)
            continue
        try:
            written, found = schema_at(where, schema, by_key=False)
        except BadPath as mistake:
            yield Cause.invalid(field, where, f"is an invalid path: {mistake}")
            continue
        if written.partition(".")[0] == "metadata":
            yield Cause.invalid(field, where, "must not point to fields in metadata")
        if found.get("type") not in {"string", "boolean", "integer"}:
            yield Cause.invalid(field, where, SELECTABLE)
        if written in seen:
            yield Cause.duplicate(field, where)
        seen.add(written)
    if len(seen) > MOST_SELECTABLE:
        yield Cause.too_many(path, len(seen), MOST_SELECTABLE)
