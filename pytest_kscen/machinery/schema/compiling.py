"""From recorded definitions to walks: once in a process for each definition, when a value first reaches it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.recorded.reading import definition
from pytest_kscen.machinery.schema import leaves
from pytest_kscen.machinery.schema.containers import listing, mapping, struct, texts, texts_by_name
from pytest_kscen.machinery.schema.special import META, SPECIAL, SPECIAL_ZEROS
from pytest_kscen.machinery.schema.unions import unions

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.machinery.schema.containers import Members
    from pytest_kscen.machinery.schema.leaves import Walk

OWNERS = f"{META}.ManagedFieldsEntry"  # no entries at all ask for the record to be cleared
SCALARS: dict[tuple[str, str], tuple[str, Callable[..., Walk], Any]] = {
    ("string", ""): ("string", leaves.text, ""),
    ("string", "byte"): ("[]uint8", leaves.octets, ""),
    ("integer", "int32"): ("int32", lambda go_type, *, keep: leaves.integer(go_type, 32, keep=keep), 0),
    ("integer", "int64"): ("int64", lambda go_type, *, keep: leaves.integer(go_type, 64, keep=keep), 0),
    ("boolean", ""): ("bool", leaves.boolean, False),
    ("number", "double"): ("float64", leaves.number, 0),
}


@cache
def walk_of(name: str) -> Walk:
    """The walk of a definition."""
    if name in SPECIAL:
        return SPECIAL[name]
    if name in UNIONS:
        return UNIONS[name]

    def load(members: Members) -> None:
        for field, schema in definition(name).get("properties", {}).items():
            members.fields[field] = _field(schema)
            if "x-go-path" in schema:
                members.labels[field] = schema["x-go-path"]
            if ("default" in schema and "x-go-omitted" not in schema) or "x-go-zero" in schema:
                members.fillings.append((field, _filling(schema)))

    return struct(name.rpartition(".")[2], go_type({"$ref": name}), load)


UNIONS = unions(walk_of)


def _field(schema: dict[str, Any]) -> Walk:
    """A struct's field: its zero value is nothing, unless Go has a pointer there."""
    return _walk(schema, keep=schema.get("x-go-pointer", False))


def _walk(schema: dict[str, Any], *, keep: bool) -> Walk:
    if "$ref" in schema:
        return walk_of(schema["$ref"])
    if schema["type"] == "array":
        inner = schema["items"]
        walk = listing(go_type(schema), _walk(inner, keep=True), zero_of(inner), keep=inner.get("$ref") == OWNERS)
        return texts(walk) if _is_text(inner) else walk
    if schema["type"] == "object":
        inner = schema["additionalProperties"]
        slow = mapping(go_type(schema), _walk(inner, keep=True), zero_of(inner))
        return texts_by_name(slow) if _is_text(inner) else slow
    go, make, _ = SCALARS[schema["type"], schema.get("format", "")]
    return make(schema.get("x-go-type", go), keep=keep)


def _is_text(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "string" and "format" not in schema


def zero_of(schema: dict[str, Any]) -> Callable[[], Any]:
    """What null stands for in a list or a map."""
    if "$ref" in schema:
        walk = walk_of(schema["$ref"])
        return SPECIAL_ZEROS.get(schema["$ref"], lambda: walk({}, None))
    if schema["type"] in {"array", "object"}:
        return lambda: None
    zero = SCALARS[schema["type"], schema.get("format", "")][2]
    return lambda: zero


def _filling(schema: dict[str, Any]) -> Callable[[], Any]:
    """What is printed of an absent field: its default, or what Go cannot leave out."""
    default = schema.get("x-go-zero", schema.get("default"))
    if isinstance(default, dict):
        walk = _walk(schema, keep=True)
        return lambda: walk(default, None)
    return lambda: default


def go_type(schema: dict[str, Any]) -> str:
    """How Go names the type."""
    if "x-go-type" in schema:
        return str(schema["x-go-type"])
    if "$ref" in schema:
        return ".".join(schema["$ref"].split(".")[-2:])
    if schema["type"] == "array":
        return "[]" + go_type(schema["items"])
    if schema["type"] == "object":
        return "map[string]" + go_type(schema["additionalProperties"])
    return SCALARS[schema["type"], schema.get("format", "")][0]
