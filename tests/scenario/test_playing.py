import pytest

from tests.scenario.objects import create, delete, done, node, pod, scenario


def test_a_pod_waits_until_another_has_gone(runner):
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
    assert [played.result.allocation("cpu").at(step=step) for step in (1, 2, 3, 4)] == [0, 0.75, 0.75, 0.5]


def test_each_pod_has_a_minor_step_of_its_own(runner):
    played = runner.play(scenario(create(1, node()), *(create(2, pod(f"pod-{number}")) for number in range(3)), done(2)))

    assert [played.timeline.scheduled(f"pod-{number}").step.minor for number in range(3)] == [1, 2, 3]


def test_the_status_tells_every_moment_of_a_major_step(runner):
    played = runner.play(scenario(create(1, node()), create(1, pod("a")), done(1)))
    steps = [entry.data for entry in played.theatre.journal if entry.what == "scenario-step"]

    assert [(each["step"]["minor"], each["phase"], each["runningSimulationController"]) for each in steps] == [
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
        ({"id": "early", "step": 0, "doneOperation": {}}, "operation 'early' has the step 0: steps begin with 1"),
        (delete(1, "Pod", "nobody"), "operation 'delete nobody' of step 1 failed: pods \"nobody\" not found"),
    ],
)
def test_an_operation_that_cannot_be_done_fails_the_scenario(runner, operation, why):
    played = runner.play(scenario(operation))

    assert played.phase == "Failed"
    assert why in played.message


def test_nothing_is_deleted_for_a_scenario_that_is_wrong(runner):
    runner.play(scenario(create(1, node()), done(1), name="right"))
    runner.play(scenario({"id": "none", "step": 1}, name="wrong"))

    assert [each["metadata"]["name"] for each in runner.cluster.runner.call(_nodes(runner))] == ["node-1"]


def test_an_unknown_controller_is_named_with_its_nearest(runner):
    played = runner.play(scenario(done(1), controllers=["kube-sheduler"]))

    assert played.phase == "Failed"
    assert "there is no controller 'kube-sheduler' (did you mean 'kube-scheduler'?)" in played.message


async def _nodes(runner):
    from pytest_kscen.objects.resources import NODES

    return (await runner.cluster.api().list(NODES)).items
