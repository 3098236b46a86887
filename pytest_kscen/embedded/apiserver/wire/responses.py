"""HTTP answers: status, headers and bodies; objects, tables, metadata, streams and warnings.

Called by `wire` after the server has answered.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import orjson
import yaml

from pytest_kscen.embedded.apiserver.kinds import stability
from pytest_kscen.embedded.apiserver.patching import materialised
from pytest_kscen.embedded.apiserver.wire.media_types import AS_PARTIAL_LIST, AS_TABLE, PLAIN, YAML
from pytest_kscen.embedded.apiserver.wire.tables import (
    PLAIN_COLUMNS,
    Column,
    Printer,
    columns_of,
    custom_columns,
    partial_metadata,
)
from pytest_kscen.objects.errors import ApiError, NotAcceptable
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS as DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.wire.media_types import Media
    from pytest_kscen.kube.api import Event, TextChunks, Watch
    from pytest_kscen.objects.resources import Obj, Resource


TEXT = "text/plain; charset=utf-8"


class ResponseStream(Protocol):
    """Body that arrives in pieces, iterated on the cluster's loop.

    The reader closes it when it stops reading, also before the end.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class WireAnswer:
    """HTTP answer with a body or a stream.

    Repeated headers are joined by commas.
    """

    status: int
    headers: dict[str, str]
    body: bytes = b""
    stream: ResponseStream | None = None


@dataclass(slots=True)
class Reply:
    body: Any
    code: int = 200
    warnings: list[str] = field(default_factory=list)


def encode_reply(reply: Reply, media: Media) -> WireAnswer:
    return WireAnswer(reply.code, headers_for(media, reply.warnings), dump(reply.body, media))


def headers_for(media: Media, warnings: list[str]) -> dict[str, str]:
    headers = {"Content-Type": media.content_type}
    if warnings:
        escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings)
        headers["Warning"] = ", ".join(f'299 - "{text}"' for text in escaped)
    return headers


def dump(body: Any, media: Media) -> bytes:
    if media.type == YAML:
        return dump_yaml(body)
    return orjson.dumps(body, option=orjson.OPT_INDENT_2 if media.pretty else None)


def dump_yaml(body: Any) -> bytes:
    plain = orjson.loads(orjson.dumps(body))  # converts subclasses of list and str to plain ones
    text: str = yaml.dump(plain, Dumper=GoDumper, allow_unicode=True, sort_keys=True, width=10_000)
    return text.encode()


class GoDumper(yaml.SafeDumper):
    def choose_scalar_style(self) -> str:
        style: str = super().choose_scalar_style()
        return '"' if style == "'" else style


def with_etag(answer: WireAnswer, headers: Mapping[str, str], tag: str = "") -> WireAnswer:
    """Set the ETag; return 304 without a body if the client has this version already."""
    answer.headers["ETag"] = f'"{tag or hashlib.sha512(answer.body).hexdigest().upper()}"'
    if headers.get("if-none-match") == answer.headers["ETag"]:
        return WireAnswer(304, answer.headers)
    return answer


def text_answer(content: str, status: int = 200) -> WireAnswer:
    return WireAnswer(status, {"Content-Type": TEXT}, content.encode())


def refusal_answer(error: ApiError, media: Media, warnings: list[str]) -> WireAnswer:
    """Return the answer of a refusal: a Status, never a table."""
    answer = encode_reply(
        Reply(error.status, error.status.get("code", error.code), warnings), media.plain()
    )
    if seconds := (error.status.get("details") or {}).get("retryAfterSeconds"):
        answer.headers["Retry-After"] = str(seconds)
    return answer


def refuse(error: ApiError) -> WireAnswer:
    """Return a refusal made before the request was routed, such as for a missing token."""
    return refusal_answer(error, PLAIN, [])


# Warnings about deprecated versions.


BUILTIN_DEPRECATIONS = {
    (
        "",
        "v1",
        "endpoints",
    ): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
}


def crd_of(core: Core, resource: Resource) -> Obj | None:
    return core.store.get(
        (DEFINITIONS.group, DEFINITIONS.plural, "", f"{resource.plural}.{resource.group}")
    )


