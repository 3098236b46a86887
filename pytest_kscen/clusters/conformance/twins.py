"""The same requests to two servers, and what each made of them, in words that do not depend on the server.

A request may speak of what only its server knows by words such as NOW, the version that the object has by then. The
server must have no controllers, or none that get a turn, or else their doings are in the story too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.plain import Plain
from pytest_kscen.clusters.conformance.visitor import Answer, Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_kscen.clusters.conformance.transport import Transport

NOW, THEN = "@now", "@then"  # the object's version when the request is made, and the first one that was asked for
UID, NAMESPACE = "@uid", "@namespace"
TOKEN = "@token"  # noqa: S105  # the next page of the latest list that had one
WORDS = (NOW, THEN, UID, NAMESPACE, TOKEN)
EDIT = "EDIT"  # not HTTP's: read the object, lay the body over it, and PUT it back
SETTLED = {"metadata": {"annotations": {"settled": "yes"}}}
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


def play(road: Transport, stage: Stage, moves: Sequence[Move], watching: Mapping[str, str]) -> Story:
    """Make the requests, then watch twice from the beginning: everything, and by the selectors in `watching`."""
    visitor = Visitor(road, stage.namespace, also=stage.also)
    start = visitor.get(stage.plural).ok()
    before = {item["metadata"]["uid"] for item in start["items"]}
    memory = _Memory(visitor, start["metadata"]["resourceVersion"])
    try:
        answers = [_make(visitor, stage, move, memory) for move in moves]
        left = _ours(visitor, stage.plural, before)
    finally:
        for item in _ours(visitor, stage.plural, before):
            _clear(visitor, f"{stage.plural}/{item['metadata']['name']}", item)
    told = _heard(visitor, stage, start["metadata"]["resourceVersion"], watching)
    plain = Plain(stage.namespace)
    plain.learn([answers, left, told])
    return Story(plain.of(answers), plain.of(told), plain.of(left))


def overlaid(base: Any, piece: Any) -> Any:
    """A piece laid over a base: maps by name, lists by position."""
    if isinstance(base, dict) and isinstance(piece, dict):
        both = {name: overlaid(base[name], part) if name in base else part for name, part in piece.items()}
        return {**base, **both}
    if isinstance(base, list) and isinstance(piece, list):
        return [overlaid(*pair) for pair in zip(base, piece, strict=False)] + base[len(piece) :] + piece[len(base) :]
    return piece


class _Memory:
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
        metadata = found.body["metadata"] if found and found.status == 200 else {"resourceVersion": self._start, "uid": "nobody's"}  # noqa: PLR2004
        if word == THEN:
            return self._first.setdefault(place, metadata["resourceVersion"])
        return str(metadata["uid" if word == UID else "resourceVersion"])


def _make(visitor: Visitor, stage: Stage, move: Move, memory: _Memory) -> Any:
    place = "/".join(move.path.split("/")[:2])
    meanings = {word: memory.meaning(word, place) for word in _words_in([move.body, *(value for _, value in move.query)])}
    body, query = move.body, dict(move.query)
    if meanings:
        body, query = _translated(body, meanings), _translated(query, meanings)
    method = move.method
    if method == EDIT:
        method, now = "PUT", visitor.get(move.path)
        body = overlaid(now.body, body) if now.status == 200 else body  # noqa: PLR2004
    answer = visitor.send(method, move.path, body, move.type, query, {"Accept": move.accept})
    memory.note(answer)
    warnings = sorted(
        answer.headers.get("warning", "").removeprefix("299 ").split(", 299 ")
    )  # of several, it is chance which is first
    if method == "PATCH" and answer.status == 404:  # noqa: PLR2004
        warnings = []  # the real server's cache may still know an object that is gone, and look at the patch
    if answer.status == 201 and stage.is_unsettled and query.get("dryRun") != "All":  # noqa: PLR2004
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


def _heard(visitor: Visitor, stage: Stage, start: str, watching: Mapping[str, str]) -> list[Any]:
    """What watches from the beginning tell, up to a last object made for this."""
    last = overlaid(dict(stage.least), {"metadata": {"name": LAST, "labels": {"tier": "x"}}})
    path = f"{stage.plural}/{LAST}"
    meanings = {NAMESPACE: stage.namespace}
    visitor.call("POST", stage.plural, _translated(last, meanings)).ok(201)
    heard = [_until_last(visitor, stage.plural, {**query, "resourceVersion": start}) for query in ({}, watching)]
    _clear(visitor, path, visitor.get(path).ok())
    return heard


def _until_last(visitor: Visitor, plural: str, query: Mapping[str, str]) -> list[Any]:
    heard = []
    with visitor.watch(plural, timeoutSeconds=PATIENCE, **query) as stream:
        while (event := next(stream))["type"] == "ERROR" or event["object"]["metadata"]["name"] != LAST:
            heard.append([event["type"], event["object"]])
    return heard


def _ours(visitor: Visitor, plural: str, before: set[str]) -> list[Any]:
    return [item for item in visitor.get(plural).ok()["items"] if item["metadata"]["uid"] not in before]


def _clear(visitor: Visitor, path: str, item: Any) -> None:
    if item["metadata"].get("finalizers"):
        visitor.patch(path, {"metadata": {"finalizers": None}})
    visitor.delete(path, gracePeriodSeconds=0, propagationPolicy="Background")
