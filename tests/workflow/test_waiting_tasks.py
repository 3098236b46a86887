"""Reports about a Task's pending pod: the reason and the remedy."""

from __future__ import annotations

import pytest
from engine_env import suspend, template

from pytest_kscen.objects.chaos_mesh import SHIPPED

NOT_SIMULATED = (
    "its pod is on: container main runs until it is stopped: the command 'curl' is not simulated. "
    "Declare its result with the annotations kscen.io/exit-code, kscen.io/exit-after and kscen.io/log"
)
CURL = {"name": "main", "image": "curlimages/curl", "command": ["curl", "http://a.default"]}


def ask(**task):
    return template("ask", "Task", task={"container": CURL, **task})


def workflow(*templates):
    spec = {"entry": templates[0]["name"], "templates": list(templates)}
    return {
        "apiVersion": "chaos-mesh.org/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w"},
        "spec": spec,
    }


@pytest.fixture
def play(scenario_runner):
    def play(*templates):
        with scenario_runner as run:
            create_workflow = run.workflow(workflow(*templates))
            run.until(create_workflow.finished, timeout="1h")
        return create_workflow

    return play


def test_node_reports_what_its_pod_waits_for(scenario_runner):
    big = template(
        "big", "Task", task={"container": {**CURL, "resources": {"requests": {"cpu": "1000"}}}}
    )
    with scenario_runner as run:
        create_workflow = run.workflow(
            workflow(template("all", "Parallel", children=["big", "ask"]), big, ask())
        )
        run.advance("10s")
        reported = {
            create_workflow.node(name).name: create_workflow.node(name).message
            for name in ("big", "ask")
        }
        nodes = run.cluster.runner.call(
            run.cluster.api("test").list(SHIPPED.nodes, "default")
        ).items
        shown = {node["metadata"]["name"]: node["status"].get("message") for node in nodes}
    assert {name: shown[name] for name in reported} == reported
    unscheduled, unending = reported.values()
    assert unscheduled.startswith(
        "its pod is not scheduled: 0/6 nodes are available: 6 Insufficient cpu."
    )
    assert unending == NOT_SIMULATED
    assert create_workflow.node("ask").message == "the workflow was aborted"


def test_interrupted_node_reports_what_its_pod_waited_for(play):
    create_workflow = play({**ask(), "deadline": "30s"})
    assert (create_workflow.phase, create_workflow.node("ask").message) == (
        "Failed",
        f"its deadline of 30s is over; {NOT_SIMULATED}",
    )


def test_annotations_contain_the_results(play):
    reported = {"kscen.io/exit-code": "3", "kscen.io/exit-after": "5s", "kscen.io/log": "no answer"}
    branch = {"target": "rest", "expression": "exitCode == 3 && stdout == 'no answer'"}
    create_workflow = play(
        {**ask(annotations=reported), "conditionalBranches": [branch]}, suspend("rest", "1s")
    )
    assert (
        create_workflow.phase,
        create_workflow.node("ask").message,
        create_workflow.node("rest").phase,
    ) == (
        "Succeed",
        "",
        "Succeed",
    )


def test_endless_wait_is_reported_with_its_position(scenario_runner):
    with scenario_runner as run:
        create_workflow = run.workflow(workflow(template("all", "Serial", children=["ask"]), ask()))
        with pytest.raises(TimeoutError) as late:
            run.until(create_workflow.finished, timeout="1m")
        name = create_workflow.node("ask").name
    assert str(late.value) == (
        "not true within 1m of cluster time: the end of the workflow "
        "default/w: it is Running, and stands at "
        f"{name} (Task, WaitingForChild): {NOT_SIMULATED}"
    )
