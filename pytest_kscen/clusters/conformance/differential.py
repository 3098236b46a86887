"""The same requests to two servers, and what each made of them, in words that do not depend on the
server.

A request may speak of what only its server knows by words such as NOW, the version that the object
has by then. The server must have no controllers, or none that get a turn, or else their doings are
in the story too."""

from __future__ import annotations

import functools
import itertools
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.case import CaseClient, CaseResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kscen.clusters.conformance.case import CaseTransport


_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VERSION = re.compile(
    r"((?:ResourceVersion in the precondition \(|ResourceVersion in record \(|, current: "
    r'|resourceVersion"?:"?))(\d+)'
)
_QUOTED = re.compile(
    r'("\{\\".*\}")(?=: )', re.DOTALL
)  # an object, as it stands quoted in a message
_UNKNOWN_FIELDS = re.compile(
    r'unknown field "[^"]*"(?:, unknown field "[^"]*")+'
)  # which of them is told first is chance
_PATCH = re.compile(
    r'(?<=Invalid value: )"map\[.*\]"(?=: )', re.DOTALL
)  # a patch, as it stands after half of the work
_STRUCT = re.compile(
    r"(?<=Invalid value: )\{.*\}(?=: )|\n@@ -.*", re.DOTALL
)  # as the server's own language has it inside
_TYPED_PATCH_ERROR = re.compile(
    r"(?<=failed to create typed patch object )(\([^)]*\)): (.*)", re.DOTALL
)
_ADDRESS = re.compile(r"\b10\.0\.0\.\d+\b")
_TOKEN_VOLUME = re.compile(r"\bkube-api-access-[a-z0-9]{5}\b")
AGE_COLUMNS = {"Age", "Duration", "First Seen", "Last Schedule", "Last Seen"}
SOME_VERSION = "some version"


