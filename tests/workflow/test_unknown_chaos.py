"""Chaos of a kind that nobody has told us of: the engine makes it and removes it, and the cluster has its definition."""

from __future__ import annotations

import pytest
from test_engine import template, workflow

from pytest_kscen.objects.chaos_mesh import ChaosKind
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS
from pytest_kscen.workflow.files import WorkflowWarning


def test_chaos_of_a_kind_that_only_the_cluster_knows(scenario_runner):
    foo = ChaosKind("FooChaos", "fooChaos").resource
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": foo.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": foo.kind, "plural": foo.plural, "singular": foo.plural, "listKind": "FooChaosList"}
    spec = {"group": foo.group, "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": foo.qualified}, "spec": spec}
    with scenario_runner as run:
        api = run.cluster.api("foo")
        run.call(api.create(CUSTOM_RESOURCE_DEFINITIONS, definition))
        chaos = {"duration": "30s", "colour": "red"}
        with pytest.warns(WorkflowWarning, match="FooChaos is no kind of chaos that we know: it is handed to the cluster as it is"):
            put_on = run.workflow(workflow("foo", template("foo", foo.kind, fooChaos=chaos)))
        run.advance("10s")
        (made,) = run.call(api.list(foo)).items
        assert made["spec"] == {"colour": "red"}
        status = {"status": {"conditions": [{"type": "AllInjected", "status": "True"}]}}
        run.call(api.patch(foo, made["metadata"]["name"], status, made["metadata"]["namespace"]))
        run.until(put_on.finished, timeout="1m")
        assert run.call(api.list(foo)).items == []
    assert put_on.phase == "Succeed"
    assert put_on.node("foo").duration == 40
