"""OpenAPI documents as clients fetch them: an index whose addresses change with what they lead to, so that all may be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from pytest_kscen.machinery.wire.answers import TEXT, WireAnswer, tagged
from pytest_kscen.machinery.wire.media import JSON, Offer, accepted
from pytest_kscen.machinery.wire.openapi_protobuf import ASKED_FOR, OPENAPI_V2, document
from pytest_kscen.objects.errors import NotAcceptable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.machinery.kinds import Kinds
    from pytest_kscen.machinery.wire.queries import Query

DOCUMENT = Offer(JSON, (JSON,), anything=("*/*", "application/*"), transforms=None)
OLDER = Offer(JSON, (JSON, ASKED_FOR, OPENAPI_V2), anything=("*/*", "application/*"), transforms=None)
FOR_EVER = {"Cache-Control": "public, immutable"}


def schemas_of(kinds: Kinds, path: str, query: Query, headers: Mapping[str, str]) -> WireAnswer | None:
    """The answer under /openapi; None where nothing is."""
    from pytest_kscen.machinery import openapi

    try:
        media = accepted(headers.get("accept", ""), OLDER if path == "/openapi/v2" else DOCUMENT)
    except NotAcceptable:
        return WireAnswer(406, {})
    if path == "/openapi/v3":
        return WireAnswer(200, {"Content-Type": TEXT}, orjson.dumps(openapi.v3_index(kinds)))
    if path == "/openapi/v2":
        older, is_json = openapi.v2(kinds), media.type == JSON
        body = orjson.dumps(older) if is_json else document(older)
        return tagged(WireAnswer(200, {"Content-Type": JSON if is_json else OPENAPI_V2}, body), headers)
    if path.startswith("/openapi/v3/"):
        return _document(kinds, path.removeprefix("/openapi/v3/"), query, headers)
    return None


def _document(kinds: Kinds, path: str, query: Query, headers: Mapping[str, str]) -> WireAnswer:
    from pytest_kscen.machinery import openapi

    listed = openapi.v3_index(kinds)["paths"].get(path)
    if listed is None:
        return WireAnswer(404, {})
    asked, own = query.text("hash"), str(listed["serverRelativeURL"]).rpartition("hash=")[2]
    if asked and asked != own:
        return WireAnswer(301, {"Location": listed["serverRelativeURL"]})
    kept = FOR_EVER if asked else {}
    answer = WireAnswer(200, {"Content-Type": JSON, "Vary": "Accept", **kept}, orjson.dumps(openapi.v3(kinds, path)))
    return tagged(answer, headers, own)
