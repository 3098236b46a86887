"""OpenAPI over HTTP: the v3 index and documents, and v2 as JSON or gnostic's protobuf.

The documents themselves come from the server's module `openapi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.embedded.apiserver.wire.media_types import JSON, Offer, negotiate
from pytest_kscen.embedded.apiserver.wire.responses import TEXT, WireAnswer, with_etag
from pytest_kscen.objects.errors import NotAcceptable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.embedded.apiserver.kinds import Kinds
    from pytest_kscen.embedded.apiserver.wire.queries import Query
    from pytest_kscen.objects.resources import Obj


OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OPENAPI_V2_ACCEPT = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
CONTINUATION = 0x80
"""The bit of a byte that marks a number as continued."""


def encode_v2(v2: Obj) -> bytes:
    """Return gnostic's Document with swagger, info, empty paths and definitions.

    kubectl needs the definitions only, to validate and explain objects.
    """
    info = _text(1, v2["info"]["title"]) + _text(2, v2["info"]["version"])
    return (
        _text(1, v2["swagger"])
        + _bytes(2, info)
        + _bytes(8, b"")
        + _bytes(9, _named_schemas(v2["definitions"]))
    )


def _schema(schema: Obj) -> bytes:
    """Return one type in protobuf, without the parts that clients do not need."""
    known = (write(schema[name]) for name, write in FIELDS.items() if name in schema)
    extensions = (
        _bytes(31, _text(1, name) + _bytes(2, _any(schema[name])))
        for name in schema
        if name.startswith("x-")
    )
    return b"".join((*known, *extensions))


def _named_schemas(schemas: Obj) -> bytes:
    return b"".join(
        _bytes(1, _text(1, name) + _bytes(2, _schema(schema))) for name, schema in schemas.items()
    )


def _any(value: Any) -> bytes:
    return _text(2, orjson.dumps(value).decode())


FIELDS: dict[str, Callable[[Any], bytes]] = {
    "$ref": lambda value: _text(1, value),
    "format": lambda value: _text(2, value),
    "description": lambda value: _text(4, value),
    "default": lambda value: _bytes(5, _any(value)),
    "required": lambda value: b"".join(_text(19, each) for each in value),
    "enum": lambda value: b"".join(_bytes(20, _any(each)) for each in value),
    "additionalProperties": (
        lambda value: _bytes(
            21,
            _varint(2 << 3) + _varint(int(value))
            if isinstance(value, bool)
            else _bytes(1, _schema(value)),
        )
    ),
    "type": lambda value: _bytes(22, _text(1, value)),
    "items": lambda value: _bytes(23, _bytes(1, _schema(value))),
    "allOf": lambda value: b"".join(_bytes(24, _schema(each)) for each in value),
    "properties": lambda value: _bytes(25, _named_schemas(value)),
}
"""Encoders of gnostic's Schema, in the order of field numbers."""


# Protobuf encoding.


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= CONTINUATION:
        encoded.append(number % CONTINUATION | CONTINUATION)
        number //= CONTINUATION
    encoded.append(number)
    return bytes(encoded)


# The index has addresses that change with the documents, so clients may cache documents for ever.


V3_OFFER = Offer(JSON, (JSON,), anything=("*/*", "application/*"), transforms=None)
V2_OFFER = Offer(
    JSON, (JSON, OPENAPI_V2_ACCEPT, OPENAPI_V2), anything=("*/*", "application/*"), transforms=None
)
IMMUTABLE = {"Cache-Control": "public, immutable"}


def answer_openapi(
    kinds: Kinds, path: str, query: Query, headers: Mapping[str, str]
) -> WireAnswer | None:
    """Return the answer for a path under /openapi, or None if there is none."""
    from pytest_kscen.embedded.apiserver import openapi

    try:
        media = negotiate(
            headers.get("accept", ""), V2_OFFER if path == "/openapi/v2" else V3_OFFER
        )
    except NotAcceptable:
        return WireAnswer(406, {})
    if path == "/openapi/v3":
        return WireAnswer(
            200, {"Content-Type": TEXT}, orjson.dumps(openapi.openapi_v3_index(kinds))
        )
    if path == "/openapi/v2":
        older, is_json = openapi.openapi_v2(kinds), media.type == JSON
        body = orjson.dumps(older) if is_json else encode_v2(older)
        return with_etag(
            WireAnswer(200, {"Content-Type": JSON if is_json else OPENAPI_V2}, body), headers
        )
    if path.startswith("/openapi/v3/"):
        return _document(kinds, path.removeprefix("/openapi/v3/"), query, headers)
    return None


def _document(kinds: Kinds, path: str, query: Query, headers: Mapping[str, str]) -> WireAnswer:
    from pytest_kscen.embedded.apiserver import openapi

    listed = openapi.openapi_v3_index(kinds)["paths"].get(path)
    if listed is None:
        return WireAnswer(404, {})
    requested, own = query.text("hash"), str(listed["serverRelativeURL"]).rpartition("hash=")[2]
    if requested and requested != own:
        return WireAnswer(301, {"Location": listed["serverRelativeURL"]})
    kept = IMMUTABLE if requested else {}
    answer = WireAnswer(
        200,
        {"Content-Type": JSON, "Vary": "Accept", **kept},
        orjson.dumps(openapi.openapi_v3(kinds, path)),
    )
    return with_etag(answer, headers, own)
