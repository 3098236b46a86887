"""Transport of the official client's requests: HTTP in everything but the socket."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from hashlib import md5
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON, YAML = "application/json", ("application/yaml", "text/yaml", "text/x-yaml")
JSON_PATCH, STRATEGIC_PATCH = (
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
)
WITH_BODY = ("POST", "PUT", "PATCH", "OPTIONS", "DELETE")
STREAMED = (
    "exec, attach and port-forward need a real container, and this cluster's containers are "
    "simulated: read its log instead"
)
GO_PHRASES = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}

_count = itertools.count(1)


class Chunks(Protocol):
    """Body that arrives in pieces."""

    async def __anext__(self) -> bytes: ...

    def close(self) -> None: ...


class TransportAnswer(Protocol):
    """Response with a complete body, or with a stream."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> dict[str, str]: ...

    @property
    def body(self) -> bytes: ...

    @property
    def stream(self) -> Chunks | None: ...


class Transport(Protocol):
    """Entry of a server for HTTP requests; header names are lower case."""

    async def call(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> TransportAnswer: ...


def call_of(
    method: str, url: str, headers: Mapping[str, str] | None, body: Any
) -> tuple[str, str, str, dict[str, str], bytes]:
    """Return the client's request as its own transport would send it."""
    address = urlsplit(url)
    lowered = {name.lower(): value for name, value in (headers or {}).items()}
    sent = b""
    if method in WITH_BODY:
        type_ = lowered.get("content-type", "")
        if type_ == JSON_PATCH and not isinstance(body, list):
            type_ = lowered["content-type"] = STRATEGIC_PATCH
        sent = _bytes_of(body, type_)
    return method, address.path, address.query, lowered, sent


def _bytes_of(body: Any, type_: str) -> bytes:
    if body is None:
        return b""
    plain = type_.partition(";")[0].strip()
    as_json = not plain or plain == JSON or plain.endswith("+json")
    if not as_json and isinstance(body, str | bytes):
        return body.encode() if isinstance(body, str) else body
    try:
        return orjson.dumps(body)
    except (
        TypeError
    ):  # only Python's encoder accepts keys that are numbers, and numbers beyond 64 bits
        return json.dumps(body).encode()


def phrase_of(status: int) -> str:
    """Return the reason phrase of Go's HTTP server; tests may compare it."""
    return GO_PHRASES.get(status) or HTTPStatus(status).phrase


async def next_chunk(chunks: Chunks) -> bytes | None:
    """Return the next piece, or None at the end."""
    try:
        return await chunks.__anext__()
    except StopAsyncIteration:
        return None


def new_host() -> str:
    """Return a unique host name for one client's server. The dynamic client derives the name of its
    discovery file from it.
    """
    return f"https://embedded-{os.getpid()}-{next(_count)}.kscen.invalid"


def forget(host: str) -> None:
    """Delete the discovery file that the dynamic client has kept for this server."""
    digest = md5(host.encode(), usedforsecurity=False).hexdigest()
    Path(tempfile.gettempdir(), f"osrcp-{digest}.json").unlink(missing_ok=True)
