"""Differential tests: the same requests to two servers, and the first difference of their outcomes.

Values that only one server can know are written as placeholders in a step (such as CURRENT_VERSION)
and normalized in its outcome. Controllers must be absent or stopped on both servers, otherwise
their writes are part of the outcome.
"""

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
)  # in random order
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
    """Normalizer of one outcome: replaces uids, times, versions and addresses by their rank among
    their kind, so that equality and order remain visible. Lists that Kubernetes fills from Go maps,
    in random order, are sorted.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._versions: set[int] = set()
        self._ranks: dict[int, int] = {}
        self._places: dict[str, str] = {}

    def collect_versions(self, value: Any) -> None:
        """Collect the resource versions of objects. Those of lists count all writes of a server and
        are ignored.
        """
        if isinstance(value, dict):
            version = value.get("resourceVersion")
            if isinstance(version, str) and version.isdecimal() and "uid" in value:
                self._versions.add(int(version))
            for one in value.values():
                self.collect_versions(one)
        elif isinstance(value, list):
            for one in value:
                self.collect_versions(one)

    def of(self, value: Any) -> Any:
        if isinstance(value, dict):
            if "items" in value and isinstance(value.get("metadata"), dict):
                masked = {
                    name: SOME_VERSION
                    for name in ("resourceVersion", "continue")
                    if value["metadata"].get(name)
                }
                value = {**value, "metadata": {**value["metadata"], **masked}}
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
        if rank:
            return f"version {rank}"
        return version if len(version) < 2 else SOME_VERSION  # noqa: PLR2004

    def _text(self, text: str) -> str:
        if len(text) < len("10.0.0.0"):
            return text
        if found := _QUOTED.search(text):
            masked = json.dumps(self.of(json.loads(json.loads(found[1]))), sort_keys=True)
            return f"{self._text(text[: found.start()])}{masked}{self._text(text[found.end() :])}"
        text = _UNKNOWN_FIELDS.sub(lambda found: ", ".join(sorted(found[0].split(", "))), text)
        text = _UID.sub(lambda found: self._name_by_rank("uid", found[0]), text)
        text = _TYPED_PATCH_ERROR.sub(
            _sort_patch_errors, _PATCH.sub("a patch", _STRUCT.sub("a struct", text))
        )
        text = _ADDRESS.sub(lambda found: self._name_by_rank("address", found[0]), text)
        text = _TOKEN_VOLUME.sub(lambda found: self._name_by_rank("token volume", found[0]), text)
        text = _VERSION.sub(lambda found: f"{found[1]}{self._version(found[2])}", text)
        return _TIME.sub("a time", text).replace(self._namespace, "the namespace")

    def _name_by_rank(self, what: str, one: str) -> str:
        return self._places.setdefault(one, f"{what} {len(self._places) + 1}")


def _sort_patch_errors(found: re.Match[str]) -> str:
    """Sort the errors of a typed patch, whose order is random; of several undeclared fields only
    one is named.
    """
    why = found[2]
    return f"{found[1]}: " + (
        "not all is declared" if "not declared" in why else "\n".join(sorted(why.split("\n")))
    )


def _without_ages(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without values that depend on the time of the request, and without
    descriptions of columns.
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
    masked = {
        name: SOME_VERSION
        for name in ("resourceVersion", "continue")
        if table["metadata"].get(name)
    }
    return {
        **table,
        "columnDefinitions": columns,
        "rows": rows,
        "metadata": {**table["metadata"], **masked},
    }


def _sort_causes(status: dict[str, Any]) -> dict[str, Any]:
    """Return a refusal with its causes sorted and unique, and a message without their order."""
    causes = (status.get("details") or {}).get("causes") or []
    if len(causes) < 2:  # noqa: PLR2004
        return status
    found = [dict(cause) for cause in sorted({tuple(sorted(cause.items())) for cause in causes})]
    message, several = status["message"], len(found) > 1
    message = message.partition(" is invalid: ")[0] if several else message
    return {**status, "message": message, "details": {**status["details"], "causes": found}}


def _managed_fields_key(entry: Any) -> list[str]:
    """Sort key of managedFields entries, whose order depends on whether they were written within
    one second.
    """
    if not isinstance(entry, dict):
        return [str(entry)]
    return [
        str(entry.get(name, "")) for name in ("operation", "manager", "apiVersion", "subresource")
    ]


CURRENT_VERSION, FIRST_VERSION = (
    "@now",
    "@then",
)  # version at the time of the request; first version that a step used
OBJECT_UID, NAMESPACE = "@uid", "@namespace"
CONTINUE_TOKEN = "@token"  # noqa: S105  # the next page of the latest list that had one
PLACEHOLDERS = (CURRENT_VERSION, FIRST_VERSION, OBJECT_UID, NAMESPACE, CONTINUE_TOKEN)
EDIT = "EDIT"  # not HTTP's: read the object, lay the body over it, and PUT it back
SETTLING_PATCH = {"metadata": {"annotations": {"settled": "yes"}}}
OK, CREATED, NOT_FOUND = 200, 201, 404
ABSENT = "nothing"
LAST_OBJECT = "last"  # the object that ends a watch
WATCH_TIMEOUT = 20  # seconds for a watch to deliver the last object


@dataclass(frozen=True, slots=True)
class TwinStep:
    """Request of a sequence. Its path is short, as in `configmaps/a`."""

    method: str
    path: str
    body: Any = None
    type: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    accept: str = "application/json"


@dataclass(frozen=True, slots=True)
class TwinTarget:
    """Resource that a sequence works on, the minimal body that it accepts, and an existing
    namespace.
    """

    plural: str
    minimal_body: Mapping[str, Any]
    namespace: str
    group_versions: Mapping[str, str] = field(
        default_factory=dict
    )  # plural -> group and version of custom kinds
    # the server would write a new object once more when nothing changes: it is changed at once
    needs_extra_write: bool = False


@dataclass(frozen=True, slots=True)
class TwinOutcome:
    """Outcome of a sequence: responses, events of watches, and remaining objects, all
    normalized.
    """

    answers: list[Any]
    watched: list[Any]
    remaining: list[Any]


def prepare_namespaces(transport: CaseTransport, targets: Iterable[TwinTarget]) -> None:
    """Create the targets' namespaces, and wait until controllers have filled them."""
    clients = [
        CaseClient(transport, namespace)
        for namespace in dict.fromkeys(target.namespace for target in targets)
    ]
    for client in clients:
        client.call("POST", "/api/v1/namespaces", {"metadata": {"name": client.namespace}}).ok(
            CREATED
        )
    for client in clients:
        client.wait_for_service_account()
        client.until(functools.partial(_has_root_certificate, client))


