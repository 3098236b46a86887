"""An engine interrupted after any write continues after a restart without repeating actions."""

from __future__ import annotations

import asyncio
import collections
import dataclasses

import pytest
from engine_env import partition, suspend, task, template
from workflow_cluster import DISTURBED_RESOURCES, MADE, WorkflowCluster

from pytest_kscen.kube.actor import RecordingApi
from pytest_kscen.objects.chaos_mesh import OVER, phase_of
from pytest_kscen.objects.resources import PODS

CHECK = {
    "mode": "Continuous",
    "type": "HTTP",
    "http": {"url": "http://nobody.invalid", "criteria": {"statusCode": "200"}},
}
KILL = {
    "action": "pod-kill",
    "mode": "one",
    "selector": {"namespaces": ["default"], "labelSelectors": {"app": "b"}},
}
EVERYTHING = {
    "entry": "all",
    "onExit": "bye",
    "templates": [
        template("all", "Serial", children=["both", "rest", "judge", "spawn"], deadline="10m"),
        template("both", "Parallel", children=["cut", "kill"]),
        partition("cut", "20s"),
        template("kill", "PodChaos", deadline="10s", podChaos=KILL),
        suspend("rest", "5s"),
        task(
            "judge",
            ("look", "exitCode == 3"),
            ("rest", "stdout == 'never'"),
            command="exit 3",
            deadline="5m",
        ),
        template("look", "StatusCheck", deadline="4s", statusCheck=CHECK),
        template(
            "spawn",
            "Schedule",
            deadline="5s",
            schedule={"schedule": "@every 1h", "type": "PodChaos", "podChaos": KILL},
        ),
        suspend("bye", "1s"),
    ],
}
REMOVALS = ("remove a node", "orphan a node", "remove a schedule", "remove a check")
"""What somebody removes while there is no engine: the first of its sort that is there."""
ABORTED_WHILE = {"both": 8.0, "judge": 27.5}
"""Seconds after which the workflow is in the midst of these."""


class InterruptAfterWrites(RecordingApi):
    """API that cancels its engine after so many writes."""

    def __init__(self, api, journal, workflow_cluster, writes):
        super().__init__(api, journal)
        self._cluster, self.left, self.writes = workflow_cluster, writes, 0

    async def _write(self, write, send):
        answer = await super()._write(write, send)
        if self._is_counted(write.resource):
            self.writes += 1
            if self.writes == self.left:
                self._cluster.engine.cancel()
                await asyncio.get_running_loop().create_future()
        return answer

    def _is_counted(self, resource):
        return resource.plural != "events"


class InterruptAtPod(InterruptAfterWrites):
    """API that cancels its engine after so many writes of a pod."""

    def _is_counted(self, resource):
        return resource == PODS


@pytest.fixture(scope="module")
def workflow_cluster():
    workflow_cluster = WorkflowCluster("restarts")
    workflow_cluster.runner.advance(60)  # its pods run, so that every workflow finds the same
    yield workflow_cluster
    workflow_cluster.close()


@pytest.fixture(scope="module")
def recorded_entries(workflow_cluster):
    recorded_entries = []
    workflow_cluster.journal.follow(recorded_entries.append)
    return recorded_entries


