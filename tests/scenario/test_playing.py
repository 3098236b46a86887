import pytest

from pytest_kscen.objects.resources import NODES, PODS, SERVICE_ACCOUNTS
from pytest_kscen.objects.scenarios import SCENARIOS
from tests.scenario.objects import create, delete, done, node, pod, scenario


def test_pod_waits_until_another_is_deleted(runner):
    played = runner.play(
        scenario(
            create(1, node()),
            create(2, pod("fits", "1500m")),
            create(3, pod("waits", "1")),
            delete(4, "Pod", "fits"),
            done(5),
        )
    )

    assert (played.phase, played.message) == ("Succeeded", "")
    assert played.timeline.scheduled("fits").step == (2, 1)
    assert played.timeline.scheduled("waits").step == (4, 1)
    assert [event.id for event in played.timeline.of("create")] == ["node-1", "fits", "waits"]
    assert [played.result.allocation("cpu").at(step=step) for step in (1, 2, 3, 4)] == [
        0,
        0.75,
        0.75,
        0.5,
    ]


def test_each_pod_has_its_own_minor_step(runner):
    played = runner.play(
        scenario(
            create(1, node()), *(create(2, pod(f"pod-{number}")) for number in range(3)), done(2)
        )
    )

    assert [played.timeline.scheduled(f"pod-{number}").step.minor for number in range(3)] == [
        1,
        2,
        3,
    ]


def test_status_contains_every_moment_of_a_major_step(runner):
    played = runner.play(scenario(create(1, node()), create(1, pod("a")), done(1)))
    steps = [entry.data for entry in played.journal if entry.what == "scenario-step"]

    assert [
        (each["step"]["minor"], each["phase"], each["runningSimulationController"])
        for each in steps
    ] == [
        (0, "Operating", ""),
        (0, "OperatingCompleted", "kube-scheduler"),
        (0, "ControllerRunning", "kube-scheduler"),
        (1, "ControllerPaused", "kube-scheduler"),
        (1, "OperatingCompleted", "kube-scheduler"),
        (1, "ControllerRunning", "kube-scheduler"),
        (1, "ControllerCompleted", "kube-scheduler"),
        (1, "Finished", "kube-scheduler"),
    ]


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (
            {"id": "two", "step": 1, "doneOperation": {}, "createOperation": {"object": node()}},
            "operation 'two' must have exactly one",
        ),
        ({"id": "none", "step": 1}, "operation 'none' must have exactly one"),
        (
            {"id": "early", "step": 0, "doneOperation": {}},
            "operation 'early' has the step 0: steps begin with 1",
        ),
        (
            delete(1, "Pod", "nobody"),
            "operation 'delete nobody' of step 1 failed: pods \"nobody\" not found",
        ),
    ],
)
def test_impossible_operation_fails_the_scenario(runner, operation, why):
    played = runner.play(scenario(operation))

    assert played.phase == "Failed"
    assert why in played.message


def test_invalid_scenario_deletes_nothing(runner):
    runner.play(scenario(create(1, node()), done(1), name="right"))
    runner.play(scenario({"id": "none", "step": 1}, name="wrong"))

    assert [each["metadata"]["name"] for each in runner.cluster.runner.call(_nodes(runner))] == [
        "node-1"
    ]


def test_unknown_controller_is_named_with_similar_names(runner):
    played = runner.play(scenario(done(1), controllers=["kube-sheduler"]))

    assert played.phase == "Failed"
    assert (
        "there is no controller 'kube-sheduler' (did you mean 'kube-scheduler'?)" in played.message
    )


async def _nodes(runner):
    return (await runner.cluster.api().list(NODES)).items


def test_disabled_controllers_do_nothing(runner):
    ready = {
        **node(),
        "status": {**node()["status"], "conditions": [{"type": "Ready", "status": "True"}]},
    }
    played = runner.play(
        scenario(create(1, ready), create(1, pod("a")), done(1), disabled=["kubelet"])
    )
    status = runner.cluster.runner.call(runner.cluster.api().get(PODS, "a", "default"))["status"]

    assert played.timeline.scheduled("a").node == "node-1"
    assert (played.phase, status["phase"]) == ("Succeeded", "Pending")
    runner.cluster.advance("10s")
    status = runner.cluster.runner.call(runner.cluster.api().get(PODS, "a", "default"))["status"]
    assert status["phase"] == "Running"


def test_several_controllers_are_simulated_in_turn(runner):
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod("a")["spec"]}
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "three", "namespace": "default"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    played = runner.play(
        scenario(
            create(1, node()),
            create(2, replicas),
            done(2),
            controllers=["replicaset-controller", "kube-scheduler"],
        )
    )
    made = [
        event.step
        for event in played.timeline.of("create")
        if event.controller == "replicaset-controller"
    ]
    placed = [event.step for event in played.timeline.of("podScheduled")]

    assert played.phase == "Succeeded", played.message
    assert made == [(2, 1), (2, 2), (2, 3)]
    assert placed == [(2, 4), (2, 5), (2, 6)]


def test_foreign_write_fails_the_scenario(runner):
    with runner.scenario(controllers=["kube-scheduler"]) as played:
        played.create(node(), step=1)
        played.until_paused()
        runner.cluster.runner.call(runner.cluster.api("kubectl").create(PODS, pod("foreign")))

    assert played.phase == "Failed"
    assert "kubectl created pods default/foreign while the scenario was running" in played.message


def test_operations_of_a_past_step_are_skipped_and_reported(runner):
    with runner.scenario(controllers=["kube-scheduler"]) as played:
        played.create(node(), step=3)
        played.until_paused()
        played.create(pod("late"), step=2, id="late")
        played.until_paused()

        assert "ignored, because their steps are past: late" in played.message
        played.done(step=4)


def test_earlier_objects_are_deleted_except_those_of_a_new_cluster(runner):
    runner.play(scenario(create(1, node()), create(1, pod("before")), done(1), name="first"))
    runner.play(scenario(done(1), name="second"))
    api, call = runner.cluster.api(), runner.cluster.runner.call

    assert not call(api.list(NODES)).items
    assert not call(api.list(PODS)).items
    assert [
        each["metadata"]["name"] for each in call(api.list(SERVICE_ACCOUNTS, "default")).items
    ] == ["default"]
    assert len(call(api.list(SCENARIOS)).items) == 2
