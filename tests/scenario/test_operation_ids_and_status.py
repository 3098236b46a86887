"""Operations: their ids, initial statuses, and refusal after the end."""

import contextlib

import pytest

from pytest_kscen.kube.api import JSON_PATCH
from pytest_kscen.objects.errors import ApiError, Forbidden
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.scenarios import SCENARIOS
from pytest_kscen.run.plan import ScenarioSettings
from pytest_kscen.run.scenarios import ScenarioPlayer
from pytest_kscen.scenario.cluster_setup import install
from pytest_kscen.scenario.files import ScenarioRefused
from tests.scenario.objects import create, done, node, pod, scenario


def unnamed(step, obj):
    return {"step": step, "createOperation": {"object": obj}}


def made(played):
    return [
        (event.id, event.create.result["metadata"]["name"])
        for event in played.timeline.of("create")
    ]


def test_generated_ids_describe_the_operation_and_are_unique(runner):
    taken = create(1, node("a"), id="step 1: create Node b")
    played = runner.play(
        scenario(
            taken, unnamed(1, node("b")), unnamed(1, node("c")), {"step": 1, "doneOperation": {}}
        )
    )

    assert made(played) == [
        ("step 1: create Node b", "a"),
        ("step 1: create Node b (2)", "b"),
        ("step 1: create Node c", "c"),
    ]
    assert [event.id for event in played.timeline.of("done")] == ["step 1: done"]


def test_operations_are_executed_in_any_list_order(runner):
    played = runner.play(scenario(unnamed(1, node("a"))))
    operations = [unnamed(2, node("b")), unnamed(1, node("a")), done(3)]
    user = runner.cluster.api("user")
    runner.cluster.runner.call(user.patch(SCENARIOS, "test", {"spec": {"operations": operations}}))
    played.until_over()

    assert (played.phase, played.message) == ("Succeeded", "")
    assert made(played) == [("step 1: create Node a", "a"), ("step 2: create Node b", "b")]


def test_id_is_not_assigned_twice(runner):
    with runner.scenario(["kube-scheduler"]) as played:
        played.create(node("a"), step=1, id="x")
        played.until_paused()
        with pytest.raises(
            ScenarioRefused, match=r"operation 'x': Duplicate value: {\"id\":\"x\"}$"
        ):
            played.create(node("b"), step=2, id="x")
        played.until_paused()
        user, other = (
            runner.cluster.api("user"),
            {"spec": {"operations": [create(2, node("b"), id="x")]}},
        )
        runner.cluster.runner.call(user.patch(SCENARIOS, "scenario", other))

    assert (played.phase, played.message) == (
        "Failed",
        "step 1: operation 'x' is done, and was changed or replaced afterwards",
    )


def test_duplicate_ids_are_refused_before_anything_is_changed(runner):
    runner.play(scenario(create(1, node("old")), done(1), name="before"))
    with pytest.raises(ScenarioRefused, match=r"operation 'x': Duplicate value: {\"id\":\"x\"}$"):
        runner.play(scenario(create(1, node("a"), id="x"), create(2, node("b"), id="x"), done(3)))

    names = [
        each["metadata"]["name"]
        for each in runner.cluster.runner.call(runner.cluster.api().list(NODES)).items
    ]
    assert names == ["old"]


def _applied_by_two(cluster):
    """Return the operations after two appliers used ids and a third one none."""
    call, api = cluster.runner.call, cluster.api("user")
    call(install(api, cluster.runner.clock))
    for step, name in ((1, "a"), (2, "b")):
        applied = call(
            api.apply(
                SCENARIOS, scenario(create(step, node(name)), name="applied"), field_manager=name
            )
        )
    ids = [[each["id"] for each in applied["spec"]["operations"]]]
    ScenarioPlayer.of(cluster, ScenarioSettings())
    made = call(
        api.create(
            SCENARIOS, scenario(unnamed(1, node("a")), unnamed(1, node("a")), done(1), name="made")
        )
    )
    with pytest.raises(
        ApiError,
        match=(
            r"element 0: associative list with keys has an element that omits all key fields "
            r'\["id"\]'
        ),
    ):
        call(
            api.apply(SCENARIOS, scenario(unnamed(3, node("c")), name="applied"), field_manager="c")
        )
    return [*ids, [each["id"] for each in made["spec"]["operations"]]]


IDS = [["a", "b"], ["step 1: create Node a", "step 1: create Node a (2)", "end"]]


def test_operations_are_merged_by_generated_ids(runner):
    assert _applied_by_two(runner.cluster) == IDS


@pytest.mark.controlplane
def test_real_api_server_merges_them():
    from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

    with contextlib.closing(ControlPlaneCluster(1, nodes=0)) as cluster:
        assert _applied_by_two(cluster) == IDS


@pytest.mark.parametrize(
    "odd",
    ["x", ["x"], [{"createOperation": "x"}], [{"createOperation": {"object": {"metadata": 1}}}]],
)
def test_invalid_operation_is_refused_by_the_schema(runner, odd):
    with pytest.raises(ScenarioRefused, match=r"Invalid value|Required value"):
        runner.play({**scenario(), "spec": {**scenario()["spec"], "operations": odd}})


def test_given_status_replaces_the_initial_one(runner):
    ended = {**pod("a", nodeName="node-1"), "status": {"phase": "Succeeded"}}
    played = runner.play(scenario(create(1, node()), create(1, ended), done(1), disabled=["*"]))
    [_, event] = played.timeline.of("create")

    assert event.create.result["status"]["phase"] == "Succeeded"


def test_refused_status_fails_the_scenario(runner):
    wrong = {**node(), "status": {"allocatable": {"cpu": "many"}}}
    played = runner.play(scenario(create(1, wrong, id="odd"), done(1)))

    assert played.phase == "Failed"
    assert played.message.startswith("operation 'odd' of step 1 failed: ")


def test_finished_scenario_accepts_no_operations_through_the_api(runner):
    runner.play(scenario(create(1, node()), done(1)))
    patch = [{"op": "add", "path": "/spec/operations/-", "value": create(5, node("late"))}]
    user = runner.cluster.api("user")
    with pytest.raises(
        Forbidden, match=r"the Scenario 'test' is Succeeded: operation 'late' comes too late"
    ):
        runner.cluster.runner.call(user.patch(SCENARIOS, "test", patch, patch_type=JSON_PATCH))
    runner.cluster.runner.call(
        user.patch(SCENARIOS, "test", {"metadata": {"labels": {"seen": "true"}}})
    )
