"""The same requests to two servers, and what each made of them, in words that do not depend on the server.

A request may speak of what only its server knows by words such as NOW, the version that the object has by then. The
server must have no controllers, or none that get a turn, or else their doings are in the story too.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.plain import Plain
from pytest_kscen.clusters.conformance.visitor import Answer, Visitor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kscen.clusters.conformance.transport import Transport

NOW, THEN = "@now", "@then"  # the object's version when the request is made, and the first one that was asked for
UID, NAMESPACE = "@uid", "@namespace"
TOKEN = "@token"  # noqa: S105  # the next page of the latest list that had one
WORDS = (NOW, THEN, UID, NAMESPACE, TOKEN)
EDIT = "EDIT"  # not HTTP's: read the object, lay the body over it, and PUT it back
SETTLED = {"metadata": {"annotations": {"settled": "yes"}}}
OK, CREATED, NOT_FOUND = 200, 201, 404
NOTHING = "nothing"
LAST = "last"  # the object that ends a watch
PATIENCE = 20  # seconds for a watch to hear of it


@dataclass(frozen=True, slots=True)
class Move:
    """One request. Its path is short, as in `configmaps/a`."""

    method: str
    path: str
    body: Any = None
    type: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    accept: str = "application/json"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a sequence is played: a kind, the least body that it takes, and a namespace that is there."""

    plural: str
    least: Mapping[str, Any]
    namespace: str
    also: Mapping[str, str] = field(default_factory=dict)  # plural -> group and version of custom kinds
    is_unsettled: bool = False  # the server would write a new object once more when nothing changes: it is changed at once


@dataclass(frozen=True, slots=True)
class Story:
    """What came of a sequence: the answers, what watches told, and what was there in the end."""

    answers: list[Any]
    told: list[Any]
    left: list[Any]


def furnish(road: Transport, stages: Iterable[Stage]) -> None:
    """Make the stages' namespaces, and wait until controllers have put into them what they need."""
    visitors = [Visitor(road, namespace) for namespace in dict.fromkeys(stage.namespace for stage in stages)]
    for visitor in visitors:
        visitor.call("POST", "/api/v1/namespaces", {"metadata": {"name": visitor.namespace}}).ok(CREATED)
    for visitor in visitors:
        visitor.settle()
        visitor.until(functools.partial(_has_certificate, visitor))


def _has_certificate(visitor: Visitor) -> bool:
    return visitor.get("configmaps/kube-root-ca.crt").status == OK


def sweep(road: Transport, stages: Iterable[Stage]) -> None:
    """Take everything off the stages that can be taken."""
    for stage in stages:
        visitor = Visitor(road, stage.namespace, also=stage.also)
        for item in visitor.get(stage.plural).ok()["items"]:
            clear(visitor, f"{stage.plural}/{item['metadata']['name']}", item)


def play(road: Transport, stage: Stage, moves: Sequence[Move], watching: Mapping[str, str]) -> Story:
    """Make the requests, then watch twice from the beginning: everything, and by the selectors in `watching`."""
    visitor = Visitor(road, stage.namespace, also=stage.also)
    start = visitor.get(stage.plural).ok()
    before = {item["metadata"]["uid"] for item in start["items"]}
    version = start["metadata"]["resourceVersion"]
    try:
        memory = Memory(visitor, version)
        answers = [make(visitor, stage, move, memory) for move in moves]
        left = _ours(visitor, stage.plural, before)
    finally:
        for item in _ours(visitor, stage.plural, before):
            clear(visitor, f"{stage.plural}/{item['metadata']['name']}", item)
    told = heard(visitor, stage, version, watching)
    plain = Plain(stage.namespace)
    plain.learn([answers, left, told])
    return Story(plain.of(answers), plain.of(told), plain.of(left))


def difference(moves: Sequence[Move], one: Story, other: Story) -> str:
    """Where two stories part, in words; empty if they do not."""
    for number, move in enumerate(moves):
        if where := _parting(one.answers[number], other.answers[number], "answer"):
            return f"request {number + 1}, {move.method} {move.path}: {where}"
    return _parting(one.told, other.told, "told") or _parting(one.left, other.left, "left")


def _parting(one: Any, other: Any, path: str) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        parts = (_parting(one.get(name, NOTHING), other.get(name, NOTHING), f"{path}.{name}") for name in {**one, **other})
        return next(filter(None, parts), "")
    if isinstance(one, list) and isinstance(other, list):
        pairs = enumerate(itertools.zip_longest(one, other, fillvalue=NOTHING))
        return next(filter(None, (_parting(*pair, f"{path}[{place}]") for place, pair in pairs)), "")
    return "" if one == other and type(one) is type(other) else f"{path}: {one!r} and {other!r}"


