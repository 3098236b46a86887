"""HTTP responses: status, headers, and bodies as objects, tables, metadata or streams;
deprecation warnings.
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
    partial,
)
from pytest_kscen.objects.errors import ApiError, NotAcceptable
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS as DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.wire.media_types import Media
    from pytest_kscen.kube.api import Event, Texts, Watch
    from pytest_kscen.objects.resources import Obj, Resource


TEXT = "text/plain; charset=utf-8"


class Stream(Protocol):
    """A body that comes piece by piece; whoever stops reading closes it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class WireAnswer:
    """A response: its body is there, or comes as a stream.

    Headers that come more than once are joined by commas.
    """

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
    plain = orjson.loads(
        orjson.dumps(body)
    )  # lists and strings of our own kinds become what YAML knows
    text: str = yaml.dump(plain, Dumper=GoDumper, allow_unicode=True, sort_keys=True, width=10_000)
    return text.encode()


class GoDumper(yaml.SafeDumper):
    """Quotes as Go's library does: twice."""

    def choose_scalar_style(self) -> str:
        style: str = super().choose_scalar_style()
        return '"' if style == "'" else style


def tagged(answer: WireAnswer, headers: Mapping[str, str], tag: str = "") -> WireAnswer:
    """An answer that a client may keep until its tag changes; one that it still has is not sent
    again.
    """
    answer.headers["ETag"] = f'"{tag or hashlib.sha512(answer.body).hexdigest().upper()}"'
    if headers.get("if-none-match") == answer.headers["ETag"]:
        return WireAnswer(304, answer.headers)
    return answer


def text(content: str, status: int = 200) -> WireAnswer:
    return WireAnswer(status, {"Content-Type": TEXT}, content.encode())


def refusal(error: ApiError, media: Media, warnings: list[str]) -> WireAnswer:
    """A refusal is a Status, always plain: no table of it."""
    answer = encoded(
        Reply(error.status, error.status.get("code", error.code), warnings), media.plain()
    )
    if seconds := (error.status.get("details") or {}).get("retryAfterSeconds"):
        answer.headers["Retry-After"] = str(seconds)
    return answer


def refused(error: ApiError) -> WireAnswer:
    """The refusal of whoever stands before the wire."""
    return refusal(error, PLAIN, [])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# What a client is told when it uses a version that is on its way out.


BUILT_IN = {
    (
        "",
        "v1",
        "endpoints",
    ): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
}


def definition_of(core: Core, resource: Resource) -> Obj | None:
    """The CustomResourceDefinition behind a custom kind."""
    return core.store.get(
        (DEFINITIONS.group, DEFINITIONS.plural, "", f"{resource.plural}.{resource.group}")
    )


def deprecations(core: Core, kind: Kind) -> Iterator[str]:
    resource = kind.resource
    if not kind.custom:
        if words := BUILT_IN.get((resource.group, resource.version, resource.plural)):
            yield words
        return
    definition = definition_of(core, resource)
    versions = definition["spec"]["versions"] if definition else []
    for version in versions:
        if version["name"] == resource.version and version.get("deprecated"):
            yield version.get("deprecationWarning") or _by_default(versions, resource)


def _by_default(versions: list[Obj], resource: Resource) -> str:
    better = [
        version["name"]
        for version in versions
        if version["served"]
        and not version.get("deprecated")
        and stability(version["name"]) > stability(resource.version)
    ]
    words = f"{resource.api_version} {resource.kind} is deprecated"
    return (
        f"{words}; use {resource.group}/{max(better, key=stability)} {resource.kind}"
        if better
        else words
    )


# The form in which an answer's objects go out: as they are, as a table, or as their metadata
# alone.


class Shaper:
    """Shapes one answer, or the events of one watch."""

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
        return partial(body, self._media.version)

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
        return partial(obj, self._media.version)

    def _list(self, body: Obj) -> Obj:
        if not self._media.transform:
            return body if self._kind.custom else _typed(body)
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
        return {**head, "items": [partial(item, version) for item in body["items"]] or None}

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


def _typed(body: Obj) -> Obj:
    """In a list of a built-in kind the items do not say what they are: the list does."""
    items = [
        {name: part for name, part in item.items() if name not in ("kind", "apiVersion")}
        for item in body["items"]
    ]
    return {**body, "items": items}


def _columns(core: Core, kind: Kind) -> tuple[Column, ...]:
    if not kind.custom:
        return columns_of(kind.resource)
    definition = definition_of(core, kind.resource)
    return custom_columns(definition, kind.resource.version) if definition else PLAIN_COLUMNS


# Bodies that come piece by piece: a watch's events, one JSON document a line, and a log that is
# followed.


class WatchStream:
    """The frames of one watch."""

    def __init__(self, watch: Watch, shaper: Shaper) -> None:
        self._watch = watch
        self._shaper = shaper

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        event = await self._watch.__anext__()
        frame = {"type": event.type, "object": self._shaper.event(event)}
        return orjson.dumps(frame, option=orjson.OPT_APPEND_NEWLINE)

    def close(self) -> None:
        self._watch.close()


class TextStream:
    """The pieces of a text."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return (await self._texts.__anext__()).encode()

    def close(self) -> None:
        self._texts.close()
