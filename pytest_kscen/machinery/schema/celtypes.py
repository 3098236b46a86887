"""A structural schema seen by CEL: what types its values have there, and how JSON becomes such values."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from pytest_kscen.cel.functions.times import duration, timestamp
from pytest_kscen.cel.mistakes import EvaluationError
from pytest_kscen.cel.parsing import RESERVED
from pytest_kscen.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of
from pytest_kscen.cel.values import MapList, SetList
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.machinery.schema.structural import EMBEDDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj

    Convert = Callable[[Any], Any]

FORMATS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
SCALARS = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
SPELLABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_./-]*")
KEYWORDS = RESERVED | {"true", "false", "null", "in"}
HEAD: Obj = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}},
}


def with_head(schema: Obj) -> Obj:
    """A resource's schema with what every resource has."""
    properties = schema.get("properties") or NOTHING
    head = {**HEAD, "metadata": (properties.get("metadata", {}).get("properties") and properties["metadata"]) or HEAD["metadata"]}
    return {**schema, "properties": {**properties, **head}}


def type_by(schema: Obj, name: str = "selfType", *, is_root: bool = False) -> Type | None:
    """The type of a schema's values; nothing for those that CEL does not see."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    if is_root or schema.get(EMBEDDED):
        schema = with_head(schema)
    kind = schema.get("type", "")
    if kind == "array":
        element = type_by(schema.get("items") or NOTHING, f"{name}.@idx")
        return list_of(element) if element else None
    if kind == "object":
        return _object(schema, name)
    if kind == "string":
        return FORMATS.get(schema.get("format", ""), STRING)
    return SCALARS.get(kind)


def _object(schema: Obj, name: str) -> Type | None:
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        value = type_by(more, f"{name}.@elem")
        return map_of(STRING, value) if value else None
    fields: dict[str, Type] = {}
    for field, inner in (schema.get("properties") or NOTHING).items():
        spelled, found = escaped(field), type_by(inner, f"{name}.{field}")
        if spelled and found:
            fields[spelled] = fields[field] = found
    return Type(name, (), fields)


def escaped(name: str) -> str:
    """A field's name as CEL spells it; empty if it cannot."""
    if name in KEYWORDS:
        return f"__{name}__"
    if not SPELLABLE.fullmatch(name):
        return ""
    return name.replace("__", "__underscores__").replace(".", "__dot__").replace("-", "__dash__").replace("/", "__slash__")


def conversion_by(schema: Obj) -> Convert | None:
    """What makes CEL's values of JSON, where those differ; nothing where they are the same."""
    if schema.get("x-kubernetes-int-or-string"):
        return None
    kind = schema.get("type", "")
    if kind == "array":
        return _of_lists(schema)
    if kind == "object":
        return _of_objects(schema)
    if kind == "string":
        return TEXTS.get(schema.get("format", ""))
    return _number if kind == "number" else None


def _number(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _octets(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return value


def _read(read: Callable[[str], Any], suffix: str = "") -> Convert:
    def convert(value: Any) -> Any:
        try:
            return read(value + suffix) if isinstance(value, str) else value
        except EvaluationError:
            return value

    return convert


TEXTS: dict[str, Convert] = {
    "byte": _octets,
    "duration": _read(duration),
    "date": _read(timestamp, "T00:00:00Z"),
    "date-time": _read(timestamp),
}


def _of_lists(schema: Obj) -> Convert | None:
    element, kind = conversion_by(schema.get("items") or NOTHING), schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if element is None and kind not in {"set", "map"}:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        parts = [element(part) for part in value] if element else value
        if kind == "set":
            return SetList(parts)
        if kind == "map":
            keyed = MapList(parts)
            keyed.keys = keys
            return keyed
        return parts

    return convert


def _of_objects(schema: Obj) -> Convert | None:
    properties = schema.get("properties") or NOTHING
    fields = {name: found for name, inner in properties.items() if (found := conversion_by(inner))}
    more = schema.get("additionalProperties")
    others = conversion_by(more) if isinstance(more, dict) else None
    if not fields and others is None:
        return None

    def converted(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        converters = ((name, part, fields.get(name, None if name in properties else others)) for name, part in value.items())
        return {name: convert(part) if convert else part for name, part, convert in converters}

    return converted
