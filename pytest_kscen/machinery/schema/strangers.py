"""Unknown fields: found, named by their path, and left out. Only a body that has some comes here."""

from __future__ import annotations

from typing import Any

from pytest_kscen.machinery.recorded.reading import definition
from pytest_kscen.machinery.schema.special import SPECIAL

MOST = 100  # Go's decoder stops telling here


def without_strangers(obj: Any, name: str, told: list[str]) -> Any:
    """The object without what the definition does not know; the paths are told in the order of the document."""
    return _pruned(obj, {"$ref": name}, "", told)


def _pruned(value: Any, schema: dict[str, Any], path: str, told: list[str]) -> Any:
    if isinstance(value, list) and "items" in schema:
        return _same_or(value, [_pruned(part, schema["items"], f"{path}[{place}]", told) for place, part in enumerate(value)])
    if not isinstance(value, dict) or schema.get("$ref") in SPECIAL:
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


def _same_or(value: Any, pruned: Any) -> Any:
    """The very object that came, if nothing was left out: then it may still be the old one's own."""
    if len(value) != len(pruned):
        return pruned
    pairs = zip(value.values(), pruned.values(), strict=True) if isinstance(value, dict) else zip(value, pruned, strict=True)
    return value if all(before is after for before, after in pairs) else pruned
