"""A body that is wrong in several places: of which of them the client is told.

Go's JSON decoder goes on after a value of a wrong type or a text that is no base64, and tells of the first of them only if
nothing worse comes. Its converter, which applied configurations and strategic merge patches go through, stops at the
first fault in the struct's own order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.recorded.reading import definition, protobuf_fields
from pytest_kscen.machinery.schema.mismatch import Illegible, Mismatch, Stranger, Unfit

if TYPE_CHECKING:
    from pytest_kscen.machinery.schema.leaves import Walk

EMBEDDED = "+"
OTHERWISE_NUMBERED = {  # structs whose fields stand in another order than protobuf has them
    "io.k8s.api.core.v1.ConfigMap": ("metadata", "immutable", "data", "binaryData"),
    "io.k8s.api.core.v1.Secret": ("metadata", "immutable", "data", "stringData", "type"),
}


def worst(walk: Walk, body: Any, first: Unfit) -> Unfit:
    """The fault that the decoder tells of."""
    fault: Unfit | None = first
    while isinstance(fault, Mismatch | Illegible) and not fault.is_final:
        body, was_there = _without(body, fault.value)
        fault = _fault(walk, body) if was_there else None
    return fault or first


def foremost(walk: Walk, body: Any, name: str) -> str:
    """The fault that the converter tells of, in its words; empty if there is none."""
    fault = _fault(walk, _in_order(body, {"$ref": name}))
    if isinstance(fault, Mismatch):
        return fault.converted()
    if isinstance(fault, Illegible):
        return f"error decoding from json: {fault}"
    return str(fault or "")


def alphabetical(value: Any) -> Any:
    """As Go's JSON patches write what they have changed."""
    if isinstance(value, dict):
        return {name: alphabetical(value[name]) for name in sorted(value)}
    return [alphabetical(part) for part in value] if isinstance(value, list) else value


def _fault(walk: Walk, body: Any) -> Unfit | None:
    try:
        walk(body, None)
    except Unfit as fault:
        return fault
    except Stranger:
        return None
    return None


def _without(value: Any, culprit: Any) -> tuple[Any, bool]:
    """The value with nothing in the culprit's place."""
    if value is culprit:
        return None, True
    if not isinstance(value, dict | list):
        return value, False
    whole: Any = dict(value) if isinstance(value, dict) else list(value)
    for place, part in whole.items() if isinstance(whole, dict) else enumerate(whole):
        left, was_there = _without(part, culprit)
        if was_there:
            whole[place] = left
            return whole, True
    return value, False


def _in_order(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_in_order(part, schema.get("items", {})) for part in value]
    if not isinstance(value, dict):
        return value
    if "$ref" not in schema:
        inner = schema.get("additionalProperties", {})
        return {name: _in_order(part, inner) for name, part in value.items()}
    properties, places = definition(schema["$ref"]).get("properties", {}), _places(schema["$ref"])
    names = sorted(value, key=lambda name: places.get(name, 0))
    return {name: _in_order(value[name], properties.get(name, {})) for name in names}


def _places(name: str) -> dict[str, int]:
    """Where each field stands in its struct, which is mostly where protobuf has it."""
    if name in OTHERWISE_NUMBERED:
        return {field: place for place, field in enumerate(OTHERWISE_NUMBERED[name], 1)}
    places: dict[str, int] = {}
    for number, field in protobuf_fields(name).items():
        inner = _places(field.removeprefix(EMBEDDED)) if field.startswith(EMBEDDED) else {field: 0}
        places |= dict.fromkeys(inner, int(number))
    return places
