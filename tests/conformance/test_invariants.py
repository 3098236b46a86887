"""What holds on any server whatever is asked of it: a watch tells what the list shows, versions
grow, a refusal changes nothing.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from steps import BY_KIND
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

STAGES = [kind.target for kind in kinds()]
REFUSED = 400


@pytest.fixture(scope="module")
def furnished(transport):
    prepare_namespaces(transport, STAGES)
    client = CaseClient(transport, "default")
    client.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", GADGETS).ok(201)
    client.until(lambda: client.get("/apis/kit.example.com/v1/gadgets").status == 200)
    delete_leftovers(transport, STAGES)
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
def test_lists_watches_and_refusals_agree(furnished, plural, data):
    target, steps, selectors = data.draw(BY_KIND[plural])
    client = CaseClient(furnished, target.namespace, group_versions=target.group_versions)
    version, before = _listed(client, target)
    matching = _listed(client, target, selectors)[1]
    try:
        _make_all(client, target, steps, version)
        watched = collect_watch_events(client, target, version, selectors)
        assert _folded(before, watched[0]) == _listed(client, target)[1]
        assert _folded(matching, watched[1]) == _listed(client, target, selectors)[1]
        assert all(_grow(version, events) for events in watched)
    finally:
        for name in _listed(client, target)[1].keys() - before.keys():
            delete_object(
                client, f"{target.plural}/{name}", client.get(f"{target.plural}/{name}").ok()
            )


def _make_all(client, target, steps, version):
    state = ClientState(client, version)
    for step in steps:
        before = _listed(client, target)
        status, *_ = send_step(client, target, step, state)
        if status >= REFUSED or dict(step.query).get("dryRun") or step.method == "GET":
            assert _listed(client, target) == before


def _listed(client, target, query=None):
    """The list's version, and what is in it."""
    found = client.get(target.plural, **(query or {})).ok()
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
