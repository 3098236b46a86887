"""Operations as they are given: their ids, a status with an object, and what comes when all is over."""

import pytest

from pytest_kscen.kube.requests import JSON_PATCH
from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.scenarios import SCENARIOS
from tests.scenario.objects import create, done, node, pod, scenario


def unnamed(step, obj):
    return {"step": step, "createOperation": {"object": obj}}


def made(played):
    return [(event.id, event.create.result["metadata"]["name"]) for event in played.timeline.of("create")]


def test_ids_that_are_made_up_say_what_is_done_and_are_nobody_elses(runner):
    taken = create(1, node("a"), id="step 1: create Node b")
    played = runner.play(scenario(taken, unnamed(1, node("b")), unnamed(1, node("c")), {"step": 1, "doneOperation": {}}))

    assert made(played) == [
        ("step 1: create Node b", "a"),
        ("step 1: create Node b (2)", "b"),
        ("step 1: create Node c", "c"),
    ]
    assert [event.id for event in played.timeline.of("done")] == ["step 1: done"]


def test_what_is_done_is_done_wherever_it_stands_in_the_list(runner):
    played = runner.play(scenario(unnamed(1, node("a"))))
    operations = [unnamed(2, node("b")), unnamed(1, node("a")), done(3)]
    user = runner.cluster.api("user")
    runner.cluster.runner.call(user.patch(SCENARIOS, "test", {"spec": {"operations": operations}}))
    played.until_over()

    assert (played.phase, played.message) == ("Succeeded", "")
    assert made(played) == [("step 1: create Node a", "a"), ("step 2: create Node b", "b")]


def test_an_id_is_not_given_twice(runner):
    with runner.scenario(["kube-scheduler"]) as played:
        played.create(node("a"), step=1, id="x")
        played.until_paused()
        played.create(node("b"), step=2, id="x")

    assert (played.phase, played.message) == ("Failed", "step 1: operation 'x' is done, and another has come with its id")


def test_two_operations_of_one_id_fail_before_anything_is_touched(runner):
    runner.play(scenario(create(1, node("old")), done(1), name="before"))
    played = runner.play(scenario(create(1, node("a"), id="x"), create(2, node("b"), id="x"), done(3)))

    assert (played.phase, played.message) == (
        "Failed",
        "operation 'x' is there twice, at the steps 1 and 2: an id is that of one",
    )
    names = [each["metadata"]["name"] for each in runner.cluster.runner.call(runner.cluster.api().list(NODES)).items]
    assert names == ["old"]


def test_a_status_is_set_over_the_one_that_the_server_gives(runner):
    ended = {**pod("a", nodeName="node-1"), "status": {"phase": "Succeeded"}}
    played = runner.play(scenario(create(1, node()), create(1, ended), done(1), disabled=["*"]))
    [_, event] = played.timeline.of("create")

    assert event.create.result["status"]["phase"] == "Succeeded"


def test_a_status_that_is_refused_fails_the_scenario(runner):
    wrong = {**node(), "status": {"allocatable": {"cpu": "many"}}}
    played = runner.play(scenario(create(1, wrong, id="odd"), done(1)))

    assert played.phase == "Failed"
    assert played.message.startswith("operation 'odd' of step 1 failed: ")


def test_nothing_is_added_through_the_api_to_what_is_over(runner):
    runner.play(scenario(create(1, node()), done(1)))
    patch = [{"op": "add", "path": "/spec/operations/-", "value": create(5, node("late"))}]
    user = runner.cluster.api("user")
    with pytest.raises(Forbidden, match=r"the Scenario 'test' is Succeeded: operation 'late' comes too late"):
        runner.cluster.runner.call(user.patch(SCENARIOS, "test", patch, patch_type=JSON_PATCH))
    runner.cluster.runner.call(user.patch(SCENARIOS, "test", {"metadata": {"labels": {"seen": "true"}}}))
