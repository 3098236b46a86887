"""Durations of chaos and Schedules to the second, and chaos that was never injected."""

from __future__ import annotations

import pytest
from engine_env import partition, template
from workflow_cluster import ABSENT, WorkflowCluster

from pytest_kscen.objects.chaos_mesh import CHAOS_INJECTED, FAILED, SUCCEED, phase_of
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.workflow.story import stories

SPAWNED = {**partition("spawned")["networkChaos"], "duration": "4s"}
SCHEDULE = {"schedule": "@every 1h", "type": "NetworkChaos", "networkChaos": SPAWNED}


@pytest.fixture(scope="module")
def workflow_cluster():
    workflow_cluster = WorkflowCluster("lengths")
    workflow_cluster.runner.advance(10)  # its pods run
    yield workflow_cluster
    workflow_cluster.close()


def cut(app="a", **fields):
    made = partition("cut", **fields)
    made["networkChaos"]["selector"]["labelSelectors"] = {"app": app}
    return {name: value for name, value in made.items() if value is not None}


def below(kind, child, **fields):
    return {
        "entry": "all",
        "templates": [template("all", kind, children=[child["name"]], **fields), child],
    }


def played(workflow_cluster, spec, after=0.0, then=lambda name: None):
    """Return the workflow and its nodes by template at the end, and its journal entries."""
    name = workflow_cluster.create_workflow(spec)
    if after:
        workflow_cluster.runner.advance(after)
        then(name)
    workflow, nodes = workflow_cluster.end(name)
    workflow_cluster.free(name)
    return (
        workflow,
        {node["spec"]["templateName"]: node for node in nodes.values()},
        stories(workflow_cluster.journal)["default", name],
    )


def chaos_durations(reported):
    """Return the seconds of each Holding phase."""
    ends = [at for _, at in reported.history[1:]]
    return [
        round(end - at)
        for (phase, at), end in zip(reported.history, ends, strict=False)
        if phase == "Holding"
    ]


def another_engine(workflow_cluster):
    workflow_cluster.stop()
    workflow_cluster.runner.advance(3)
    workflow_cluster.start()


LASTING = {
    "NetworkChaos": cut(deadline=None),
    "Schedule": template("cut", "Schedule", schedule=SCHEDULE),
}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
@pytest.mark.parametrize("kind", LASTING)
def test_node_without_a_deadline_lasts_until_its_parent_ends(workflow_cluster, kind, is_restarted):
    then = (lambda _: another_engine(workflow_cluster)) if is_restarted else (lambda _: None)
    workflow, nodes, story = played(
        workflow_cluster, below("Parallel", LASTING[kind], deadline="30s"), 5, then
    )
    reported = story.node("cut")
    assert (phase_of(workflow), chaos_durations(reported)) == (SUCCEED, [30])
    assert reported.phases == ["Init", "Running", "Holding", "Running", "Succeed"]
    assert reported.message == "its parent's deadline is over"
    assert is_true(nodes["cut"], CHAOS_INJECTED) == (kind == "NetworkChaos")


PARENTS_TIME = (
    "cut: its parent's deadline is over; it was not in effect: its selector matches nothing"
)


@pytest.mark.parametrize("kind", ["Serial", "Parallel"])
@pytest.mark.parametrize(
    ("deadline", "why"),
    [
        ("40s", PARENTS_TIME),
        ("59s", PARENTS_TIME),
        ("61s", "cut: it was not in effect within 60 s: its selector matches nothing"),
    ],
)
def test_chaos_never_injected_fails_the_workflow_at_its_deadline(
    workflow_cluster, kind, deadline, why
):
    workflow, nodes, story = played(
        workflow_cluster, below(kind, cut("nobody", deadline="30s"), deadline=deadline)
    )
    assert (phase_of(workflow), workflow["status"]["message"]) == (FAILED, why)
    assert (phase_of(nodes["all"]), is_true(nodes["cut"], CHAOS_INJECTED)) == (FAILED, False)
    assert story.node("cut").phases == ["Init", "Running", "Failed"]


def test_chaos_ended_by_its_parents_deadline_before_its_first_probes_fails(
    workflow_cluster,
):
    absent = {
        "name": "late",
        "when": "Start",
        "kubernetes": ABSENT,
        "interval": "30s",
        "failureThreshold": 9,
    }
    workflow, _, _ = played(workflow_cluster, below("Serial", cut(probes=[absent]), deadline="40s"))
    assert (
        workflow["status"]["message"]
        == "cut: its parent's deadline is over; it was not in effect: it had not begun"
    )


def test_injected_chaos_ended_by_a_deadline_succeeds(workflow_cluster):
    """Also when the next engine observes it."""
    workflow, _, story = played(
        workflow_cluster,
        below("Serial", cut(), deadline="40s"),
        20,
        lambda _: another_engine(workflow_cluster),
    )
    assert (phase_of(workflow), chaos_durations(story.node("cut"))) == (SUCCEED, [40])


def test_each_attempt_of_chaos_has_its_full_duration(workflow_cluster):
    retried = cut(deadline="60s", retry={"limit": 2})
    workflow, _, story = played(
        workflow_cluster,
        below("Serial", retried),
        50,
        lambda name: workflow_cluster.disturb(name, "remove chaos", 0),
    )
    assert (phase_of(workflow), chaos_durations(story.node("cut"))) == (SUCCEED, [50, 60])


def test_schedule_is_active_when_it_exists(workflow_cluster):
    nobodys = {**SPAWNED, "selector": {"labelSelectors": {"app": "nobody"}}}
    spawns = {**SCHEDULE, "schedule": "@every 5s", "networkChaos": nobodys}
    workflow, _, story = played(
        workflow_cluster,
        below("Serial", template("cut", "Schedule", deadline="30s", schedule=spawns)),
    )
    assert (phase_of(workflow), chaos_durations(story.node("cut"))) == (SUCCEED, [30])
