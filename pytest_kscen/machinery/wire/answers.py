"""What goes back over the wire: a status, headers, and bytes at once or piece by piece."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import yaml

from pytest_kscen.machinery.wire.media import PLAIN, YAML

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pytest_kscen.machinery.wire.media import Media
    from pytest_kscen.objects.errors import ApiError

TEXT = "text/plain; charset=utf-8"


class Stream(Protocol):
    """A body that comes piece by piece; whoever stops reading closes it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class WireAnswer:
    """A response: its body is there, or comes as a stream. Headers that come more than once are joined by commas."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    stream: Stream | None = None


@dataclass(slots=True)
class Reply:
    """An answer that is not yet bytes."""

    body: Any
    code: int = 200
    warnings: list[str] = field(default_factory=list)


def encoded(reply: Reply, media: Media) -> WireAnswer:
    return WireAnswer(reply.code, heading(media, reply.warnings), dumped(reply.body, media))


def heading(media: Media, warnings: list[str]) -> dict[str, str]:
    headers = {"Content-Type": media.content_type}
    if warnings:
        headers["Warning"] = ", ".join(f'299 - "{_quoted(text)}"' for text in warnings)
    return headers


def dumped(body: Any, media: Media) -> bytes:
    if media.type == YAML:
        return yaml_of(body)
    return orjson.dumps(body, option=orjson.OPT_INDENT_2 if media.pretty else None)


def yaml_of(body: Any) -> bytes:
    plain = orjson.loads(orjson.dumps(body))  # lists and strings of our own kinds become what YAML knows
    text: str = yaml.dump(plain, Dumper=GoDumper, allow_unicode=True, sort_keys=True, width=10_000)
    return text.encode()


class GoDumper(yaml.SafeDumper):
    """Quotes as Go's library does: twice."""

    def choose_scalar_style(self) -> str:
        style: str = super().choose_scalar_style()
        return '"' if style == "'" else style


def tagged(answer: WireAnswer, headers: Mapping[str, str], tag: str = "") -> WireAnswer:
    """An answer that a client may keep until its tag changes; one that it still has is not sent again."""
    answer.headers["ETag"] = f'"{tag or hashlib.sha512(answer.body).hexdigest().upper()}"'
    if headers.get("if-none-match") == answer.headers["ETag"]:
        return WireAnswer(304, answer.headers)
    return answer


def text(content: str, status: int = 200) -> WireAnswer:
    return WireAnswer(status, {"Content-Type": TEXT}, content.encode())


def refusal(error: ApiError, media: Media, warnings: list[str]) -> WireAnswer:
    """A refusal is a Status, always plain: no table of it."""
    answer = encoded(Reply(error.status, error.status.get("code", error.code), warnings), media.plain())
    if seconds := (error.status.get("details") or {}).get("retryAfterSeconds"):
        answer.headers["Retry-After"] = str(seconds)
    return answer


def refused(error: ApiError) -> WireAnswer:
    """The refusal of whoever stands before the wire."""
    return refusal(error, PLAIN, [])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
