"""How long chaos and Schedules are held, to the second, and what becomes of those that were
never in effect.
"""

from __future__ import annotations

import pytest
from forest import ABSENT, Forest
from theatre import partition, template

from pytest_kscen.objects.chaos_mesh import CHAOS_INJECTED, FAILED, SUCCEED, phase_of
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.workflow.story import stories

SPAWNED = {**partition("spawned")["networkChaos"], "duration": "4s"}
SCHEDULE = {"schedule": "@every 1h", "type": "NetworkChaos", "networkChaos": SPAWNED}


@pytest.fixture(scope="module")
def forest():
    forest = Forest("lengths")
    forest.runner.advance(10)  # its pods run
    yield forest
    forest.close()


def cut(app="a", **fields):
    made = partition("cut", **fields)
    made["networkChaos"]["selector"]["labelSelectors"] = {"app": app}
    return {name: value for name, value in made.items() if value is not None}


def below(kind, child, **fields):
    return {
        "entry": "all",
        "templates": [template("all", kind, children=[child["name"]], **fields), child],
    }


def played(forest, spec, after=0.0, then=lambda name: None):
    """The workflow and its nodes by template at the end, and what the journal tells of it."""
    name = forest.put_on(spec)
    if after:
        forest.runner.advance(after)
        then(name)
    workflow, nodes = forest.end(name)
    forest.free(name)
    return (
        workflow,
        {node["spec"]["templateName"]: node for node in nodes.values()},
        stories(forest.journal)["default", name],
    )


def held(told):
    """For how long it was Holding, each time."""
    ends = [at for _, at in told.history[1:]]
    return [
        round(end - at)
        for (phase, at), end in zip(told.history, ends, strict=False)
        if phase == "Holding"
    ]


def another_engine(forest):
    forest.stop()
    forest.runner.advance(3)
    forest.start()


LASTING = {
    "NetworkChaos": cut(deadline=None),
    "Schedule": template("cut", "Schedule", schedule=SCHEDULE),
}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "by another engine"])
@pytest.mark.parametrize("kind", LASTING)
def test_node_without_a_deadline_lasts_until_its_parent_ends(forest, kind, is_restarted):
    then = (lambda _: another_engine(forest)) if is_restarted else (lambda _: None)
    workflow, nodes, story = played(
        forest, below("Parallel", LASTING[kind], deadline="30s"), 5, then
    )
    told = story.node("cut")
    assert (phase_of(workflow), held(told)) == (SUCCEED, [30])
    assert told.phases == ["Init", "Running", "Holding", "Running", "Succeed"]
    assert told.message == "its parent's deadline is over"
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
def test_chaos_never_injected_fails_the_workflow_at_its_deadline(forest, kind, deadline, why):
    workflow, nodes, story = played(
        forest, below(kind, cut("nobody", deadline="30s"), deadline=deadline)
    )
    assert (phase_of(workflow), workflow["status"]["message"]) == (FAILED, why)
    assert (phase_of(nodes["all"]), is_true(nodes["cut"], CHAOS_INJECTED)) == (FAILED, False)
    assert story.node("cut").phases == ["Init", "Running", "Failed"]


def test_chaos_ended_by_its_parents_deadline_before_its_first_probes_fails(
    forest,
):
    absent = {
        "name": "late",
        "when": "Start",
        "kubernetes": ABSENT,
        "interval": "30s",
        "failureThreshold": 9,
    }
    workflow, _, _ = played(forest, below("Serial", cut(probes=[absent]), deadline="40s"))
    assert (
        workflow["status"]["message"]
        == "cut: its parent's deadline is over; it was not in effect: it had not begun"
    )


def test_injected_chaos_ended_by_a_deadline_succeeds(forest):
    """Also where the next engine hears of that."""
    workflow, _, story = played(
        forest, below("Serial", cut(), deadline="40s"), 20, lambda _: another_engine(forest)
    )
    assert (phase_of(workflow), held(story.node("cut"))) == (SUCCEED, [40])


def test_each_attempt_of_chaos_has_its_full_duration(forest):
    retried = cut(deadline="60s", retry={"limit": 2})
    workflow, _, story = played(
        forest, below("Serial", retried), 50, lambda name: forest.befall(name, "remove chaos", 0)
    )
    assert (phase_of(workflow), held(story.node("cut"))) == (SUCCEED, [50, 60])


def test_schedule_is_active_when_it_exists(forest):
    nobodys = {**SPAWNED, "selector": {"labelSelectors": {"app": "nobody"}}}
    spawns = {**SCHEDULE, "schedule": "@every 5s", "networkChaos": nobodys}
    workflow, _, story = played(
        forest, below("Serial", template("cut", "Schedule", deadline="30s", schedule=spawns))
    )
    assert (phase_of(workflow), held(story.node("cut"))) == (SUCCEED, [30])
