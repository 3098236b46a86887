"""What holds on any server whatever is asked of it: a watch tells what the list shows, versions
grow, a refusal changes nothing.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moves import BY_KIND
from twinworld import GADGETS, kinds

from pytest_kscen.clusters.conformance.case import CaseClient
from pytest_kscen.clusters.conformance.differential import (
    ClientState,
    collect_watch_events,
    delete_leftovers,
    delete_object,
    prepare_namespaces,
    send_step,
)

STAGES = [kind.stage for kind in kinds()]
REFUSED = 400


@pytest.fixture(scope="module")
def furnished(road):
    prepare_namespaces(road, STAGES)
    visitor = CaseClient(road, "default")
    visitor.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", GADGETS).ok(201)
    visitor.until(lambda: visitor.get("/apis/kit.example.com/v1/gadgets").status == 200)
    delete_leftovers(road, STAGES)
    return road


@pytest.mark.parametrize("plural", BY_KIND)
@settings(
    max_examples=12,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_lists_watches_and_refusals_agree(furnished, plural, data):
    stage, moves, watching = data.draw(BY_KIND[plural])
    visitor = CaseClient(furnished, stage.namespace, also=stage.also)
    version, before = _listed(visitor, stage)
    matching = _listed(visitor, stage, watching)[1]
    try:
        _make_all(visitor, stage, moves, version)
        told = collect_watch_events(visitor, stage, version, watching)
        assert _folded(before, told[0]) == _listed(visitor, stage)[1]
        assert _folded(matching, told[1]) == _listed(visitor, stage, watching)[1]
        assert all(_grow(version, events) for events in told)
    finally:
        for name in _listed(visitor, stage)[1].keys() - before.keys():
            delete_object(
                visitor, f"{stage.plural}/{name}", visitor.get(f"{stage.plural}/{name}").ok()
            )


def _make_all(visitor, stage, moves, version):
    memory = ClientState(visitor, version)
    for move in moves:
        before = _listed(visitor, stage)
        status, *_ = send_step(visitor, stage, move, memory)
        if status >= REFUSED or dict(move.query).get("dryRun") or move.method == "GET":
            assert _listed(visitor, stage) == before


def _listed(visitor, stage, query=None):
    """The list's version, and what is in it."""
    found = visitor.get(stage.plural, **(query or {})).ok()
    return found["metadata"]["resourceVersion"], {
        item["metadata"]["name"]: _headless(item) for item in found["items"]
    }


def _folded(before, events):
    """What is there after the events."""
    found = dict(before)
    for type_, obj in events:
        assert (type_ == "ADDED") == (obj["metadata"]["name"] not in found)
        found[obj["metadata"]["name"]] = _headless(obj)
        if type_ == "DELETED":
            del found[obj["metadata"]["name"]]
    return found


def _headless(obj):
    """Items of a list do not say what they are, but for custom ones."""
    return {name: part for name, part in obj.items() if name not in {"apiVersion", "kind"}}


def _grow(start, events):
    versions = [int(start), *(int(obj["metadata"]["resourceVersion"]) for _, obj in events)]
    return all(later > earlier for earlier, later in itertools.pairwise(versions))