class StoryNormalizer:
    """One story's words."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._versions: set[int] = set()
        self._ranks: dict[int, int] = {}
        self._places: dict[str, str] = {}

    def learn(self, value: Any) -> None:
        """Gather the versions of objects; a list's own version counts the whole server's writes
        and says nothing.
        """
        if isinstance(value, dict):
            version = value.get("resourceVersion")
            if isinstance(version, str) and version.isdecimal() and "uid" in value:
                self._versions.add(int(version))
            for one in value.values():
                self.learn(one)
        elif isinstance(value, list):
            for one in value:
                self.learn(one)

    def of(self, value: Any) -> Any:
        if isinstance(value, dict):
            if "items" in value and isinstance(value.get("metadata"), dict):
                said = {
                    name: SOME_VERSION
                    for name in ("resourceVersion", "continue")
                    if value["metadata"].get(name)
                }
                value = {**value, "metadata": {**value["metadata"], **said}}
            if value.get("kind") == "Table":
                value = _without_ages(value)
            if value.get("kind") == "Status":
                value = _sort_causes(value)
            plain = {
                name: self._version(one) if name == "resourceVersion" else self.of(one)
                for name, one in value.items()
            }
            if isinstance(plain.get("managedFields"), list):
                plain["managedFields"].sort(key=_managed_fields_key)
            return plain
        if isinstance(value, list):
            return [self.of(one) for one in value]
        return self._text(value) if isinstance(value, str) else value

    def _version(self, version: Any) -> Any:
        if not isinstance(version, str) or not version.isdecimal():
            return self.of(version)
        if len(self._ranks) != len(self._versions):
            self._ranks = {each: rank for rank, each in enumerate(sorted(self._versions), 1)}
        rank = self._ranks.get(int(version))
        return f"version {rank}" if rank else version if len(version) < 2 else SOME_VERSION  # noqa: PLR2004

    def _text(self, text: str) -> str:
        if len(text) < len("10.0.0.0"):
            return text
        if found := _QUOTED.search(text):
            said = json.dumps(self.of(json.loads(json.loads(found[1]))), sort_keys=True)
            return f"{self._text(text[: found.start()])}{said}{self._text(text[found.end() :])}"
        text = _UNKNOWN_FIELDS.sub(lambda found: ", ".join(sorted(found[0].split(", "))), text)
        text = _UID.sub(lambda found: self._place("uid", found[0]), text)
        text = _TYPED_PATCH_ERROR.sub(
            _sort_patch_errors, _PATCH.sub("a patch", _STRUCT.sub("a struct", text))
        )
        text = _ADDRESS.sub(lambda found: self._place("address", found[0]), text)
        text = _TOKEN_VOLUME.sub(lambda found: self._place("token volume", found[0]), text)
        text = _VERSION.sub(lambda found: f"{found[1]}{self._version(found[2])}", text)
        return _TIME.sub("a time", text).replace(self._namespace, "the namespace")

    def _place(self, what: str, one: str) -> str:
        return self._places.setdefault(one, f"{what} {len(self._places) + 1}")


def _sort_patch_errors(found: re.Match[str]) -> str:
    """What does not fit is told in no order, and of several fields that nobody knows the first
    one that is met.
    """
    why = found[2]
    return f"{found[1]}: " + (
        "not all is declared" if "not declared" in why else "\n".join(sorted(why.split("\n")))
    )


def _without_ages(table: dict[str, Any]) -> dict[str, Any]:
    """A table without what depends on when it was asked for, and without the columns'
    descriptions.
    """
    columns = [{**column, "description": ""} for column in table.get("columnDefinitions", ())]
    names = [column["name"] for column in columns]
    rows = [
        {
            **row,
            "cells": [
                "an age" if name in AGE_COLUMNS else cell
                for name, cell in zip(names, row["cells"], strict=False)
            ],
        }
        for row in table.get("rows") or ()
    ]
    said = {
        name: SOME_VERSION
        for name in ("resourceVersion", "continue")
        if table["metadata"].get(name)
    }
    return {
        **table,
        "columnDefinitions": columns,
        "rows": rows,
        "metadata": {**table["metadata"], **said},
    }


def _sort_causes(status: dict[str, Any]) -> dict[str, Any]:
    """A refusal whose causes come in one order, each once; its message tells one cause, but not
    the order of several.
    """
    causes = (status.get("details") or {}).get("causes") or []
    if len(causes) < 2:  # noqa: PLR2004
        return status
    found = [dict(cause) for cause in sorted({tuple(sorted(cause.items())) for cause in causes})]
    message, several = status["message"], len(found) > 1
    message = message.partition(" is invalid: ")[0] if several else message
    return {**status, "message": message, "details": {**status["details"], "causes": found}}


def _managed_fields_key(entry: Any) -> list[str]:
    """Entries of one second come in another order than those of two.

    A refusal may quote what is no entry at all.
    """
    if not isinstance(entry, dict):
        return [str(entry)]
    return [
        str(entry.get(name, "")) for name in ("operation", "manager", "apiVersion", "subresource")
    ]


CURRENT_VERSION, FIRST_VERSION = (
    "@now",
    "@then",
)  # the object's version when the request is made, and the first one that was asked for
OBJECT_UID, NAMESPACE = "@uid", "@namespace"
CONTINUE_TOKEN = "@token"  # noqa: S105  # the next page of the latest list that had one
PLACEHOLDERS = (CURRENT_VERSION, FIRST_VERSION, OBJECT_UID, NAMESPACE, CONTINUE_TOKEN)
EDIT = "EDIT"  # not HTTP's: read the object, lay the body over it, and PUT it back
SETTLING_PATCH = {"metadata": {"annotations": {"settled": "yes"}}}
OK, CREATED, NOT_FOUND = 200, 201, 404
ABSENT = "nothing"
LAST_OBJECT = "last"  # the object that ends a watch
WATCH_TIMEOUT = 20  # seconds for a watch to hear of it


@dataclass(frozen=True, slots=True)
class TwinStep:
    """One request. Its path is short, as in `configmaps/a`."""

    method: str
    path: str
    body: Any = None
    type: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    accept: str = "application/json"


@dataclass(frozen=True, slots=True)
class TwinTarget:
    """Where a sequence is played: a kind, the least body that it takes, and a namespace that is
    there.
    """

    plural: str
    least: Mapping[str, Any]
    namespace: str
    also: Mapping[str, str] = field(
        default_factory=dict
    )  # plural -> group and version of custom kinds
    # the server would write a new object once more when nothing changes: it is changed at once
    is_unsettled: bool = False


@dataclass(frozen=True, slots=True)
class TwinOutcome:
    """What came of a sequence: the answers, what watches told, and what was there in the end."""

    answers: list[Any]
    told: list[Any]
    left: list[Any]


def prepare_namespaces(road: CaseTransport, stages: Iterable[TwinTarget]) -> None:
    """Make the stages' namespaces, and wait until controllers have put into them what they need."""
    visitors = [
        CaseClient(road, namespace)
        for namespace in dict.fromkeys(stage.namespace for stage in stages)
    ]
    for visitor in visitors:
        visitor.call("POST", "/api/v1/namespaces", {"metadata": {"name": visitor.namespace}}).ok(
            CREATED
        )
    for visitor in visitors:
        visitor.settle()
        visitor.until(functools.partial(_has_certificate, visitor))


