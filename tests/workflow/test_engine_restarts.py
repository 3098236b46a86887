"""An engine that is cut off after any of its writes and started anew goes on: the same end, and
nothing is done twice.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses

import pytest
from forest import MADE, VICTIMS, Forest
from theatre import partition, suspend, task, template

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


class Cut(RecordingApi):
    """Lets so many writes through, and then its engine is no more."""

    def __init__(self, api, witness, forest, writes):
        super().__init__(api, witness)
        self._forest, self.left, self.writes = forest, writes, 0

    async def _write(self, write, send):
        answer = await super()._write(write, send)
        if self._counts(write.resource):
            self.writes += 1
            if self.writes == self.left:
                self._forest.engine.cancel()
                await asyncio.get_running_loop().create_future()
        return answer

    def _counts(self, resource):
        return resource.plural != "events"


class CutAtPod(Cut):
    """So many of a pod."""

    def _counts(self, resource):
        return resource == PODS


@pytest.fixture(scope="module")
def forest():
    forest = Forest("restarts")
    forest.runner.advance(60)  # its pods run, so that every workflow finds the same
    yield forest
    forest.close()


@pytest.fixture(scope="module")
def heard(forest):
    heard = []
    forest.journal.follow(heard.append)
    return heard


def played(forest, heard, writes=-1, abort_after=None):
    """What has come of it, when its engine was cut off after so many writes, and how many there
    were.
    """
    forest.stop()
    heard.clear()
    pods = {pod["metadata"]["uid"] for pod in forest.call(forest.api.list(PODS)).items}
    actor = forest.actor()
    cut = Cut(forest.cluster.api("engine"), actor.witness, forest, writes)
    forest.start(dataclasses.replace(actor, api=cut))
    name = forest.put_on(EVERYTHING)
    before = 0
    if abort_after:
        forest.runner.advance(abort_after)
        before = cut.writes
        forest.befall(name, "abort", 0)
    forest.runner.until(lambda: forest.engine.done() or name in forest.over, 3600)
    if forest.engine.done():
        forest.runner.advance(0.5)
        forest.start()
    workflow, nodes = forest.end(name)
    came = {node["spec"]["templateName"]: phase_of(node) for node in nodes.values()}
    assert set(came.values()) <= set(OVER)
    made = collections.Counter(
        entry.data["resource"].split(".")[0]
        for entry in heard
        if entry.what == "wrote"
        and entry.data["verb"] == "create"
        and "events" not in entry.data["resource"]
    )
    killed = {
        pod["metadata"]["uid"] for pod in forest.call(forest.api.list(PODS, labels="app=b")).items
    } - pods
    left = forest.chaos(name)
    forest.free(name)
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
def test_engine_continues_where_another_was_interrupted(forest, heard, abort_after):
    expected, writes = played(forest, heard, abort_after=abort_after)
    assert (expected["phase"], expected["killed"], expected["left"]) == (
        "Failed" if abort_after else "Succeed",
        1,
        [],
    )
    assert len(writes) > 10
    for number in writes:
        found, _ = played(forest, heard, number, abort_after)
        assert {name: found[name] for name in found if found[name] != expected[name]} == {}, (
            f"cut off after {number} writes"
        )


@pytest.mark.parametrize("what", REMOVALS)
def test_object_removed_without_an_engine_fails_the_workflow_and_leaves_nothing(forest, what):
    name = forest.put_on(EVERYTHING)
    while not forest.of(name, *VICTIMS[what]):
        forest.runner.advance(1)
    forest.runner.advance(1)
    forest.befall_while_away(name, what, 0, 0.5)
    workflow, nodes = forest.end(name)
    assert phase_of(workflow) == "Failed"
    assert {phase_of(node) for node in nodes.values()} <= set(OVER)
    assert forest.of(name, *MADE) == []
    bye = [phase_of(node) for node in nodes.values() if node["spec"]["templateName"] == "bye"]
    assert bye == ["Succeed"]
    forest.free(name)


def test_pod_removed_without_an_engine_is_not_created_again(forest):
    forest.stop()
    actor = forest.actor()
    forest.start(
        dataclasses.replace(
            actor, api=CutAtPod(forest.cluster.api("engine"), actor.witness, forest, 2)
        )
    )
    both = [task(each, command="sleep 60", deadline="5m") for each in ("one", "two")]
    name = forest.put_on(
        {
            "entry": "both",
            "templates": [template("both", "Parallel", children=["one", "two"]), *both],
        }
    )
    assert forest.runner.until(forest.engine.done, 60)
    (pod,) = (
        each["metadata"]["name"]
        for each in forest.of(name, PODS)
        if each["metadata"]["name"].startswith("one-")
    )
    forest.call(forest.api.delete(PODS, pod, "default", grace_period=0))
    forest.start()
    workflow, _ = forest.end(name)
    assert workflow["status"]["message"] == "one: its pod was deleted before it completed"
    assert [
        each["metadata"]["name"]
        for each in forest.of(name, PODS)
        if each["metadata"]["name"] == pod
    ] == []
    forest.free(name)
