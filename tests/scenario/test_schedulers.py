"""Detection that schedulers have no more work."""

import json

import pytest

from pytest_kscen.kube.gate import check_scenario_step_phase
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS
from pytest_kscen.run.plan import Plan, ScenarioSettings
from pytest_kscen.run.runner import ScenarioRunner
from pytest_kscen.scenario.builtin_waiters import SchedulerWaiter
from pytest_kscen.scheduler import Plugin, failure
from tests.scenario.objects import create, done, node, pod, scenario

PROFILE = {
    "schedulerName": "default-scheduler",
    "plugins": {"multiPoint": {"enabled": [{"name": "Flaky"}]}},
}


def configure(cluster, **configuration):
    reported = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **configuration,
    }
    metadata = {"name": "kube-scheduler", "namespace": "kube-system"}
    cluster.runner.call(
        cluster.api().create(
            CONFIG_MAPS, {"metadata": metadata, "data": {"config.yaml": json.dumps(reported)}}
        )
    )


def places(played):
    return {
        event.pod_scheduled.pod.name: event.pod_scheduled.bound_to
        for event in played.timeline.of("podScheduled")
    }


@pytest.mark.parametrize(("failures", "first"), [(1, 30), (4, 1), (6, 1)])
def test_pod_in_backoff_after_an_error_is_awaited(runner, failures, first):
    class Flaky(Plugin):
        times = 0

        def reserve(self, state, pod, node):
            Flaky.times += 1
            return failure("not yet") if Flaky.times <= failures else None

    runner.cluster.site.scheduler.registry.register(Flaky)
    configure(
        runner.cluster,
        podInitialBackoffSeconds=first,
        podMaxBackoffSeconds=max(first, 10),
        profiles=[PROFILE],
    )

    assert places(runner.play(scenario(create(1, node()), create(1, pod("a")), done(1)))) == {
        "a": "node-1"
    }


def test_pods_of_another_scheduler_are_left_to_it(runner):
    pods = [create(1, pod("mine")), create(1, pod("theirs", schedulerName="another"))]
    played = runner.play(scenario(create(1, node()), *pods, done(1)))

    assert (played.phase, places(played)) == ("Succeeded", {"mine": "node-1"})


async def place_all(api, clock):
    """Scheduler that knows one node."""
    while True:
        for each in (await api.list(PODS, "default")).items:
            if each["spec"].get("schedulerName") == "second" and not each["spec"].get("nodeName"):
                target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
                binding = {"metadata": {"name": each["metadata"]["name"]}, "target": target}
                await api.create(
                    PODS, binding, "default", name=each["metadata"]["name"], subresource="binding"
                )
                break
        await check_scenario_step_phase("second-scheduler", api, clock)
        await clock.sleep(1)


def test_two_schedulers_work_in_turn(runner):
    runner.controllers.add(SchedulerWaiter("second-scheduler", ("second",)))
    cluster = runner.cluster
    cluster.runner.start(
        place_all(cluster.api("second-scheduler"), cluster.runner.clock), "second-scheduler"
    )
    pods = [
        create(1, pod("a", schedulerName="second")),
        create(1, pod("b")),
        create(1, pod("c", schedulerName="second")),
    ]
    played = runner.play(
        scenario(
            create(1, node()), *pods, done(1), controllers=["kube-scheduler", "second-scheduler"]
        )
    )

    assert played.phase == "Succeeded", played.message
    assert [(tuple(each.step), each.controller) for each in played.timeline.of("podScheduled")] == [
        ((1, 1), "kube-scheduler"),
        ((1, 2), "second-scheduler"),
        ((1, 3), "second-scheduler"),
    ]


def test_scheduler_that_never_settles_is_named(runner):
    async def never():
        return False

    reported = ScenarioRunner(runner.cluster, Plan(), terms=ScenarioSettings(patience=30))
    reported.controllers.add(SchedulerWaiter(idle=never), replace=True)
    played = reported.play(scenario(create(1, node()), done(1)))
    reported.close()

    assert played.message.startswith(
        "step 1: not finished within 30 s: kube-scheduler is not idle; last changes: "
    )


def test_preempted_pod_has_a_preemptor(runner):
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    small, large = pod("small", "1500m"), pod("large", "1500m", priorityClassName="high")
    played = runner.play(
        scenario(create(1, node()), create(1, high), create(2, small), create(3, large), done(4))
    )

    (event,) = played.timeline.of("podUnscheduled")
    assert event.pod_unscheduled.preempted_by == "default/large"
    assert [each.evidence for each in played.result.preemptions] == ["reported"]
