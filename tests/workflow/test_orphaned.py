"""Orphaned objects of deleted workflows, nodes and Schedules are removed."""

from __future__ import annotations

import dataclasses

import pytest
from engine_env import ForwardingProxy, partition, suspend, template
from workflow_cluster import refuse_two_removals, refuse_writes, start_long_partition

from pytest_kscen.objects.chaos_mesh import (
    CHAOS_LEFT,
    FAILED,
    KINDS,
    SHIPPED,
    SUCCEED,
    WORKFLOW_LABEL,
    phase_of,
)
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.workflow.engine.cleanup import LONGEST_PAUSE

NETWORK_CHAOS = KINDS["NetworkChaos"].resource


ORPHANED = {
    "node": "cut: its WorkflowNode was deleted",
    "chaos": "the workflow was aborted",
    "workflow": None,
}


@pytest.mark.parametrize("what", ORPHANED)
def test_chaos_with_a_missing_owner_is_removed(workflow_cluster, what):
    name = start_long_partition(workflow_cluster)
    (chaos,) = workflow_cluster.chaos(name)
    match what:
        case "node":
            workflow_cluster.call(
                workflow_cluster.api.delete(
                    SHIPPED.nodes, chaos["metadata"]["name"], "default", propagation="Orphan"
                )
            )
        case "chaos":
            nobodys = {"metadata": {"ownerReferences": None}}
            workflow_cluster.call(
                workflow_cluster.api.patch(
                    NETWORK_CHAOS, chaos["metadata"]["name"], nobodys, "default"
                )
            )
            workflow_cluster.disturb(name, "abort", 0)
        case "workflow":
            workflow_cluster.call(
                workflow_cluster.api.delete(
                    SHIPPED.workflows, name, "default", propagation="Orphan"
                )
            )
    workflow_cluster.runner.advance(10)
    assert workflow_cluster.chaos(name) == []
    workflow = workflow_cluster.workflow(name)
    assert (workflow and workflow["status"]["message"]) == ORPHANED[what]
    assert {phase_of(node) for node in workflow_cluster.nodes(name)} == {FAILED}


def test_failed_removal_after_a_workflow_deletion_is_retried(workflow_cluster):
    name = start_long_partition(workflow_cluster)
    with refuse_two_removals(workflow_cluster, NETWORK_CHAOS) as asked:
        workflow_cluster.call(
            workflow_cluster.api.delete(SHIPPED.workflows, name, "default", propagation="Orphan")
        )
        workflow_cluster.runner.advance(35)
    assert (workflow_cluster.chaos(name), len(asked)) == ([], 3)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
def test_failed_removal_after_a_workflow_deletion_is_retried_without_limit(
    workflow_cluster, is_restarted
):
    name, hook = (
        start_long_partition(workflow_cluster),
        refuse_writes(workflow_cluster, NETWORK_CHAOS),
    )
    workflow_cluster.call(
        workflow_cluster.api.delete(SHIPPED.workflows, name, "default", propagation="Orphan")
    )
    workflow_cluster.runner.advance(1800)
    if is_restarted:
        workflow_cluster.stop()
        workflow_cluster.start()
        workflow_cluster.runner.advance(1800)
    assert len(workflow_cluster.chaos(name)) == 1
    workflow_cluster.cluster.admission.remove(hook)
    workflow_cluster.runner.advance(LONGEST_PAUSE + 1)
    assert (
        workflow_cluster.chaos(name),
        {phase_of(node) for node in workflow_cluster.nodes(name)},
    ) == ([], {FAILED})


def test_object_created_while_its_workflow_is_orphaned_is_removed(workflow_cluster):
    """The create request is answered after the workflow is gone."""
    workflow_cluster.stop()
    actor = workflow_cluster.actor()

    class Late(ForwardingProxy):
        async def create(self, resource, obj, *rest, **options):
            if resource == NETWORK_CHAOS:
                await workflow_cluster.api.delete(
                    SHIPPED.workflows,
                    obj["metadata"]["labels"][WORKFLOW_LABEL],
                    "default",
                    propagation="Orphan",
                )
                await workflow_cluster.runner.clock.sleep(5)
            return await self._api.create(resource, obj, *rest, **options)

    workflow_cluster.start(dataclasses.replace(actor, api=Late(actor.api)))
    cut = partition("cut", "1h")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = workflow_cluster.create_workflow({"entry": "cut", "templates": [cut]})
    workflow_cluster.runner.advance(30)
    workflow_cluster.stop()
    workflow_cluster.start()
    assert (workflow_cluster.workflow(name), workflow_cluster.chaos(name)) == (None, [])


