"""Chaos of kinds unknown to the package: created and removed if the cluster defines it."""

from __future__ import annotations

import pytest
from engine_env import suspend
from test_engine import template, workflow
from workflow_cluster import WorkflowCluster

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
            create_workflow = run.workflow(
                workflow("foo", template("foo", foo.kind, fooChaos=chaos))
            )
        run.advance("10s")
        (made,) = run.call(api.list(foo)).items
        assert made["spec"] == {"colour": "red"}
        status = {"status": {"conditions": [{"type": "AllInjected", "status": "True"}]}}
        run.call(api.patch(foo, made["metadata"]["name"], status, made["metadata"]["namespace"]))
        run.until(create_workflow.finished, timeout="1m")
        assert run.call(api.list(foo)).items == []
    assert create_workflow.phase == "Succeed"
    assert create_workflow.node("foo").duration == 40


@pytest.fixture(scope="module")
def workflow_cluster():
    workflow_cluster = WorkflowCluster("unknown")
    workflow_cluster.call(workflow_cluster.api.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION))
    yield workflow_cluster
    workflow_cluster.close()


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
@pytest.mark.parametrize("conditions", ["pending", ["ready"], {"Ready": True}], ids=str)
def test_unintelligible_chaos_status_fails_only_its_node(
    workflow_cluster, conditions, is_restarted
):
    beside = workflow_cluster.create_workflow(
        {"entry": "rest", "templates": [suspend("rest", "30s")]}
    )
    name = workflow_cluster.create_workflow(
        {
            "entry": "foo",
            "templates": [template("foo", foo.kind, deadline="20s", fooChaos={"x": 1})],
        }
    )
    workflow_cluster.runner.advance(5)
    if is_restarted:
        workflow_cluster.stop()
    (made,) = workflow_cluster.of(name, foo)
    status = {"status": {"conditions": conditions}}
    workflow_cluster.call(
        workflow_cluster.api.patch(foo, made["metadata"]["name"], status, "default")
    )
    if is_restarted:
        workflow_cluster.start()
    workflow, _ = workflow_cluster.end(name)
    assert phase_of(workflow) == FAILED
    assert workflow["status"]["message"].startswith(
        "foo: the status of its FooChaos cannot be read: AttributeError"
    )
    assert (phase_of(workflow_cluster.end(beside)[0]), workflow_cluster.of(name, foo)) == (
        SUCCEED,
        [],
    )


def test_chaos_of_a_kind_unknown_to_the_cluster_is_never_injected(scenario_runner):
    with scenario_runner as run:
        with pytest.warns(WorkflowWarning):
            create_workflow = run.workflow(
                workflow("foo", template("foo", "FooChaos", fooChaos={"duration": "30s"}))
            )
        run.until(create_workflow.finished, timeout="1m")
    nobody = (
        "no controller injects it: install Chaos Mesh on this cluster, or a version of it "
        "that has this kind"
    )
    assert create_workflow.phase == "Failed"
    assert (
        create_workflow.message
        == f'foo: no matches for kind "FooChaos" in version "chaos-mesh.org/v1alpha1": {nobody}'
    )