def _has_certificate(visitor: CaseClient) -> bool:
    return visitor.get("configmaps/kube-root-ca.crt").status == OK


def delete_leftovers(road: CaseTransport, stages: Iterable[TwinTarget]) -> None:
    """Take everything off the stages that can be taken."""
    for stage in stages:
        visitor = CaseClient(road, stage.namespace, also=stage.also)
        for item in visitor.get(stage.plural).ok()["items"]:
            delete_object(visitor, f"{stage.plural}/{item['metadata']['name']}", item)


def run_steps(
    road: CaseTransport, stage: TwinTarget, moves: Sequence[TwinStep], watching: Mapping[str, str]
) -> TwinOutcome:
    """Make the requests, then watch twice from the beginning: everything, and by the selectors
    in `watching`.
    """
    visitor = CaseClient(road, stage.namespace, also=stage.also)
    start = visitor.get(stage.plural).ok()
    before = {item["metadata"]["uid"] for item in start["items"]}
    version = start["metadata"]["resourceVersion"]
    try:
        memory = ClientState(visitor, version)
        answers = [send_step(visitor, stage, move, memory) for move in moves]
        left = _created_objects(visitor, stage.plural, before)
    finally:
        for item in _created_objects(visitor, stage.plural, before):
            delete_object(visitor, f"{stage.plural}/{item['metadata']['name']}", item)
    told = collect_watch_events(visitor, stage, version, watching)
    plain = StoryNormalizer(stage.namespace)
    plain.learn([answers, left, told])
    return TwinOutcome(plain.of(answers), plain.of(told), plain.of(left))


def first_difference(moves: Sequence[TwinStep], one: TwinOutcome, other: TwinOutcome) -> str:
    """Where two stories part, in words; empty if they do not."""
    for number, move in enumerate(moves):
        if where := _first_difference_at(one.answers[number], other.answers[number], "answer"):
            return f"request {number + 1}, {move.method} {move.path}: {where}"
    return _first_difference_at(one.told, other.told, "told") or _first_difference_at(
        one.left, other.left, "left"
    )


def _first_difference_at(one: Any, other: Any, path: str) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        parts = (
            _first_difference_at(one.get(name, ABSENT), other.get(name, ABSENT), f"{path}.{name}")
            for name in {**one, **other}
        )
        return next(filter(None, parts), "")
    if isinstance(one, list) and isinstance(other, list):
        pairs = enumerate(itertools.zip_longest(one, other, fillvalue=ABSENT))
        return next(
            filter(
                None, (_first_difference_at(*pair, f"{path}[{place}]") for place, pair in pairs)
            ),
            "",
        )
    return "" if one == other and type(one) is type(other) else f"{path}: {one!r} and {other!r}"


def overlay(base: Any, piece: Any) -> Any:
    """A piece laid over a base: maps by name, lists by position."""
    if isinstance(base, dict) and isinstance(piece, dict):
        both = {
            name: overlay(base[name], part) if name in base else part
            for name, part in piece.items()
        }
        return {**base, **both}
    if isinstance(base, list) and isinstance(piece, list):
        return (
            [overlay(*pair) for pair in zip(base, piece, strict=False)]
            + base[len(piece) :]
            + piece[len(base) :]
        )
    return piece


