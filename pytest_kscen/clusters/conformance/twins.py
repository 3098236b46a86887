"""The same requests to two servers, and what each made of them, in words that do not depend on the server.

Uids, times and versions differ from server to server; what must not differ is which of them are equal and which come
first. So each is replaced by its place among its like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.conformance.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.clusters.conformance.transport import Transport

OURS = {"kscen.io/twins": "yes"}
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
CURRENT, STALE = "the current version", "a stale version"
"""A body's resourceVersion may be one of these words: the object's own when the request is made, or its first."""


@dataclass(frozen=True, slots=True)
class Move:
    """One request."""

    method: str
    path: str
    body: Any = None
    type: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """What came of a sequence: the answers, what a watch told, and what was there in the end."""

    answers: list[Any]
    told: list[Any]
    left: list[Any]


def play(road: Transport, namespace: str, moves: Sequence[Move], plurals: Sequence[str]) -> Story:
    """Make the requests in a namespace that is there; everything of ours is gone from it afterwards."""
    visitor = Visitor(road, namespace)
    starts = {plural: visitor.get(plural, labelSelector=_selector()).ok()["metadata"]["resourceVersion"] for plural in plurals}
    first: dict[str, str] = {}
    answers = [_make(visitor, move, first) for move in moves]
    left = [visitor.get(plural, labelSelector=_selector()).ok()["items"] for plural in plurals]
    for plural in plurals:
        _clear(visitor, plural)
    told = [_heard(visitor, plural, starts[plural]) for plural in plurals]
    plain = _Plain(namespace)
    plain.learn([answers, left, told])
    return Story(plain.of(answers), plain.of(told), plain.of(left))


def _make(visitor: Visitor, move: Move, first: dict[str, str]) -> Any:
    body = move.body
    asked = body.get("metadata", {}).get("resourceVersion") if isinstance(body, dict) else None
    if asked in {CURRENT, STALE}:
        place = "/".join(move.path.split("/")[:2])
        now = visitor.get(place)
        version = now.body["metadata"]["resourceVersion"] if now.status == 200 else "1"  # noqa: PLR2004
        version = first.setdefault(place, version) if asked == STALE else version
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
    query: dict[str, Any] = dict(move.query)
    answer = visitor.call(move.method, move.path, body, type=move.type, **query)
    return [answer.status, answer.headers.get("warning"), answer.body]


def _heard(visitor: Visitor, plural: str, start: str) -> list[Any]:
    """What a watch from the beginning tells, up to a last object made for this."""
    visitor.post(plural, last_of(plural)).ok(201)
    heard = []
    with visitor.watch(plural, resourceVersion=start, labelSelector=_selector(), timeoutSeconds=20) as stream:
        while (event := next(stream))["object"]["metadata"]["name"] != "last":
            heard.append([event["type"], event["object"]])
    visitor.delete(f"{plural}/last")
    return heard


def last_of(plural: str) -> dict[str, Any]:
    """The least body that this resource takes."""
    spec = {"podtemplates": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}
    return {"metadata": {"name": "last", "labels": OURS}, **spec.get(plural, {})}


def _clear(visitor: Visitor, plural: str) -> None:
    for item in visitor.get(plural, labelSelector=_selector()).ok()["items"]:
        path = f"{plural}/{item['metadata']['name']}"
        if item["metadata"].get("finalizers"):
            visitor.patch(path, {"metadata": {"finalizers": None}})
        visitor.delete(path, gracePeriodSeconds=0)


def _selector() -> str:
    return ",".join(f"{key}={value}" for key, value in OURS.items())


class _Plain:
    """Replaces what one server alone could say."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._versions: set[int] = set()
        self._uids: dict[str, str] = {}

    def learn(self, value: Any) -> None:
        """Gather the versions of objects; a list's own version counts the whole server's writes and says nothing."""
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
            return {key: self._version(one) if key == "resourceVersion" else self.of(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.of(one) for one in value]
        return self._text(value) if isinstance(value, str) else value

    def _version(self, version: Any) -> Any:
        if isinstance(version, str) and version.isdecimal():
            if int(version) not in self._versions:
                return "some version"
            return f"version {sorted(self._versions).index(int(version)) + 1}"
        return self.of(version)

    def _text(self, text: str) -> str:
        text = _UID.sub(lambda uid: self._uids.setdefault(uid[0], f"uid {len(self._uids) + 1}"), text)
        return _TIME.sub("a time", text).replace(self._namespace, "the namespace")
