"""The kit can fail: each of these servers has one thing wrong, and some case says so."""

from __future__ import annotations

import itertools

import orjson
import pytest

from pytest_kscen.clusters.conformance import InProcessTransport, load
from pytest_kscen.clusters.conformance.case import RawResponse
from pytest_kscen.clusters.embedded import EmbeddedCluster

CASES = load()
STRIDE = 7  # of the cases every so many are tried first: neighbours find the same


class Faulty:
    """A road to a server that is right, past somebody who is not."""

    def __init__(
        self,
        transport,
        *,
        asked=lambda query, headers: query,
        answered=lambda status, body: (status, body),
        watched=iter,
    ):
        self._transport = transport
        self._asked, self._answered, self._watched = asked, answered, watched
        self.wait = transport.wait

    def call(self, method, path, query, headers, body):
        raw = self._transport.call(method, path, self._asked(query, headers), headers, body)
        if not raw.body.startswith(b"{"):
            return raw
        status, changed = self._answered(raw.status, orjson.loads(raw.body))
        return RawResponse(status, raw.headers, orjson.dumps(changed))

    def stream(self, path, query):
        return _Watched(self._transport.stream(path, query), self._watched)


class _Watched:
    def __init__(self, stream, watched):
        self.close = stream.close
        self._events = watched(iter(lambda: next(stream), None))

    def __next__(self):
        return next(self._events)


def without(field):
    def answered(status, body):
        metadata = body.get("metadata")
        if isinstance(metadata, dict):
            body = {
                **body,
                "metadata": {name: part for name, part in metadata.items() if name != field},
            }
        return status, body

    return answered


def ignoring(parameter):
    return lambda query, headers: {
        name: value for name, value in query.items() if name != parameter
    }


def forcing(query, headers):
    return {**query, "force": "true"} if "apply" in headers.get("Content-Type", "") else query


FAULTS = {
    "no generation": {"answered": without("generation")},
    "no uid": {"answered": without("uid")},
    "no owners of fields": {"answered": without("managedFields")},
    "no versions": {"answered": without("resourceVersion")},
    "conflicts are fine": {
        "answered": lambda status, body: (200 if status == 409 else status, body)
    },
    "what is invalid is a bad request": {
        "answered": lambda status, body: (400 if status == 422 else status, body)
    },
    "no causes": {
        "answered": lambda status, body: (
            status,
            {**body, "details": {}} if body.get("kind") == "Status" else body,
        )
    },
    "dry runs are not dry": {"asked": ignoring("dryRun")},
    "selectors select nothing": {"asked": ignoring("labelSelector")},
    "one page for all": {"asked": ignoring("limit")},
    "anybody may take a field": {"asked": forcing},
    "deletions are not told": {
        "watched": lambda events: (event for event in events if event["type"] != "DELETED")
    },
    "everything is new": {
        "watched": lambda events: ({**event, "type": "ADDED"} for event in events)
    },
}


@pytest.fixture
def right():
    """A server of one's own: a case that fails half-way leaves things behind."""
    cluster = EmbeddedCluster("faulty", nodes=0)
    yield InProcessTransport(cluster)
    cluster.close()


def first_failure(transport):
    tried = itertools.chain.from_iterable(CASES[start::STRIDE] for start in range(STRIDE))
    for number, case in enumerate(tried, 1):
        try:
            case.run(transport, number)
        except (AssertionError, LookupError, TypeError, StopIteration, RuntimeError) as error:
            return f"{case.name}: {error!r}"
    return ""


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_faulty_server_is_found_out(right, fault):
    assert first_failure(Faulty(right, **fault))


def test_whoever_changes_nothing_is_not_suspected(right):
    transport = Faulty(right)
    for number, case in enumerate(CASES[::STRIDE]):
        case.run(transport, number)
