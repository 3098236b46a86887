"""Workflows on the embedded cluster: the phases that each node goes through, and when, to the second of simulated time."""

import pytest


def workflow(entry, *templates, name="w"):
    spec = {"entry": entry, "templates": list(templates)}
    return {"apiVersion": "chaos-mesh.org/v1alpha1", "kind": "Workflow", "metadata": {"name": name}, "spec": spec}


def template(name, kind, **fields):
    return {"name": name, "templateType": kind, **fields}


def suspend(name, deadline):
    return template(name, "Suspend", deadline=deadline)


@pytest.fixture
def play(scenario_runner):
    def play(obj):
        with scenario_runner as run:
            put_on = run.workflow(obj)
            run.until(put_on.finished, timeout="1h")
        assert run.outcome.leftovers == []
        return put_on

    return play


def test_children_follow_each_other_or_live_at_once(play):
    played = play(
        workflow(
            "entry",
            template("entry", "Serial", children=["both", "first"]),
            template("both", "Parallel", children=["first", "second"]),
            suspend("first", "10s"),
            suspend("second", "20s"),
        )
    )
    assert played.phase == "Succeed"
    assert played.duration == 30
    assert played.node("entry").phases == [
        *("Init", "WaitingForSchedule", "WaitingForChild", "WaitingForSchedule", "WaitingForChild", "Succeed")
    ]
    assert played.node("both").phases == ["Init", "WaitingForSchedule", "WaitingForChild", "WaitingForChild", "Succeed"]
    assert [node.duration for node in played.nodes if node.template == "first"] == [10, 10]


def test_a_deadline_ends_what_is_below_it_and_is_no_failure(play):
    played = play(
        workflow(
            "entry",
            template("entry", "Serial", children=["short", "after"]),
            template("short", "Parallel", children=["long"], deadline="5s"),
            suspend("long", "1h"),
            suspend("after", "1s"),
        )
    )
    assert played.phase == "Succeed"
    assert (played.node("short").duration, played.node("long").duration, played.duration) == (5, 5, 6)


def test_a_branch_that_cannot_be_evaluated_fails_the_workflow_with_its_reason(play):
    task = {"container": {"name": "main", "image": "busybox", "command": ["sh", "-c", "exit 3"]}}
    branches = [{"target": "next", "expression": "exitCod == 3"}]
    played = play(
        workflow(
            "entry",
            template("entry", "Parallel", children=["task", "long"]),
            template("task", "Task", task=task, conditionalBranches=branches),
            suspend("long", "1h"),
            suspend("next", "1s"),
        )
    )
    assert played.phase == "Failed"
    assert "exitCod" in played.message
    assert played.node("long").phase == "Failed"
    assert played.node("next") is None
