"""Schema of a built-in kind: decoding with the results and the messages of Go's JSON decoder.

Validation belongs to the kind's rules.
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

    from pytest_kscen.embedded.apiserver.schema.scalars import Decoder
    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.resources import Obj, Resource


EMBEDDED_PREFIX = "+"
FIELD_ORDER_OVERRIDES = {  # structs whose order of fields differs from protobuf's
    "io.k8s.api.core.v1.ConfigMap": ("metadata", "immutable", "data", "binaryData"),
    "io.k8s.api.core.v1.Secret": ("metadata", "immutable", "data", "stringData", "type"),
}


def reported_error(decode_value: Decoder, body: Any, first: DecodeError) -> DecodeError:
    """Return the error that Go's JSON decoder reports for a body with several faults.

    The decoder continues after a wrong type or malformed base64. It reports the first of these only
    if no worse fault follows.
    """
    fault: DecodeError | None = first
    while isinstance(fault, TypeMismatch | InvalidBase64) and not fault.is_final:
        body, found = _without_value(body, fault.value)
        fault = _first_error(decode_value, body) if found else None
    return fault or first


def converter_error(decode_value: Decoder, body: Any, name: str) -> str:
    """Return the message of Go's converter; empty if the body converts.

    The converter stops at the first fault in the order of the struct's fields. Applied
    configurations and strategic merge patches pass through it.
    """
    fault = _first_error(decode_value, _in_struct_order(body, {"$ref": name}))
    if isinstance(fault, TypeMismatch):
        return fault.converter_message()
    if isinstance(fault, InvalidBase64):
        return f"error decoding from json: {fault}"
    return str(fault or "")


def sort_members(value: Any) -> Any:
    """Return the value with the members of all objects sorted, as Go writes the result of a JSON
    patch.
    """
    if isinstance(value, dict):
        return {name: sort_members(value[name]) for name in sorted(value)}
    return [sort_members(part) for part in value] if isinstance(value, list) else value


def _first_error(decode_value: Decoder, body: Any) -> DecodeError | None:
    try:
        decode_value(body, None)
    except DecodeError as fault:
        return fault
    except UnknownField:
        return None
    return None


def _without_value(value: Any, target: Any) -> tuple[Any, bool]:
    """Return the value with null in place of `target`, and whether it was found. Copies only the
    containers on the way.
    """
    if value is target:
        return None, True
    if not isinstance(value, dict | list):
        return value, False
    whole: Any = dict(value) if isinstance(value, dict) else list(value)
    for index, part in whole.items() if isinstance(whole, dict) else enumerate(whole):
        left, found = _without_value(part, target)
        if found:
            whole[index] = left
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
    """Return the position of each field in its Go struct: mostly its protobuf number; embedded
    structs take one position.
    """
    if name in FIELD_ORDER_OVERRIDES:
        return {field: index for index, field in enumerate(FIELD_ORDER_OVERRIDES[name], 1)}
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
    """Implementation of `kinds.Schema` for a built-in kind. The decoder is compiled on first use
    and shared by all clusters of the process.
    """

    def __init__(self, group: str, version: str, kind: str) -> None:
        self._kind, self._version = kind, version
        self._definition = definition_of(group, version, kind)

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:
        unknown: list[str] = []
        new: Obj
        decode_value = decoder_of(self._definition)
        try:
            try:
                new = decode_value(obj, old)
            except UnknownField:
                obj = prune_unknown_fields(obj, self._definition, unknown)
                new = decode_value(obj, old)
        except DecodeError as error:
            raise Undecodable(
                self._kind, self._version, str(reported_error(decode_value, obj, error))
            ) from None
        messages = [f'unknown field "{path}"' for path in unknown]
        if messages and strictness == "Strict":
            raise Undecodable(
                self._kind, self._version, f"strict decoding error: {', '.join(messages)}"
            )
        if strictness == "Warn":
            warnings += messages
        return new

    def patch_error(self, patched: Obj, *, is_json: bool) -> str:
        """Return the message for a patched object that does not decode; empty if it does.

        `is_json` selects the decoder for JSON patches, otherwise the converter's message is
        returned.
        """
        decode_value, known = (
            decoder_of(self._definition),
            prune_unknown_fields(patched, self._definition, []),
        )
        if not is_json:
            return converter_error(decode_value, known, self._definition)
        written = sort_members(known)
        try:
            decode_value(written, None)
        except DecodeError as error:
            return str(reported_error(decode_value, written, error))
        return ""

    def validate(
        self,
        new: Obj,  # noqa: ARG002 - built-in kinds are validated by their rules
        old: Obj | None,  # noqa: ARG002
        subresource: str = "",  # noqa: ARG002
    ) -> Iterable[Cause]:
        return ()


def builtin_schema(resource: Resource) -> BuiltinSchema:
    return BuiltinSchema(resource.group, resource.version, resource.kind)
