"""Messages of the engine: to the test by the journal, to cluster users by Events."""

import pytest
from engine_env import partition, suspend, template
from workflow_cluster import recorded_entries

from pytest_kscen.objects.chaos_mesh import ABORT, FAILED, INIT, SHIPPED
from pytest_kscen.objects.resources import EVENTS
from pytest_kscen.workflow.story import stories


@pytest.fixture
def workflow_cluster():
    with recorded_entries("told") as workflow_cluster:
        yield workflow_cluster


def test_failure_message_of_an_attempt_is_not_kept_for_the_next(workflow_cluster):
    name = workflow_cluster.create_workflow(
        {"entry": "cut", "templates": [partition("cut", "20s", retry={"limit": 2})]}
    )
    workflow_cluster.runner.advance(10)
    workflow_cluster.disturb(name, "remove chaos", 0)
    (node,) = workflow_cluster.end(name)[1].values()
    cut = stories(workflow_cluster.entries)["default", name].node("cut")
    assert (cut.phase, cut.message, node["status"]["message"]) == ("Succeed", "", "")
    reported = [
        (entry.data["phase"], "deleted" in entry.data.get("message", ""))
        for entry in workflow_cluster.entries
        if entry.what == "workflow-node"
    ]
    assert (INIT, True) in reported  # in the journal it stands


@pytest.mark.parametrize("recipient", ["the workflow", "a node"])
def test_abort_message_of_the_parent_covers_only_descendants(workflow_cluster, recipient):
    name = workflow_cluster.create_workflow(
        {
            "entry": "all",
            "templates": [template("all", "Serial", children=["rest"]), suspend("rest", "1h")],
        }
    )
    workflow_cluster.runner.advance(3)
    nodes = {
        node["spec"]["templateName"]: node["metadata"]["name"]
        for node in workflow_cluster.nodes(name)
    }
    resource, of = (
        (SHIPPED.workflows, name) if recipient == "the workflow" else (SHIPPED.nodes, nodes["all"])
    )
    workflow_cluster._patch(resource, of, {"annotations": {ABORT: "true"}})
    workflow, _ = workflow_cluster.end(name)
    workflow_cluster.runner.advance(5)
    assert workflow["status"]["phase"] == FAILED
    names = {nodes["all"]: "all", nodes["rest"]: "rest", name: "w"}
    events = workflow_cluster.call(workflow_cluster.api.list(EVENTS, "default")).items
    reported = {
        (names.get(event["involvedObject"]["name"]), event["reason"])
        for event in events
        if "Abort" in event["reason"]
    }
    below = {("rest", "ParentNodeAborted")}
    assert reported == below | (
        {("w", "WorkflowAborted"), ("all", "ParentNodeAborted")}
        if recipient == "the workflow"
        else {("all", "NodeAborted")}
    )


def test_details_beyond_the_shipped_yaml_are_in_the_journal(workflow_cluster):
    there = {"apiVersion": "v1", "kind": "Namespace", "name": "default"}
    holds = {"name": "there", "when": "Start", "kubernetes": there}
    fails = {
        "name": "absent",
        "when": "Start",
        "kubernetes": {**there, "name": "nobody"},
        "weight": 3,
    }
    begins = {
        **suspend("rest", "1h"),
        "probes": [fails],
        "retry": {"limit": 1, "backoff": {"duration": "5s"}},
    }
    length = {"name": "how-long", "value": "10s", "paths": ["templates[rest].deadline"]}
    name = workflow_cluster.create_workflow(
        {
            "entry": "rest",
            "onExit": "bye",
            "templates": [begins, suspend("bye", "1s")],
            "probes": [holds],
            "parameters": [length],
        }
    )
    workflow_cluster.end(name)
    reported = [
        {"what": entry.what, **entry.data}
        for entry in workflow_cluster.entries
        if entry.data.get("workflow") == name
    ]
    of_it = [each for each in reported if each["what"] == "workflow-phase"]
    assert (of_it[0]["parameters"], of_it[-1]["phase"], of_it[-1]["score"]) == (
        {"how-long": "10s"},
        FAILED,
        25,
    )
    assert [
        (each["probe"], each["passed"]) for each in reported if each["what"] == "workflow-probe"
    ] == [*(("there", True), ("absent", False), ("absent", False))]
    nodes = [each for each in reported if each["what"] == "workflow-node"]
    assert {each["template"] for each in nodes if each.get("exit")} == {"bye"}
    assert [
        (each["phase"], each.get("attempt", 1)) for each in nodes if each["template"] == "rest"
    ] == [
        (INIT, 1),
        (INIT, 1),
        (FAILED, 2),
    ]
