"""The schema of a built-in kind: decoding as Go's JSON does.

What else can be wrong is for the kind's rules to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.recorded import definition, definition_of, protobuf_fields
from pytest_kscen.embedded.apiserver.schema.compiling import decoder_of, prune_unknown_fields
from pytest_kscen.embedded.apiserver.schema.decode_errors import (
    DecodeError,
    InvalidBase64,
    TypeMismatch,
    Undecodable,
    UnknownField,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.apiserver.schema.scalars import Walk
    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.resources import Obj, Resource


# A body that is wrong in several places: of which of them the client is told. Go's JSON decoder
# goes on after a value of a wrong type or a text that is no base64, and tells of the first of
# them only if nothing worse comes. Its converter, which applied configurations and strategic
# merge patches go through, stops at the first fault in the struct's own order.


EMBEDDED_PREFIX = "+"
FIELD_ORDER_OVERRIDES = {  # structs whose fields stand in another order than protobuf has them
    "io.k8s.api.core.v1.ConfigMap": ("metadata", "immutable", "data", "binaryData"),
    "io.k8s.api.core.v1.Secret": ("metadata", "immutable", "data", "stringData", "type"),
}


def reported_error(walk: Walk, body: Any, first: DecodeError) -> DecodeError:
    """The fault that the decoder tells of."""
    fault: DecodeError | None = first
    while isinstance(fault, TypeMismatch | InvalidBase64) and not fault.is_final:
        body, was_there = _without_value(body, fault.value)
        fault = _first_error(walk, body) if was_there else None
    return fault or first


def converter_error(walk: Walk, body: Any, name: str) -> str:
    """The fault that the converter tells of, in its words; empty if there is none."""
    fault = _first_error(walk, _in_struct_order(body, {"$ref": name}))
    if isinstance(fault, TypeMismatch):
        return fault.converted()
    if isinstance(fault, InvalidBase64):
        return f"error decoding from json: {fault}"
    return str(fault or "")


def sort_members(value: Any) -> Any:
    """As Go's JSON patches write what they have changed."""
    if isinstance(value, dict):
        return {name: sort_members(value[name]) for name in sorted(value)}
    return [sort_members(part) for part in value] if isinstance(value, list) else value


def _first_error(walk: Walk, body: Any) -> DecodeError | None:
    try:
        walk(body, None)
    except DecodeError as fault:
        return fault
    except UnknownField:
        return None
    return None


def _without_value(value: Any, culprit: Any) -> tuple[Any, bool]:
    """The value with nothing in the culprit's place."""
    if value is culprit:
        return None, True
    if not isinstance(value, dict | list):
        return value, False
    whole: Any = dict(value) if isinstance(value, dict) else list(value)
    for place, part in whole.items() if isinstance(whole, dict) else enumerate(whole):
        left, was_there = _without_value(part, culprit)
        if was_there:
            whole[place] = left
            return whole, True
    return value, False


def _in_struct_order(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_in_struct_order(part, schema.get("items", {})) for part in value]
    if not isinstance(value, dict):
        return value
    if "$ref" not in schema:
        inner = schema.get("additionalProperties", {})
        return {name: _in_struct_order(part, inner) for name, part in value.items()}
    properties, places = (
        definition(schema["$ref"]).get("properties", {}),
        _field_positions(schema["$ref"]),
    )
    names = sorted(value, key=lambda name: places.get(name, 0))
    return {name: _in_struct_order(value[name], properties.get(name, {})) for name in names}


def _field_positions(name: str) -> dict[str, int]:
    """Where each field stands in its struct, which is mostly where protobuf has it."""
    if name in FIELD_ORDER_OVERRIDES:
        return {field: place for place, field in enumerate(FIELD_ORDER_OVERRIDES[name], 1)}
    places: dict[str, int] = {}
    for number, field in protobuf_fields(name).items():
        inner = (
            _field_positions(field.removeprefix(EMBEDDED_PREFIX))
            if field.startswith(EMBEDDED_PREFIX)
            else {field: 0}
        )
        places |= dict.fromkeys(inner, int(number))
    return places


class BuiltinSchema:
    """A `machinery.kinds.Schema`."""

    def __init__(self, group: str, version: str, kind: str) -> None:
        self._kind, self._version = kind, version
        self._definition = definition_of(group, version, kind)

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:
        strangers: list[str] = []
        new: Obj
        walk = decoder_of(self._definition)
        try:
            try:
                new = walk(obj, old)
            except UnknownField:
                obj = prune_unknown_fields(obj, self._definition, strangers)
                new = walk(obj, old)
        except DecodeError as misfit:
            raise Undecodable(
                self._kind, self._version, str(reported_error(walk, obj, misfit))
            ) from None
        told = [f'unknown field "{path}"' for path in strangers]
        if told and strictness == "Strict":
            raise Undecodable(
                self._kind, self._version, f"strict decoding error: {', '.join(told)}"
            )
        if strictness == "Warn":
            warnings += told
        return new

    def why_unfit(self, patched: Obj, *, is_json: bool) -> str:
        """What is told of a patch's outcome; empty if it fits."""
        walk, known = (
            decoder_of(self._definition),
            prune_unknown_fields(patched, self._definition, []),
        )
        if not is_json:
            return converter_error(walk, known, self._definition)
        written = sort_members(known)
        try:
            walk(written, None)
        except DecodeError as misfit:
            return str(reported_error(walk, written, misfit))
        return ""

    def validate(self, new: Obj, old: Obj | None, subresource: str = "") -> Iterable[Cause]:  # noqa: ARG002 - the rules judge
        return ()


def builtin_schema(resource: Resource) -> BuiltinSchema:
    return BuiltinSchema(resource.group, resource.version, resource.kind)
