"""Whether a schema may stand in a definition. What was found of one schema is remembered: tests define the same kinds again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.machinery.crds.defaults import default_faults
from pytest_kscen.machinery.crds.expressions import expression_faults
from pytest_kscen.machinery.crds.openapi import openapi_faults
from pytest_kscen.machinery.crds.structure import structural_faults
from pytest_kscen.machinery.schema.formats import known_format
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.objects.resources import Obj

INEXPRESSIBLE = ("is not supported", "items must be a schema object and not an array")  # no structure can be judged then
REMEMBERED = 256
AT_ROOT = {
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength"),
    *("minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items", "properties"),
    *("externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
}
GO_NAMES = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems "
    "MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]"
)
_remembered: OrderedDict[tuple[bytes, str], tuple[Any, ...]] = OrderedDict()


def schema_faults(schema: Obj, path: str, *, has_status: bool) -> tuple[Cause, ...]:
    return _once(schema, f"{path} {has_status}", lambda: _faults(schema, path, has_status=has_status))


def unknown_formats(schema: Obj) -> tuple[str, ...]:
    """Formats that mean nothing here, as often as they are asked for."""
    return _once(schema, "formats", lambda: _formats(schema))


def _once(schema: Obj, question: str, answer: Callable[[], Iterable[Any]]) -> tuple[Any, ...]:
    key = orjson.dumps(schema), question
    if key not in _remembered:
        _remembered[key] = tuple(answer())
        if len(_remembered) > REMEMBERED:
            _remembered.popitem(last=False)
    return _remembered[key]


def _formats(schema: Obj) -> Iterator[str]:
    form = schema.get("format", "")
    if form and not known_format(schema.get("type", ""), form):
        yield form
    for name in ("items", "not", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _formats(schema[name])
    for name in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(name) or ():
            yield from _formats(inner)
    for inner in (schema.get("properties") or NOTHING).values():
        yield from _formats(inner)


def _faults(schema: Obj, path: str, *, has_status: bool) -> list[Cause]:
    causes: list[Cause] = []
    if has_status:
        if schema.get("type") != "object":
            why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            causes.append(Cause.invalid(f"{path}.type", schema.get("type", ""), why))
        elif not {*schema} <= AT_ROOT:
            why = f"only {GO_NAMES} fields are allowed at the root of the schema if the status subresource is enabled"
            causes.append(Cause.invalid(path, schema, why))
    if schema.get("nullable"):
        causes.append(Cause.forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    said = list(openapi_faults(schema, path))
    if not any(cause.message.endswith(INEXPRESSIBLE) for cause in said):
        causes += structural_faults(schema, path) or default_faults(schema, path)
    return [*causes, *said] or list(expression_faults(schema, path))