def deprecation_warnings(core: Core, kind: Kind) -> Iterator[str]:
    resource = kind.resource
    if not kind.custom:
        if words := BUILTIN_DEPRECATIONS.get((resource.group, resource.version, resource.plural)):
            yield words
        return
    definition = crd_of(core, resource)
    versions = definition["spec"]["versions"] if definition else []
    for version in versions:
        if version["name"] == resource.version and version.get("deprecated"):
            better = [
                other["name"]
                for other in versions
                if other["served"]
                and not other.get("deprecated")
                and stability(other["name"]) > stability(resource.version)
            ]
            words = f"{resource.api_version} {resource.kind} is deprecated"
            if better:
                best = max(better, key=stability)
                words += f"; use {resource.group}/{best} {resource.kind}"
            yield version.get("deprecationWarning") or words


class ResponseConverter:
    """Converts the objects of one answer, or of one watch's events, to the negotiated form.

    Forms are the object itself, a table, or metadata only.
    """

    def __init__(self, core: Core, kind: Kind, media: Media, included: str) -> None:
        self._core = core
        self._kind = kind
        self._media = media
        self._included = included
        self._columns = _columns(core, kind) if media.transform == AS_TABLE else ()
        self._seen = False

    def answer(self, body: Obj) -> Obj:
        if body["kind"] == "Status":
            return body
        if "items" in body and body["kind"].endswith("List"):
            return self._list({**body, "items": list(map(materialised, body["items"]))})
        body = materialised(body)
        match self._media.transform:
            case "":
                return body
            case "Table":
                return self._printer().of_one(body)
        self._check_partial(body["kind"], is_list=False)
        return partial_metadata(body, self._media.version)

    def event(self, event: Event) -> Obj:
        if event.type == "ERROR":
            return event.object
        obj = materialised(event.object)
        match self._media.transform:
            case "":
                return obj
            case "Table":
                first, self._seen = not self._seen, True
                return self._printer().of_event(event.type, obj, first=first)
        return partial_metadata(obj, self._media.version)

    def _list(self, body: Obj) -> Obj:
        if not self._media.transform:
            if self._kind.custom:
                return body
            # Items of built-in lists have no kind and apiVersion of their own.
            items = [
                {name: part for name, part in item.items() if name not in ("kind", "apiVersion")}
                for item in body["items"]
            ]
            return {**body, "items": items}
        body = {
            **body,
            "metadata": {name: value for name, value in body["metadata"].items() if value != ""},
        }
        match self._media.transform:
            case "Table":
                return self._printer().of_list(body)
        self._check_partial(body["kind"], is_list=True)
        version = self._media.version
        head = {
            "kind": AS_PARTIAL_LIST,
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": body["metadata"],
        }
        return {
            **head,
            "items": [partial_metadata(item, version) for item in body["items"]] or None,
        }

    def _printer(self) -> Printer:
        return Printer(self._columns, self._core.clock.now(), self._included, self._media.version)

    def _check_partial(self, kind: str, *, is_list: bool) -> None:
        wanted, group = self._media.transform, self._kind.resource.group
        if is_list is (wanted == AS_PARTIAL_LIST):
            return
        if self._kind.custom and not is_list:
            raise ApiError("content is not a list")
        what = "is a list" if is_list else "is not a list"
        type_ = (
            "*unstructured.UnstructuredList"
            if self._kind.custom
            else f"*{group.partition('.')[0] or 'core'}.{kind}"
        )
        raise NotAcceptable(f"you requested {wanted}, but the requested object {what} ({type_})")


def _columns(core: Core, kind: Kind) -> tuple[Column, ...]:
    if not kind.custom:
        return columns_of(kind.resource)
    definition = crd_of(core, kind.resource)
    return custom_columns(definition, kind.resource.version) if definition else PLAIN_COLUMNS


class WatchStream:
    """Events of a watch as JSON documents, one per line, in the negotiated form."""

    def __init__(self, watch: Watch, converter: ResponseConverter) -> None:
        self._watch = watch
        self._converter = converter

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        event = await self._watch.__anext__()
        frame = {"type": event.type, "object": self._converter.event(event)}
        return orjson.dumps(frame, option=orjson.OPT_APPEND_NEWLINE)

    def close(self) -> None:
        self._watch.close()


class TextStream:
    def __init__(self, texts: TextChunks) -> None:
        self._texts = texts

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return (await self._texts.__anext__()).encode()

    def close(self) -> None:
        self._texts.close()
