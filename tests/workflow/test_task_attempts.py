"""Output of Task attempts: reporting, truncation, and excessive output."""

from __future__ import annotations

import pytest
from test_engine import suspend, template, workflow

from pytest_kscen.objects.chaos_mesh import SHIPPED
from pytest_kscen.objects.resources import EVENTS


def test_events_name_the_pod_and_the_status_shows_the_start_of_its_output(
    scenario_runner,
):
    codes = iter([1, 0])

    async def talk(container):
        container.log.write("\x01" * 900_000)
        return next(codes)

    task = {"container": {"name": "main", "image": "talker"}}
    branches = [{"target": "next", "expression": "exitCode == 0 || exitCode % 0 == 1"}]
    entry = template("entry", "Task", task=task, conditionalBranches=branches, retry={"limit": 1})
    with scenario_runner as run:
        run.cluster.site.images.register(talk, image="talker")
        create_workflow = run.workflow(workflow("entry", entry, suspend("next", "1s")))
        run.until(create_workflow.finished)
        run.advance("1s")
        api = run.cluster.api("test")
        nodes = run.call(api.list(SHIPPED.nodes, "default")).items
        events = run.call(api.list(EVENTS, "default")).items
    assert create_workflow.phase == "Succeed"
    (node,) = (each for each in nodes if each["spec"]["templateName"] == "entry")
    name = node["metadata"]["name"]
    reported = {
        (event["reason"], event["message"])
        for event in events
        if event["involvedObject"]["name"] == name
    }
    assert {
        ("TaskPodSpawned", f"runs pod {name}"),
        ("TaskPodSpawned", f"runs pod {name}-2"),
    } < reported
    assert ("TaskPodPodCompleted", f"pod {name}-2 has completed") in reported
    (stdout,) = (
        each
        for each in node["status"]["conditionalBranchesStatus"]["context"]
        if each.startswith("stdout")
    )
    assert len(stdout) < 500


def played(scenario_runner, branch, container, talk=None):
    entry = template(
        "entry",
        "Task",
        task={"container": {"name": "main", **container}},
        conditionalBranches=[branch],
    )
    with scenario_runner as run:
        if talk:
            run.cluster.site.images.register(talk, image="talker")
        create_workflow = run.workflow(workflow("entry", entry, suspend("next", "1s")))
        run.until(create_workflow.finished)
    return create_workflow


@pytest.mark.parametrize("expression", ["len(stdout) > 10", "exitCode == 0"])
def test_task_writing_a_hundred_megabytes_fails_with_that_reason(scenario_runner, expression):
    async def talk(container):
        for _ in range(100):
            container.log.write("x" * 1_000_000)
        return 0

    create_workflow = played(
        scenario_runner, {"target": "next", "expression": expression}, {"image": "talker"}, talk
    )
    words = "its output is longer than 1048576 bytes, the limit of expressions: write less output"
    assert (create_workflow.phase, create_workflow.message, create_workflow.node("next")) == (
        "Failed",
        f"entry: {words}",
        None,
    )


def test_missing_command_is_reported_despite_expressions(
    scenario_runner,
):
    """The shell's message and the output share the log; an expression cannot distinguish them."""
    command = {"image": "busybox", "command": ["sh", "-c", "yes | head -c 100000000"]}
    create_workflow = played(
        scenario_runner, {"target": "next", "expression": "len(stdout) > 10"}, command
    )
    text = "its pod has ended with the exit code 127: a shell did not find a command"
    assert (create_workflow.phase, create_workflow.node("next").phase) == ("Succeed", "Succeed")
    assert create_workflow.node("entry").message.startswith(
        f"{text}; its output: sh: yes: not found"
    )