def _has_root_certificate(client: CaseClient) -> bool:
    return client.get("configmaps/kube-root-ca.crt").status == OK


def delete_leftovers(transport: CaseTransport, targets: Iterable[TwinTarget]) -> None:
    for target in targets:
        client = CaseClient(transport, target.namespace, group_versions=target.group_versions)
        for item in client.get(target.plural).ok()["items"]:
            delete_object(client, f"{target.plural}/{item['metadata']['name']}", item)


def run_steps(
    transport: CaseTransport,
    target: TwinTarget,
    steps: Sequence[TwinStep],
    selectors: Mapping[str, str],
) -> TwinOutcome:
    """Send the requests, then watch twice from the beginning: everything, and by `selectors`.
    Returns the normalized outcome; objects created by the steps are deleted.
    """
    client = CaseClient(transport, target.namespace, group_versions=target.group_versions)
    start = client.get(target.plural).ok()
    before = {item["metadata"]["uid"] for item in start["items"]}
    version = start["metadata"]["resourceVersion"]
    try:
        state = ClientState(client, version)
        answers = [send_step(client, target, step, state) for step in steps]
        remaining = _created_objects(client, target.plural, before)
    finally:
        for item in _created_objects(client, target.plural, before):
            delete_object(client, f"{target.plural}/{item['metadata']['name']}", item)
    watched = collect_watch_events(client, target, version, selectors)
    plain = StoryNormalizer(target.namespace)
    plain.collect_versions([answers, remaining, watched])
    return TwinOutcome(plain.of(answers), plain.of(watched), plain.of(remaining))


