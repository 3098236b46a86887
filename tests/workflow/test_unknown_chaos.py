"""Chaos of a kind that nobody has told us of: the engine makes it and removes it, if the cluster
has its definition.
"""

from __future__ import annotations

import pytest
from forest import Forest
from test_engine import template, workflow
from theatre import suspend

from pytest_kscen.objects.chaos_mesh import FAILED, SUCCEED, ChaosKind, phase_of
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS
from pytest_kscen.workflow.files import WorkflowWarning

foo = ChaosKind("FooChaos", "fooChaos").resource
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VERSION = {
    "name": foo.version,
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": ANYTHING},
}
NAMES = {"kind": foo.kind, "plural": foo.plural, "singular": foo.plural, "listKind": "FooChaosList"}
DEFINITION = {
    "metadata": {"name": foo.qualified},
    "spec": {"group": foo.group, "scope": "Namespaced", "names": NAMES, "versions": [VERSION]},
}


def test_chaos_of_a_kind_known_only_to_the_cluster(scenario_runner):
    with scenario_runner as run:
        api = run.cluster.api("foo")
        run.call(api.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION))
        chaos = {"duration": "30s", "colour": "red"}
        with pytest.warns(
            WorkflowWarning,
            match="FooChaos is not a known kind of chaos: it is passed to the cluster unchecked",
        ):
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


@pytest.fixture(scope="module")
def forest():
    forest = Forest("unknown")
    forest.call(forest.api.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION))
    yield forest
    forest.close()


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
@pytest.mark.parametrize("conditions", ["pending", ["ready"], {"Ready": True}], ids=str)
def test_unintelligible_chaos_status_fails_only_its_node(forest, conditions, is_restarted):
    beside = forest.put_on({"entry": "rest", "templates": [suspend("rest", "30s")]})
    name = forest.put_on(
        {
            "entry": "foo",
            "templates": [template("foo", foo.kind, deadline="20s", fooChaos={"x": 1})],
        }
    )
    forest.runner.advance(5)
    if is_restarted:
        forest.stop()
    (made,) = forest.of(name, foo)
    status = {"status": {"conditions": conditions}}
    forest.call(forest.api.patch(foo, made["metadata"]["name"], status, "default"))
    if is_restarted:
        forest.start()
    workflow, _ = forest.end(name)
    assert phase_of(workflow) == FAILED
    assert workflow["status"]["message"].startswith(
        "foo: what its FooChaos says of itself cannot be read: AttributeError"
    )
    assert (phase_of(forest.end(beside)[0]), forest.of(name, foo)) == (SUCCEED, [])


def test_chaos_of_a_kind_unknown_to_the_cluster_is_never_injected(scenario_runner):
    with scenario_runner as run:
        with pytest.warns(WorkflowWarning):
            put_on = run.workflow(
                workflow("foo", template("foo", "FooChaos", fooChaos={"duration": "30s"}))
            )
        run.until(put_on.finished, timeout="1m")
    nobody = (
        "no controller injects it: install Chaos Mesh on this cluster, or a version of it "
        "that has this kind"
    )
    assert put_on.phase == "Failed"
    assert (
        put_on.message
        == f'foo: no matches for kind "FooChaos" in version "chaos-mesh.org/v1alpha1": {nobody}'
    )
