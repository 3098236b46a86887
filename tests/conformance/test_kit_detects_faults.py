"""The kit detects faults: each faulty server fails at least one case."""

from __future__ import annotations

import itertools

import orjson
import pytest

from pytest_kscen.clusters.conformance import InProcessTransport, load
from pytest_kscen.clusters.conformance.case import RawResponse
from pytest_kscen.clusters.embedded import EmbeddedCluster

CASES = load()
STRIDE = 7  # every seventh case runs first, as neighbours detect the same faults


class FaultyTransport:
    """Transport that changes the queries, responses or events of a correct server."""

    def __init__(
        self,
        transport,
        *,
        change_query=lambda query, headers: query,
        change_response=lambda status, body: (status, body),
        change_events=iter,
    ):
        self._transport = transport
        self._asked, self._answered, self._watched = change_query, change_response, change_events
        self.wait = transport.wait

    def call(self, method, path, query, headers, body):
        raw = self._transport.call(method, path, self._asked(query, headers), headers, body)
        if not raw.body.startswith(b"{"):
            return raw
        status, changed = self._answered(raw.status, orjson.loads(raw.body))
        return RawResponse(status, raw.headers, orjson.dumps(changed))

    def stream(self, path, query):
        return _FaultyWatch(self._transport.stream(path, query), self._watched)


class _FaultyWatch:
    def __init__(self, stream, change_events):
        self.close = stream.close
        self._events = change_events(iter(lambda: next(stream), None))

    def __next__(self):
        return next(self._events)


def without_field(field):
    def change_response(status, body):
        metadata = body.get("metadata")
        if isinstance(metadata, dict):
            body = {
                **body,
                "metadata": {name: part for name, part in metadata.items() if name != field},
            }
        return status, body

    return change_response


def without_parameter(parameter):
    return lambda query, headers: {
        name: value for name, value in query.items() if name != parameter
    }


def with_force(query, headers):
    return {**query, "force": "true"} if "apply" in headers.get("Content-Type", "") else query


FAULTS = {
    "no generation": {"change_response": without_field("generation")},
    "no uid": {"change_response": without_field("uid")},
    "no owners of fields": {"change_response": without_field("managedFields")},
    "no versions": {"change_response": without_field("resourceVersion")},
    "conflicts are accepted": {
        "change_response": lambda status, body: (200 if status == 409 else status, body)
    },
    "invalid is a bad request": {
        "change_response": lambda status, body: (400 if status == 422 else status, body)
    },
    "no causes": {
        "change_response": lambda status, body: (
            status,
            {**body, "details": {}} if body.get("kind") == "Status" else body,
        )
    },
    "dry runs are stored": {"change_query": without_parameter("dryRun")},
    "selectors are ignored": {"change_query": without_parameter("labelSelector")},
    "one page for all": {"change_query": without_parameter("limit")},
    "every apply is forced": {"change_query": with_force},
    "deletions are not sent": {
        "change_events": lambda events: (event for event in events if event["type"] != "DELETED")
    },
    "all events are ADDED": {
        "change_events": lambda events: ({**event, "type": "ADDED"} for event in events)
    },
}


@pytest.fixture
def correct_transport():
    """Start a server per test: a failed case leaves objects behind."""
    cluster = EmbeddedCluster("faulty", nodes=0)
    yield InProcessTransport(cluster)
    cluster.close()


def first_failure(transport):
    ordered_cases = itertools.chain.from_iterable(CASES[start::STRIDE] for start in range(STRIDE))
    for number, case in enumerate(ordered_cases, 1):
        try:
            case.run(transport, number)
        except (AssertionError, LookupError, TypeError, StopIteration, RuntimeError) as error:
            return f"{case.name}: {error!r}"
    return ""


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_faulty_server_fails_some_case(correct_transport, fault):
    assert first_failure(FaultyTransport(correct_transport, **fault))


def test_unmodified_server_passes(correct_transport):
    transport = FaultyTransport(correct_transport)
    for number, case in enumerate(CASES[::STRIDE]):
        case.run(transport, number)
