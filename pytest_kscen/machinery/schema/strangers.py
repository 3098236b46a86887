"""Unknown fields: found, named by their path, and left out. Only a body that has some comes here."""

from __future__ import annotations

from typing import Any

from pytest_kscen.machinery.recorded.reading import definition
from pytest_kscen.machinery.schema.compiling import UNIONS
from pytest_kscen.machinery.schema.special import SPECIAL
from pytest_kscen.machinery.schema.structural import EMBEDDED, NO_SCHEMA, OBJECT_META, PRESERVE, TYPE_META, member_schema

Schema = dict[str, Any]
ENDS = {*SPECIAL, *UNIONS}  # types that are not looked into
HEAD = (*TYPE_META, "metadata")
MOST = 100  # Go's decoder stops telling here


def without_strangers(obj: Any, name: str, told: list[str]) -> Any:
    """The object without what the definition does not know; the paths are told in the order of the document."""
    return _pruned(obj, {"$ref": name}, "", told)


def _pruned(value: Any, schema: dict[str, Any], path: str, told: list[str]) -> Any:
    if isinstance(value, list) and "items" in schema:
        return _same_or(value, [_pruned(part, schema["items"], f"{path}[{place}]", told) for place, part in enumerate(value)])
    if not isinstance(value, dict) or schema.get("$ref") in ENDS:
        return value
    if "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        return _same_or(value, {name: _pruned(part, inner, f"{path}.{name}", told) for name, part in value.items()})
    if "$ref" not in schema:
        return value
    properties, kept = definition(schema["$ref"]).get("properties", {}), {}
    for name, part in value.items():
        if name in properties:
            kept[name] = _pruned(part, properties[name], f"{path}.{name}" if path else name, told)
        elif len(told) < MOST:
            told.append(f"{path}.{name}" if path else name)
    return _same_or(value, kept)


def without_custom_strangers(obj: Any, schema: dict[str, Any], told: list[str]) -> Any:
    """The same for a custom object: first those in its metadata, then those that its schema does not know, sorted."""
    metadata = without_strangers(obj.get("metadata"), OBJECT_META, told)
    told[:] = [f"metadata.{path}" for path in told]
    found: list[str] = []
    in_embedded: list[str] = []
    rest = {name: part for name, part in obj.items() if name not in HEAD}
    known = _pruned_custom(rest, schema, "", found, in_embedded, kept=False)
    told += [*sorted(found), *sorted(in_embedded)]
    head = {name: obj[name] for name in HEAD if name in obj}
    return {**head, **({"metadata": metadata} if "metadata" in obj else {}), **known}


def _pruned_custom(value: Any, schema: Schema, path: str, told: list[str], in_embedded: list[str], *, kept: bool) -> Any:
    kept = kept or bool(schema.get(PRESERVE))
    if isinstance(value, list):
        items = schema.get("items", NO_SCHEMA)
        parts = enumerate(value)
        return _same_or(
            value, [_pruned_custom(part, items, f"{path}[{place}]", told, in_embedded, kept=kept) for place, part in parts]
        )
    if not isinstance(value, dict):
        return value
    left: dict[str, Any] = {}
    for name, part in value.items():
        below = f"{path}.{name}" if path else name
        inner = member_schema(schema, name)
        if schema.get(EMBEDDED) and name in HEAD:
            left[name] = _embedded_head(name, part, below, in_embedded)
        elif inner is not None:
            left[name] = _pruned_custom(part, inner, below, told, in_embedded, kept=False)
        elif kept:
            left[name] = part
        else:
            told.append(below)
    return _same_or(value, left)


def _embedded_head(name: str, part: Any, path: str, told: list[str]) -> Any:
    if name != "metadata":
        return part
    found: list[str] = []
    metadata = without_strangers(part, OBJECT_META, found)
    told += [f"{path}.{stranger}" for stranger in found]
    return metadata


def _same_or(value: Any, pruned: Any) -> Any:
    """The very object that came, if nothing was left out: then it may still be the old one's own."""
    if len(value) != len(pruned):
        return pruned
    pairs = zip(value.values(), pruned.values(), strict=True) if isinstance(value, dict) else zip(value, pruned, strict=True)
    return value if all(before is after for before, after in pairs) else pruned
