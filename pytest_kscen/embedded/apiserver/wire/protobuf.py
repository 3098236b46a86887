"""Decoding of Kubernetes' protobuf bodies, the default of Go clients; answers are JSON.

An envelope names the kind and holds the message. Fields are read by the recorded schemas and field
numbers. Go writes every field that is not a pointer, so zeros that JSON omits are dropped here.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.clock import timestamp_of
from pytest_kscen.embedded.apiserver.recorded import definition, definition_of, protobuf_fields
from pytest_kscen.embedded.apiserver.wire.parsing import go_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Reader = Callable[[bytes], Any]

    from pytest_kscen.objects.resources import Obj

MAGIC = b"k8s\x00"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class BrokenProtobuf(ValueError): ...


def decode_object(body: bytes) -> Obj:
    if not body.startswith(MAGIC):
        raise BrokenProtobuf(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    envelope = dict(_plain(body[len(MAGIC) :]))
    meta = {number: value.decode() for number, value in _plain(envelope.get(1, b""))}
    api_version, kind = meta.get(1, ""), meta.get(2, "")
    group, _, version = api_version.rpartition("/")
    name = (
        f"{META}.DeleteOptions" if kind == "DeleteOptions" else definition_of(group, version, kind)
    )
    content = _message(envelope.get(2, b""), name, name) if name else {}
    return {"apiVersion": api_version, "kind": kind, **content}


def _message(data: bytes, type_: str, fields_of: str) -> Obj:
    """Return a message's fields; an embedded type's fields are inlined, as in JSON."""
    properties, names = definition(type_).get("properties", {}), protobuf_fields(fields_of)
    found: Obj = {}
    for number, value in _fields(data):
        name = names.get(str(number), "")
        if name.startswith("+"):
            found.update(_message(_bytes(value), type_, name[1:]))
        elif name in properties:
            schema = properties[name]
            if schema.get("type") == "array":
                found.setdefault(name, []).extend(_items(schema["items"], value))
            elif "additionalProperties" in schema:
                key, entry = _entry(schema["additionalProperties"], value)
                found.setdefault(name, {})[key] = entry
            elif (read := _value(schema, value)) is not None and (read or _is_pointer(schema)):
                found[name] = read
    return found


def _is_pointer(schema: Obj) -> bool:
    """Return True if Go's field is a pointer, so that a present zero is meant."""
    if "$ref" in schema:
        return "default" not in schema and "x-go-zero" not in schema
    return bool(schema.get("x-go-pointer"))


def _value(schema: Obj, value: Any) -> Any:
    if "$ref" in schema:
        special = SPECIAL_TYPES.get(schema["$ref"])
        return (
            special(_bytes(value))
            if special
            else _message(_bytes(value), schema["$ref"], schema["$ref"])
        )
    match schema.get("type"):
        case "boolean":
            return bool(value)
        case "integer":
            return value - 2**64 if value >= 2**63 else value
        case "number":
            return go_number(struct.unpack("<d", value)[0])
    text = _bytes(value)
    return base64.b64encode(text).decode() if schema.get("format") == "byte" else text.decode()


def _items(schema: Obj, value: Any) -> list[Any]:
    if schema.get("type") == "integer" and isinstance(value, bytes):  # packed
        numbers, place = [], 0
        while place < len(value):
            number, place = _varint(value, place)
            numbers.append(number)
        return numbers
    return [_value(schema, value)]


def _entry(schema: Obj, value: Any) -> tuple[str, Any]:
    """Return a map's entry; a list as value is a message of its own."""
    parts = dict(_plain(_bytes(value)))
    key, raw = parts.get(1, b"").decode(), parts.get(2, b"")
    if schema.get("type") == "array":
        return key, [item for _, one in _plain(raw) for item in _items(schema["items"], one)]
    return key, _value(schema, raw)


# Types with another form in JSON.


SPECIAL_TYPES: dict[str, Reader] = {}


def _special(type_: str) -> Callable[[Reader], Reader]:
    """Return a decorator that makes a function the reader of a type's messages."""
    return lambda read: SPECIAL_TYPES.setdefault(type_, read)


def _time(data: bytes, *, micro: bool = False) -> str | None:
    parts = dict(_fields(data))
    if not parts:
        return None
    return timestamp_of(parts.get(1, 0) + parts.get(2, 0) / 1e9, micro=micro)


@_special("io.k8s.apimachinery.pkg.util.intstr.IntOrString")
def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    return str(parts.get(3, b"").decode()) if parts.get(1) else int(parts.get(2, 0))


@_special("io.k8s.apimachinery.pkg.api.resource.Quantity")
def _quantity(data: bytes) -> str:
    return dict(_plain(data)).get(1, b"").decode() or "0"


def _raw(data: bytes) -> Any:
    raw = dict(_plain(data)).get(1, b"")
    return orjson.loads(raw) if raw else None


def _schema(data: bytes) -> Obj:
    return _message(data, f"{CRD}.JSONSchemaProps", f"{CRD}.JSONSchemaProps")


@_special(f"{CRD}.JSONSchemaPropsOrBool")
def _schema_or_flag(data: bytes) -> Any:
    parts = dict(_fields(data))
    # the schema's number
    return _schema(parts[2]) if 2 in parts else bool(parts.get(1))  # noqa: PLR2004


@_special(f"{CRD}.JSONSchemaPropsOrArray")
def _schema_or_many(data: bytes) -> Any:
    schemas = [(number, _schema(value)) for number, value in _plain(data)]
    many = [schema for number, schema in schemas if number != 1]
    return many or (schemas[0][1] if schemas else None)


@_special(f"{CRD}.JSONSchemaPropsOrStringArray")
def _schema_or_names(data: bytes) -> Any:
    parts = list(_plain(data))
    names = [value.decode() for number, value in parts if number != 1]
    return names or next((_schema(value) for number, value in parts if number == 1), None)


SPECIAL_TYPES |= {
    f"{META}.Time": _time,
    f"{META}.MicroTime": lambda data: _time(data, micro=True),
    f"{META}.FieldsV1": _raw,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw,
    f"{CRD}.JSON": _raw,
}


# Wire encoding.


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, form = key >> 3, key & 7
        if form == VARINT:
            value, place = _varint(data, place)
            yield number, value
            continue
        if form == BYTES:
            size, place = _varint(data, place)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(form, len(data) + 1)
        if place + size > len(data):
            raise BrokenProtobuf("unexpected EOF")
        yield number, data[place : place + size]
        place += size


def _plain(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message that holds only bytes fields."""
    return ((number, _bytes(value)) for number, value in _fields(data))


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise BrokenProtobuf("proto: wrong wireType")
    return value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while place < len(data):
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  # the last byte of a number
            return number, place
        shift += 7
    raise BrokenProtobuf("unexpected EOF")
