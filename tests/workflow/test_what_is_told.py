"""What the engine tells of a workflow: to the test by the journal, and to the cluster's users by Events."""

import pytest
from forest import Forest
from theatre import partition, suspend, template

from pytest_kscen.objects.resources import EVENTS
from pytest_kscen.objects.workflows import ABORT, FAILED, INIT, SHIPPED
from pytest_kscen.workflow.story import stories


@pytest.fixture
def forest():
    forest = Forest("told")
    forest.entries = []
    forest.journal.follow(forest.entries.append)
    yield forest
    forest.close()


def test_what_an_attempt_has_failed_by_is_no_message_of_the_next(forest):
    name = forest.put_on({"entry": "cut", "templates": [partition("cut", "20s", retry={"limit": 2})]})
    forest.runner.advance(10)
    forest.befall(name, "remove chaos", 0)
    (node,) = forest.end(name)[1].values()
    cut = stories(forest.entries)["default", name].node("cut")
    assert (cut.phase, cut.message, node["status"]["message"]) == ("Succeed", "", "")
    told = [
        (entry.data["phase"], "gone" in entry.data.get("message", "")) for entry in forest.entries if entry.what == "workflow-node"
    ]
    assert (INIT, True) in told  # in the journal it stands


@pytest.mark.parametrize("whom", ["the workflow", "a node"])
def test_an_abort_is_its_parents_for_what_is_below_alone(forest, whom):
    name = forest.put_on({"entry": "all", "templates": [template("all", "Serial", children=["rest"]), suspend("rest", "1h")]})
    forest.runner.advance(3)
    nodes = {node["spec"]["templateName"]: node["metadata"]["name"] for node in forest.nodes(name)}
    resource, of = (SHIPPED.workflows, name) if whom == "the workflow" else (SHIPPED.nodes, nodes["all"])
    forest._patch(resource, of, {"annotations": {ABORT: "true"}})
    workflow, _ = forest.end(name)
    forest.runner.advance(5)
    assert workflow["status"]["phase"] == FAILED
    names = {nodes["all"]: "all", nodes["rest"]: "rest", name: "w"}
    events = forest.call(forest.api.list(EVENTS, "default")).items
    told = {(names.get(event["involvedObject"]["name"]), event["reason"]) for event in events if "Abort" in event["reason"]}
    below = {("rest", "ParentNodeAborted")}
    assert told == below | (
        {("w", "WorkflowAborted"), ("all", "ParentNodeAborted")} if whom == "the workflow" else {("all", "NodeAborted")}
    )
