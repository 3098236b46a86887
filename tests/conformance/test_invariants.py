"""Invariants of any server: watches match lists, versions increase, refusals change nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from request_kinds import GADGETS, kinds
from request_strategies import BY_KIND

from pytest_kscen.clusters.conformance.case import CaseClient
from pytest_kscen.clusters.conformance.differential import (
    ClientState,
    collect_watch_events,
    delete_leftovers,
    delete_object,
    prepare_namespaces,
    send_step,
)

TARGETS = [kind.target for kind in kinds()]
REFUSED = 400


@pytest.fixture(scope="module")
def prepared_transport(transport):
    prepare_namespaces(transport, TARGETS)
    client = CaseClient(transport, "default")
    client.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", GADGETS).ok(201)
    client.until(lambda: client.get("/apis/kit.example.com/v1/gadgets").status == 200)
    delete_leftovers(transport, TARGETS)
    return transport


@pytest.mark.parametrize("plural", BY_KIND)
@settings(
    max_examples=12,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_watch_events_match_lists(prepared_transport, plural, data):
    target, steps, selectors = data.draw(BY_KIND[plural])
    client = CaseClient(prepared_transport, target.namespace, group_versions=target.group_versions)
    version, before = _list_objects(client, target)
    matching = _list_objects(client, target, selectors)[1]
    try:
        _run_steps(client, target, steps, version)
        watched = collect_watch_events(client, target, version, selectors)
        assert _apply_events(before, watched[0]) == _list_objects(client, target)[1]
        assert _apply_events(matching, watched[1]) == _list_objects(client, target, selectors)[1]
        assert all(_versions_increase(version, events) for events in watched)
    finally:
        for name in _list_objects(client, target)[1].keys() - before.keys():
            delete_object(
                client, f"{target.plural}/{name}", client.get(f"{target.plural}/{name}").ok()
            )


def _run_steps(client, target, steps, version):
    state = ClientState(client, version)
    for step in steps:
        before = _list_objects(client, target)
        status, *_ = send_step(client, target, step, state)
        if status >= REFUSED or dict(step.query).get("dryRun") or step.method == "GET":
            assert _list_objects(client, target) == before


def _list_objects(client, target, query=None):
    """Return the version of the list, and its objects by name."""
    found = client.get(target.plural, **(query or {})).ok()
    return found["metadata"]["resourceVersion"], {
        item["metadata"]["name"]: _without_type(item) for item in found["items"]
    }


def _apply_events(before, events):
    """Return the objects after these events."""
    found = dict(before)
    for type_, obj in events:
        assert (type_ == "ADDED") == (obj["metadata"]["name"] not in found)
        found[obj["metadata"]["name"]] = _without_type(obj)
        if type_ == "DELETED":
            del found[obj["metadata"]["name"]]
    return found


def _without_type(obj):
    """Drop apiVersion and kind, which items of a built-in list lack."""
    return {name: part for name, part in obj.items() if name not in {"apiVersion", "kind"}}


def _versions_increase(start, events):
    versions = [int(start), *(int(obj["metadata"]["resourceVersion"]) for _, obj in events)]
    return all(later > earlier for earlier, later in itertools.pairwise(versions))
