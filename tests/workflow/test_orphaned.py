"""Workflows, nodes and Schedules that are removed from above what they have made: that goes all
the same.
"""

from __future__ import annotations

import dataclasses

import pytest
from forest import long_cut, refusing, refusing_twice
from theatre import Through, partition, suspend, template

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
def test_chaos_with_a_missing_owner_is_removed(forest, what):
    name = long_cut(forest)
    (chaos,) = forest.chaos(name)
    match what:
        case "node":
            forest.call(
                forest.api.delete(
                    SHIPPED.nodes, chaos["metadata"]["name"], "default", propagation="Orphan"
                )
            )
        case "chaos":
            nobodys = {"metadata": {"ownerReferences": None}}
            forest.call(
                forest.api.patch(NETWORK_CHAOS, chaos["metadata"]["name"], nobodys, "default")
            )
            forest.befall(name, "abort", 0)
        case "workflow":
            forest.call(forest.api.delete(SHIPPED.workflows, name, "default", propagation="Orphan"))
    forest.runner.advance(10)
    assert forest.chaos(name) == []
    workflow = forest.workflow(name)
    assert (workflow and workflow["status"]["message"]) == ORPHANED[what]
    assert {phase_of(node) for node in forest.nodes(name)} == {FAILED}


def test_failed_removal_after_a_workflow_deletion_is_retried(forest):
    name = long_cut(forest)
    with refusing_twice(forest, NETWORK_CHAOS) as asked:
        forest.call(forest.api.delete(SHIPPED.workflows, name, "default", propagation="Orphan"))
        forest.runner.advance(35)
    assert (forest.chaos(name), len(asked)) == ([], 3)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
def test_failed_removal_after_a_workflow_deletion_is_retried_without_limit(forest, is_restarted):
    name, hook = long_cut(forest), refusing(forest, NETWORK_CHAOS)
    forest.call(forest.api.delete(SHIPPED.workflows, name, "default", propagation="Orphan"))
    forest.runner.advance(1800)
    if is_restarted:
        forest.stop()
        forest.start()
        forest.runner.advance(1800)
    assert len(forest.chaos(name)) == 1
    forest.cluster.admission.remove(hook)
    forest.runner.advance(LONGEST_PAUSE + 1)
    assert (forest.chaos(name), {phase_of(node) for node in forest.nodes(name)}) == ([], {FAILED})


def test_object_created_while_its_workflow_is_orphaned_is_removed(forest):
    """The API has been asked to make it, and answers when the workflow is no more."""
    forest.stop()
    actor = forest.actor()

    class Late(Through):
        async def create(self, resource, obj, *rest, **options):
            if resource == NETWORK_CHAOS:
                await forest.api.delete(
                    SHIPPED.workflows,
                    obj["metadata"]["labels"][WORKFLOW_LABEL],
                    "default",
                    propagation="Orphan",
                )
                await forest.runner.clock.sleep(5)
            return await self._api.create(resource, obj, *rest, **options)

    forest.start(dataclasses.replace(actor, api=Late(actor.api)))
    cut = partition("cut", "1h")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = forest.put_on({"entry": "cut", "templates": [cut]})
    forest.runner.advance(30)
    forest.stop()
    forest.start()
    assert (forest.workflow(name), forest.chaos(name)) == (None, [])


SPAWNS = {**partition("spawns")["networkChaos"], "duration": "1h"}


SPAWNS["selector"] = {**SPAWNS["selector"], "labelSelectors": {"app": "a"}}


SPAWNING = {"schedule": "@every 5s", "type": "NetworkChaos", "networkChaos": SPAWNS}


@pytest.mark.parametrize("is_refused", [False, True], ids=["", "though that was refused"])
@pytest.mark.parametrize("is_away", [False, True], ids=["", "while there is no engine"])
def test_objects_of_an_orphaned_schedule_are_removed_and_observed(forest, is_away, is_refused):
    name = forest.put_on(
        {
            "entry": "spawn",
            "templates": [template("spawn", "Schedule", deadline="1h", schedule=SPAWNING)],
        }
    )
    forest.runner.advance(12)
    assert len(forest.call(forest.api.list(NETWORK_CHAOS, "default")).items) == 1
    if is_away:
        forest.stop()
    forest.befall(name, "orphan a schedule", 0)
    hook = refusing(forest, NETWORK_CHAOS) if is_refused else None
    if is_away:
        forest.runner.advance(2)
        forest.start()
    if hook:
        forest.runner.advance(35)
        assert phase_of(forest.nodes(name)[0]) == "Running"
        forest.cluster.admission.remove(hook)
    workflow, _ = forest.end(name)
    assert phase_of(workflow) == FAILED
    assert forest.call(forest.api.list(NETWORK_CHAOS, "default")).items == []
    assert workflow["status"]["message"].startswith("spawn: its resource")
    forest.free(name)


def test_object_of_an_orphaned_schedule_held_by_a_finalizer_is_named(forest):
    name = forest.put_on(
        {
            "entry": "spawn",
            "templates": [template("spawn", "Schedule", deadline="1h", schedule=SPAWNING)],
        }
    )
    forest.runner.advance(12)
    (spawned,) = (
        each["metadata"] for each in forest.call(forest.api.list(NETWORK_CHAOS, "default")).items
    )
    held = {"metadata": {"finalizers": [*spawned["finalizers"], "example.com/stuck"]}}
    forest.call(forest.api.patch(NETWORK_CHAOS, spawned["name"], held, "default"))
    forest.befall(name, "orphan a schedule", 0)
    workflow, (node,) = forest.end(name)[0], forest.nodes(name)
    why = f"NetworkChaos {spawned['name']}, which its Schedule has made, still exists"
    assert (
        workflow["status"]["message"]
        == f"spawn: it was not gone within 300 s: {why}; deleting it is retried in the background"
    )
    assert is_true(node, CHAOS_LEFT)
    forest.call(
        forest.api.patch(
            NETWORK_CHAOS, spawned["name"], {"metadata": {"finalizers": None}}, "default"
        )
    )
    forest.runner.advance(2 * LONGEST_PAUSE)
    assert not is_true(forest.nodes(name)[0], CHAOS_LEFT)
    forest.free(name)


@pytest.mark.parametrize("is_another_there", [False, True])
def test_chaos_of_a_workflow_orphaned_without_an_engine_is_removed(forest, is_another_there):
    name = long_cut(forest)
    forest.stop()
    forest.call(forest.api.delete(SHIPPED.workflows, name, "default", propagation="Orphan"))
    forest.runner.advance(5)
    nodes = forest.nodes(name)
    if is_another_there:
        forest.put_on({"entry": "rest", "templates": [suspend("rest", "30s")]}, name)
    forest.start()
    forest.runner.advance(10)
    assert forest.chaos(name) == []
    strays = {node["metadata"]["name"] for node in nodes}
    assert {
        phase_of(node) for node in forest.nodes(name) if node["metadata"]["name"] in strays
    } == {FAILED}
    if is_another_there:
        assert phase_of(forest.end(name)[0]) == SUCCEED