def overlaid(base: Any, piece: Any) -> Any:
    """A piece laid over a base: maps by name, lists by position."""
    if isinstance(base, dict) and isinstance(piece, dict):
        both = {name: overlaid(base[name], part) if name in base else part for name, part in piece.items()}
        return {**base, **both}
    if isinstance(base, list) and isinstance(piece, list):
        return [overlaid(*pair) for pair in zip(base, piece, strict=False)] + base[len(piece) :] + piece[len(base) :]
    return piece


class Memory:
    """What a client keeps in mind during a sequence."""

    def __init__(self, visitor: Visitor, start: str) -> None:
        self._visitor = visitor
        self._start = start
        self._first: dict[str, str] = {}
        self._token = ""

    def note(self, answer: Answer) -> None:
        metadata = answer.body.get("metadata") if isinstance(answer.body, dict) else None
        if metadata and metadata.get("continue"):
            self._token = metadata["continue"]

    def meaning(self, word: str, place: str) -> str:
        if word == NAMESPACE:
            return self._visitor.namespace
        if word == TOKEN:
            return self._token
        found = self._visitor.get(place) if "/" in place else None
        metadata = found.body["metadata"] if found and found.status == OK else {"resourceVersion": self._start, "uid": "nobody's"}
        if word == THEN:
            return self._first.setdefault(place, metadata["resourceVersion"])
        return str(metadata["uid" if word == UID else "resourceVersion"])


def make(visitor: Visitor, stage: Stage, move: Move, memory: Memory) -> Any:
    place = "/".join(move.path.split("/")[:2])
    meanings = {word: memory.meaning(word, place) for word in _words_in([move.body, *(value for _, value in move.query)])}
    body, query = move.body, dict(move.query)
    if meanings:
        body, query = _translated(body, meanings), _translated(query, meanings)
    method = move.method
    if method == EDIT:
        method, now = "PUT", visitor.get(move.path)
        body = overlaid(now.body, body) if now.status == OK else body
    answer = visitor.send(method, move.path, body, move.type, query, {"Accept": move.accept})
    memory.note(answer)
    warnings = sorted(
        answer.headers.get("warning", "").removeprefix("299 ").split(", 299 ")
    )  # of several, it is chance which is first
    if method == "PATCH" and answer.status == NOT_FOUND:
        warnings = []  # the real server's cache may still know an object that is gone, and look at the patch
    if answer.status == CREATED and stage.is_unsettled and query.get("dryRun") != "All":
        visitor.patch(f"{stage.plural}/{answer.body['metadata']['name']}", SETTLED, fieldManager="settler")
    return [answer.status, answer.headers.get("content-type"), warnings, answer.body]


def _words_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from (word for word in WORDS if word in value)
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _words_in(part)


def _translated(value: Any, meanings: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _translated(part, meanings) for name, part in value.items()}
    if isinstance(value, list):
        return [_translated(part, meanings) for part in value]
    if isinstance(value, str):
        for word, meaning in meanings.items():
            value = value.replace(word, meaning)
    return value


def heard(visitor: Visitor, stage: Stage, start: str, watching: Mapping[str, str]) -> list[Any]:
    """What watches from the beginning tell, up to a last object made for this."""
    last = overlaid(dict(stage.least), {"metadata": {"name": LAST, "labels": {"tier": "x"}}})
    path = f"{stage.plural}/{LAST}"
    meanings = {NAMESPACE: stage.namespace}
    visitor.call("POST", stage.plural, _translated(last, meanings)).ok(CREATED)
    heard = [_until_last(visitor, stage.plural, {**query, "resourceVersion": start}) for query in ({}, watching)]
    clear(visitor, path, visitor.get(path).ok())
    return heard


def _until_last(visitor: Visitor, plural: str, query: Mapping[str, str]) -> list[Any]:
    heard = []
    with visitor.watch(plural, timeoutSeconds=PATIENCE, **query) as stream:
        while (event := next(stream))["type"] == "ERROR" or event["object"]["metadata"]["name"] != LAST:
            heard.append([event["type"], event["object"]])
    return heard


def _ours(visitor: Visitor, plural: str, before: set[str]) -> list[Any]:
    return [item for item in visitor.get(plural).ok()["items"] if item["metadata"]["uid"] not in before]


def clear(visitor: Visitor, path: str, item: Any) -> None:
    if item["metadata"].get("finalizers"):
        visitor.patch(path, {"metadata": {"finalizers": None}})
    visitor.delete(path, gracePeriodSeconds=0, propagationPolicy="Background")