def played(workflow_cluster, recorded_entries, writes=-1, abort_after=None):
    """Return the results after an interruption at so many writes, and the number of writes."""
    workflow_cluster.stop()
    recorded_entries.clear()
    pods = {
        pod["metadata"]["uid"]
        for pod in workflow_cluster.call(workflow_cluster.api.list(PODS)).items
    }
    actor = workflow_cluster.actor()
    cut = InterruptAfterWrites(
        workflow_cluster.cluster.api("engine"), actor.journal, workflow_cluster, writes
    )
    workflow_cluster.start(dataclasses.replace(actor, api=cut))
    name = workflow_cluster.create_workflow(EVERYTHING)
    before = 0
    if abort_after:
        workflow_cluster.runner.advance(abort_after)
        before = cut.writes
        workflow_cluster.disturb(name, "abort", 0)
    workflow_cluster.runner.until(
        lambda: workflow_cluster.engine.done() or name in workflow_cluster.over, 3600
    )
    if workflow_cluster.engine.done():
        workflow_cluster.runner.advance(0.5)
        workflow_cluster.start()
    workflow, nodes = workflow_cluster.end(name)
    came = {node["spec"]["templateName"]: phase_of(node) for node in nodes.values()}
    assert set(came.values()) <= set(OVER)
    made = collections.Counter(
        entry.data["resource"].split(".")[0]
        for entry in recorded_entries
        if entry.what == "wrote"
        and entry.data["verb"] == "create"
        and "events" not in entry.data["resource"]
    )
    killed = {
        pod["metadata"]["uid"]
        for pod in workflow_cluster.call(workflow_cluster.api.list(PODS, labels="app=b")).items
    } - pods
    left = workflow_cluster.chaos(name)
    workflow_cluster.free(name)
    found = {
        "phase": phase_of(workflow),
        "nodes": came,
        "made": made,
        "killed": len(killed),
        "left": left,
    }
    return found, range(before + 1, cut.writes + 1)


@pytest.mark.parametrize(
    "abort_after", [None, *ABORTED_WHILE.values()], ids=["to the end", *ABORTED_WHILE]
)
def test_engine_continues_where_another_was_interrupted(
    workflow_cluster, recorded_entries, abort_after
):
    expected, writes = played(workflow_cluster, recorded_entries, abort_after=abort_after)
    assert (expected["phase"], expected["killed"], expected["left"]) == (
        "Failed" if abort_after else "Succeed",
        1,
        [],
    )
    assert len(writes) > 10
    for number in writes:
        found, _ = played(workflow_cluster, recorded_entries, number, abort_after)
        assert {name: found[name] for name in found if found[name] != expected[name]} == {}, (
            f"cut off after {number} writes"
        )


@pytest.mark.parametrize("what", REMOVALS)
def test_object_removed_without_an_engine_fails_the_workflow_and_leaves_nothing(
    workflow_cluster, what
):
    name = workflow_cluster.create_workflow(EVERYTHING)
    while not workflow_cluster.of(name, *DISTURBED_RESOURCES[what]):
        workflow_cluster.runner.advance(1)
    workflow_cluster.runner.advance(1)
    workflow_cluster.disturb_without_engine(name, what, 0, 0.5)
    workflow, nodes = workflow_cluster.end(name)
    assert phase_of(workflow) == "Failed"
    assert {phase_of(node) for node in nodes.values()} <= set(OVER)
    assert workflow_cluster.of(name, *MADE) == []
    bye = [phase_of(node) for node in nodes.values() if node["spec"]["templateName"] == "bye"]
    assert bye == ["Succeed"]
    workflow_cluster.free(name)


def test_pod_removed_without_an_engine_is_not_created_again(workflow_cluster):
    workflow_cluster.stop()
    actor = workflow_cluster.actor()
    workflow_cluster.start(
        dataclasses.replace(
            actor,
            api=InterruptAtPod(
                workflow_cluster.cluster.api("engine"), actor.journal, workflow_cluster, 2
            ),
        )
    )
    both = [task(each, command="sleep 60", deadline="5m") for each in ("one", "two")]
    name = workflow_cluster.create_workflow(
        {
            "entry": "both",
            "templates": [template("both", "Parallel", children=["one", "two"]), *both],
        }
    )
    assert workflow_cluster.runner.until(workflow_cluster.engine.done, 60)
    (pod,) = (
        each["metadata"]["name"]
        for each in workflow_cluster.of(name, PODS)
        if each["metadata"]["name"].startswith("one-")
    )
    workflow_cluster.call(workflow_cluster.api.delete(PODS, pod, "default", grace_period=0))
    workflow_cluster.start()
    workflow, _ = workflow_cluster.end(name)
    assert workflow["status"]["message"] == "one: its pod was deleted before it completed"
    assert [
        each["metadata"]["name"]
        for each in workflow_cluster.of(name, PODS)
        if each["metadata"]["name"] == pod
    ] == []
    workflow_cluster.free(name)