class ClientState:
    """What a client keeps in mind during a sequence."""

    def __init__(self, visitor: CaseClient, start: str) -> None:
        self._visitor = visitor
        self._start = start
        self._first: dict[str, str] = {}
        self._token = ""

    def note(self, answer: CaseResponse) -> None:
        metadata = answer.body.get("metadata") if isinstance(answer.body, dict) else None
        if metadata and metadata.get("continue"):
            self._token = metadata["continue"]

    def meaning(self, word: str, place: str) -> str:
        if word == NAMESPACE:
            return self._visitor.namespace
        if word == CONTINUE_TOKEN:
            return self._token
        found = self._visitor.get(place) if "/" in place else None
        metadata = (
            found.body["metadata"]
            if found and found.status == OK
            else {"resourceVersion": self._start, "uid": "nobody's"}
        )
        if word == FIRST_VERSION:
            return self._first.setdefault(place, metadata["resourceVersion"])
        return str(metadata["uid" if word == OBJECT_UID else "resourceVersion"])


def send_step(visitor: CaseClient, stage: TwinTarget, move: TwinStep, memory: ClientState) -> Any:
    place = "/".join(move.path.split("/")[:2])
    meanings = {
        word: memory.meaning(word, place)
        for word in _placeholders_in([move.body, *(value for _, value in move.query)])
    }
    body, query = move.body, dict(move.query)
    if meanings:
        body, query = _substitute(body, meanings), _substitute(query, meanings)
    method = move.method
    if method == EDIT:
        method, now = "PUT", visitor.get(move.path)
        body = overlay(now.body, body) if now.status == OK else body
    answer = visitor.send(method, move.path, body, move.type, query, {"Accept": move.accept})
    memory.note(answer)
    warnings = sorted(
        answer.headers.get("warning", "").removeprefix("299 ").split(", 299 ")
    )  # of several, it is chance which is first
    if method == "PATCH" and answer.status == NOT_FOUND:
        # the real server's cache may still know an object that is gone, and look at the patch
        warnings = []
    if answer.status == CREATED and stage.is_unsettled and query.get("dryRun") != "All":
        visitor.patch(
            f"{stage.plural}/{answer.body['metadata']['name']}",
            SETTLING_PATCH,
            fieldManager="settler",
        )
    return [answer.status, answer.headers.get("content-type"), warnings, answer.body]


def _placeholders_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from (word for word in PLACEHOLDERS if word in value)
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _placeholders_in(part)


def _substitute(value: Any, meanings: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _substitute(part, meanings) for name, part in value.items()}
    if isinstance(value, list):
        return [_substitute(part, meanings) for part in value]
    if isinstance(value, str):
        for word, meaning in meanings.items():
            value = value.replace(word, meaning)
    return value


def collect_watch_events(
    visitor: CaseClient, stage: TwinTarget, start: str, watching: Mapping[str, str]
) -> list[Any]:
    """What watches from the beginning tell, up to a last object made for this."""
    last = overlay(dict(stage.least), {"metadata": {"name": LAST_OBJECT, "labels": {"tier": "x"}}})
    path = f"{stage.plural}/{LAST_OBJECT}"
    meanings = {NAMESPACE: stage.namespace}
    visitor.call("POST", stage.plural, _substitute(last, meanings)).ok(CREATED)
    heard = [
        _until_last(visitor, stage.plural, {**query, "resourceVersion": start})
        for query in ({}, watching)
    ]
    delete_object(visitor, path, visitor.get(path).ok())
    return heard


def _until_last(visitor: CaseClient, plural: str, query: Mapping[str, str]) -> list[Any]:
    heard = []
    with visitor.watch(plural, timeoutSeconds=WATCH_TIMEOUT, **query) as stream:
        while (event := next(stream))["type"] == "ERROR" or event["object"]["metadata"][
            "name"
        ] != LAST_OBJECT:
            heard.append([event["type"], event["object"]])
    return heard


def _created_objects(visitor: CaseClient, plural: str, before: set[str]) -> list[Any]:
    return [
        item for item in visitor.get(plural).ok()["items"] if item["metadata"]["uid"] not in before
    ]


def delete_object(visitor: CaseClient, path: str, item: Any) -> None:
    if item["metadata"].get("finalizers"):
        visitor.patch(path, {"metadata": {"finalizers": None}})
    visitor.delete(path, gracePeriodSeconds=0, propagationPolicy="Background")