SPAWNS = {**partition("spawns")["networkChaos"], "duration": "1h"}


SPAWNS["selector"] = {**SPAWNS["selector"], "labelSelectors": {"app": "a"}}


SPAWNING = {"schedule": "@every 5s", "type": "NetworkChaos", "networkChaos": SPAWNS}


@pytest.mark.parametrize("is_refused", [False, True], ids=["", "though that was refused"])
@pytest.mark.parametrize("is_away", [False, True], ids=["", "while there is no engine"])
def test_objects_of_an_orphaned_schedule_are_removed_and_observed(
    workflow_cluster, is_away, is_refused
):
    name = workflow_cluster.create_workflow(
        {
            "entry": "spawn",
            "templates": [template("spawn", "Schedule", deadline="1h", schedule=SPAWNING)],
        }
    )
    workflow_cluster.runner.advance(12)
    assert (
        len(workflow_cluster.call(workflow_cluster.api.list(NETWORK_CHAOS, "default")).items) == 1
    )
    if is_away:
        workflow_cluster.stop()
    workflow_cluster.disturb(name, "orphan a schedule", 0)
    hook = refuse_writes(workflow_cluster, NETWORK_CHAOS) if is_refused else None
    if is_away:
        workflow_cluster.runner.advance(2)
        workflow_cluster.start()
    if hook:
        workflow_cluster.runner.advance(35)
        assert phase_of(workflow_cluster.nodes(name)[0]) == "Running"
        workflow_cluster.cluster.admission.remove(hook)
    workflow, _ = workflow_cluster.end(name)
    assert phase_of(workflow) == FAILED
    assert workflow_cluster.call(workflow_cluster.api.list(NETWORK_CHAOS, "default")).items == []
    assert workflow["status"]["message"].startswith("spawn: its resource")
    workflow_cluster.free(name)


def test_object_of_an_orphaned_schedule_held_by_a_finalizer_is_named(workflow_cluster):
    name = workflow_cluster.create_workflow(
        {
            "entry": "spawn",
            "templates": [template("spawn", "Schedule", deadline="1h", schedule=SPAWNING)],
        }
    )
    workflow_cluster.runner.advance(12)
    (spawned,) = (
        each["metadata"]
        for each in workflow_cluster.call(workflow_cluster.api.list(NETWORK_CHAOS, "default")).items
    )
    held = {"metadata": {"finalizers": [*spawned["finalizers"], "example.com/stuck"]}}
    workflow_cluster.call(
        workflow_cluster.api.patch(NETWORK_CHAOS, spawned["name"], held, "default")
    )
    workflow_cluster.disturb(name, "orphan a schedule", 0)
    workflow, (node,) = workflow_cluster.end(name)[0], workflow_cluster.nodes(name)
    why = f"NetworkChaos {spawned['name']}, which its Schedule has made, still exists"
    assert (
        workflow["status"]["message"]
        == f"spawn: it was not gone within 300 s: {why}; deleting it is retried in the background"
    )
    assert is_true(node, CHAOS_LEFT)
    workflow_cluster.call(
        workflow_cluster.api.patch(
            NETWORK_CHAOS, spawned["name"], {"metadata": {"finalizers": None}}, "default"
        )
    )
    workflow_cluster.runner.advance(2 * LONGEST_PAUSE)
    assert not is_true(workflow_cluster.nodes(name)[0], CHAOS_LEFT)
    workflow_cluster.free(name)


@pytest.mark.parametrize("is_another_there", [False, True])
def test_chaos_of_a_workflow_orphaned_without_an_engine_is_removed(
    workflow_cluster, is_another_there
):
    name = start_long_partition(workflow_cluster)
    workflow_cluster.stop()
    workflow_cluster.call(
        workflow_cluster.api.delete(SHIPPED.workflows, name, "default", propagation="Orphan")
    )
    workflow_cluster.runner.advance(5)
    nodes = workflow_cluster.nodes(name)
    if is_another_there:
        workflow_cluster.create_workflow(
            {"entry": "rest", "templates": [suspend("rest", "30s")]}, name
        )
    workflow_cluster.start()
    workflow_cluster.runner.advance(10)
    assert workflow_cluster.chaos(name) == []
    strays = {node["metadata"]["name"] for node in nodes}
    assert {
        phase_of(node)
        for node in workflow_cluster.nodes(name)
        if node["metadata"]["name"] in strays
    } == {FAILED}
    if is_another_there:
        assert phase_of(workflow_cluster.end(name)[0]) == SUCCEED