def first_difference(steps: Sequence[TwinStep], one: TwinOutcome, other: TwinOutcome) -> str:
    """Return a description of the first difference of two outcomes; empty if they are equal."""
    for number, step in enumerate(steps):
        if where := _first_difference_at(one.answers[number], other.answers[number], "answer"):
            return f"request {number + 1}, {step.method} {step.path}: {where}"
    return _first_difference_at(one.watched, other.watched, "watched") or _first_difference_at(
        one.remaining, other.remaining, "left"
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
    """Return `base` with `piece` laid over it: objects by name, lists by position."""
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
    """Values that a client keeps during a sequence: versions, and the token of the next page."""

    def __init__(self, client: CaseClient, start: str) -> None:
        self._visitor = client
        self._start = start
        self._first: dict[str, str] = {}
        self._token = ""

    def remember_token(self, answer: CaseResponse) -> None:
        metadata = answer.body.get("metadata") if isinstance(answer.body, dict) else None
        if metadata and metadata.get("continue"):
            self._token = metadata["continue"]

    def value_of(self, word: str, place: str) -> str:
        if word == NAMESPACE:
            return self._visitor.namespace
        if word == CONTINUE_TOKEN:
            return self._token
        found = self._visitor.get(place) if "/" in place else None
        metadata = (
            found.body["metadata"]
            if found and found.status == OK
            else {"resourceVersion": self._start, "uid": "no such uid"}
        )
        if word == FIRST_VERSION:
            return self._first.setdefault(place, metadata["resourceVersion"])
        return str(metadata["uid" if word == OBJECT_UID else "resourceVersion"])


def send_step(client: CaseClient, target: TwinTarget, step: TwinStep, state: ClientState) -> Any:
    place = "/".join(step.path.split("/")[:2])
    values = {
        word: state.value_of(word, place)
        for word in _placeholders_in([step.body, *(value for _, value in step.query)])
    }
    body, query = step.body, dict(step.query)
    if values:
        body, query = _substitute(body, values), _substitute(query, values)
    method = step.method
    if method == EDIT:
        method, now = "PUT", client.get(step.path)
        body = overlay(now.body, body) if now.status == OK else body
    answer = client.send(method, step.path, body, step.type, query, {"Accept": step.accept})
    state.remember_token(answer)
    warnings = sorted(
        answer.headers.get("warning", "").removeprefix("299 ").split(", 299 ")
    )  # of several, it is chance which is first
    if method == "PATCH" and answer.status == NOT_FOUND:
        # the real server's cache may still know an object that is gone, and look at the patch
        warnings = []
    if answer.status == CREATED and target.needs_extra_write and query.get("dryRun") != "All":
        client.patch(
            f"{target.plural}/{answer.body['metadata']['name']}",
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


def _substitute(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _substitute(part, values) for name, part in value.items()}
    if isinstance(value, list):
        return [_substitute(part, values) for part in value]
    if isinstance(value, str):
        for word, value_of in values.items():
            value = value.replace(word, value_of)
    return value


def collect_watch_events(
    client: CaseClient, target: TwinTarget, start: str, selectors: Mapping[str, str]
) -> list[Any]:
    """Return the events of watches from `start` on, up to a last object that is created for
    this.
    """
    last = overlay(
        dict(target.minimal_body), {"metadata": {"name": LAST_OBJECT, "labels": {"tier": "x"}}}
    )
    path = f"{target.plural}/{LAST_OBJECT}"
    values = {NAMESPACE: target.namespace}
    client.call("POST", target.plural, _substitute(last, values)).ok(CREATED)
    events = [
        _events_until_last(client, target.plural, {**query, "resourceVersion": start})
        for query in ({}, selectors)
    ]
    delete_object(client, path, client.get(path).ok())
    return events


def _events_until_last(client: CaseClient, plural: str, query: Mapping[str, str]) -> list[Any]:
    events = []
    with client.watch(plural, timeoutSeconds=WATCH_TIMEOUT, **query) as stream:
        while (event := next(stream))["type"] == "ERROR" or event["object"]["metadata"][
            "name"
        ] != LAST_OBJECT:
            events.append([event["type"], event["object"]])
    return events


def _created_objects(client: CaseClient, plural: str, before: set[str]) -> list[Any]:
    return [
        item for item in client.get(plural).ok()["items"] if item["metadata"]["uid"] not in before
    ]


def delete_object(client: CaseClient, path: str, item: Any) -> None:
    if item["metadata"].get("finalizers"):
        client.patch(path, {"metadata": {"finalizers": None}})
    client.delete(path, gracePeriodSeconds=0, propagationPolicy="Background")
