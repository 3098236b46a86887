"""OpenAPI documents over HTTP: the v3 index, the v3 documents and gnostic's protobuf form of v2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.embedded.apiserver.wire.media_types import JSON, Offer, accepted
from pytest_kscen.embedded.apiserver.wire.responses import TEXT, WireAnswer, tagged
from pytest_kscen.objects.errors import NotAcceptable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kscen.embedded.apiserver.kinds import Kinds
    from pytest_kscen.embedded.apiserver.wire.queries import Query
    from pytest_kscen.objects.resources import Obj


OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ASKED_FOR = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
MORE = 0x80
"""The bit of a byte after which a number goes on."""


def document(v2: Obj) -> bytes:
    """The fields of gnostic's Document: swagger, info, paths (none) and definitions."""
    info = _text(1, v2["info"]["title"]) + _text(2, v2["info"]["version"])
    return (
        _text(1, v2["swagger"])
        + _bytes(2, info)
        + _bytes(8, b"")
        + _bytes(9, _named(v2["definitions"]))
    )


def _schema(schema: Obj) -> bytes:
    """One type; what a client of ours cannot make sense of is left out."""
    known = (write(schema[name]) for name, write in FIELDS.items() if name in schema)
    extensions = (
        _bytes(31, _text(1, name) + _bytes(2, _any(schema[name])))
        for name in schema
        if name.startswith("x-")
    )
    return b"".join((*known, *extensions))


def _named(schemas: Obj) -> bytes:
    return b"".join(
        _bytes(1, _text(1, name) + _bytes(2, _schema(schema))) for name, schema in schemas.items()
    )


def _more_properties(value: Any) -> bytes:
    return _bytes(
        21, _number(2, int(value)) if isinstance(value, bool) else _bytes(1, _schema(value))
    )


def _any(value: Any) -> bytes:
    """As YAML, which JSON is."""
    return _text(2, orjson.dumps(value).decode())


FIELDS: dict[str, Callable[[Any], bytes]] = {
    "$ref": lambda value: _text(1, value),
    "format": lambda value: _text(2, value),
    "description": lambda value: _text(4, value),
    "default": lambda value: _bytes(5, _any(value)),
    "required": lambda value: b"".join(_text(19, each) for each in value),
    "enum": lambda value: b"".join(_bytes(20, _any(each)) for each in value),
    "additionalProperties": _more_properties,
    "type": lambda value: _bytes(22, _text(1, value)),
    "items": lambda value: _bytes(23, _bytes(1, _schema(value))),
    "allOf": lambda value: b"".join(_bytes(24, _schema(each)) for each in value),
    "properties": lambda value: _bytes(25, _named(value)),
}
"""Those of gnostic's Schema, in the order of their numbers."""


# --- protobuf ---


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(number: int) -> bytes:
    return bytes(_sevens(number))


def _sevens(number: int) -> Iterator[int]:
    while number >= MORE:
        yield number % MORE | MORE
        number //= MORE
    yield number


# OpenAPI documents as clients fetch them: an index whose addresses change with what they lead
# to, so that all may be kept.


DOCUMENT = Offer(JSON, (JSON,), anything=("*/*", "application/*"), transforms=None)
OLDER = Offer(
    JSON, (JSON, ASKED_FOR, OPENAPI_V2), anything=("*/*", "application/*"), transforms=None
)
FOR_EVER = {"Cache-Control": "public, immutable"}


def schemas_of(
    kinds: Kinds, path: str, query: Query, headers: Mapping[str, str]
) -> WireAnswer | None:
    """The answer under /openapi; None where nothing is."""
    from pytest_kscen.embedded.apiserver import openapi

    try:
        media = accepted(headers.get("accept", ""), OLDER if path == "/openapi/v2" else DOCUMENT)
    except NotAcceptable:
        return WireAnswer(406, {})
    if path == "/openapi/v3":
        return WireAnswer(
            200, {"Content-Type": TEXT}, orjson.dumps(openapi.openapi_v3_index(kinds))
        )
    if path == "/openapi/v2":
        older, is_json = openapi.openapi_v2(kinds), media.type == JSON
        body = orjson.dumps(older) if is_json else document(older)
        return tagged(
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
    asked, own = query.text("hash"), str(listed["serverRelativeURL"]).rpartition("hash=")[2]
    if asked and asked != own:
        return WireAnswer(301, {"Location": listed["serverRelativeURL"]})
    kept = FOR_EVER if asked else {}
    answer = WireAnswer(
        200,
        {"Content-Type": JSON, "Vary": "Accept", **kept},
        orjson.dumps(openapi.openapi_v3(kinds, path)),
    )
    return tagged(answer, headers, own)
