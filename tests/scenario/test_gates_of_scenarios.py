"""Gates: a released controller continues under all concurrent changes."""

import asyncio

import pytest

from pytest_kscen.kube.gate import Gates, check_scenario_step_phase
from pytest_kscen.objects.resources import CONFIG_MAPS, NODES
from pytest_kscen.objects.scenarios import CONTROLLER_RUNNING, OPERATING, RUNNING, SCENARIOS
from pytest_kscen.scenario.cluster_setup import install
from pytest_kscen.scenario.gate import check_scenario_step_phase as check_with_the_official_client
from pytest_kscen.scenario.waiting import Waiter
from pytest_kscen.scenario.writes import NAME
from tests.scenario.objects import create, done, node, scenario


@pytest.fixture
def cluster(runner):
    """Cluster with a running Scenario and without a scenario controller."""
    cluster = runner.cluster
    api, call = cluster.api(NAME), cluster.runner.call
    call(install(api, cluster.runner.clock))
    call(api.create(SCENARIOS, scenario(done(1), controllers=["a", "b"])))
    call(_stands(api, OPERATING, ""))
    return cluster


async def _stands(api, phase, running):
    step = {
        "step": {"major": 1, "minor": 0},
        "phase": phase,
        "runningSimulationController": running,
    }
    status = {"phase": RUNNING, "stepStatus": step}
    await api.patch(SCENARIOS, "test", {"status": status}, subresource="status")


class Slow:
    """The cluster's API with delayed responses."""

    def __init__(self, api, clock):
        self._api, self._clock = api, clock
        self.asked = 0

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def get(self, *arguments):
        self.asked += 1
        found = await self._api.get(*arguments)
        await self._clock.sleep(0.2)
        return found


def test_change_while_another_controller_arrives_at_a_gate_is_kept(cluster):
    clock, api, gates = cluster.runner.clock, cluster.api(NAME), Gates()
    cluster.runner.start(gates.follow(Slow(api, clock), clock), "gates")

    async def both_arrive():
        await clock.sleep(0.1)
        first = asyncio.get_running_loop().create_task(gates.passed("a"))
        await clock.sleep(0.1)
        await _stands(api, CONTROLLER_RUNNING, "a")
        await clock.sleep(0.05)
        second = asyncio.get_running_loop().create_task(gates.passed("b"))
        await clock.sleep(1)
        second.cancel()
        return first.done()

    assert cluster.runner.call(both_arrive())


def test_only_controllers_of_the_scenario_are_requested(cluster):
    clock, gates = cluster.runner.clock, Gates()
    slow = Slow(cluster.api(NAME), clock)
    cluster.runner.start(gates.follow(slow, clock), "gates")

    async def comes(name):
        await clock.sleep(0.1)
        await gates.passed(name)

    cluster.runner.call(comes("kubelet"))
    assert slow.asked == 0


def test_waiting_controller_passes_when_the_scenario_is_deleted(cluster):
    api, clock = cluster.api("a"), cluster.runner.clock
    passed = []

    async def comes():
        await check_scenario_step_phase("a", api, clock)
        passed.append(clock.now())

    cluster.runner.start(comes(), "a")
    cluster.advance(5)
    assert passed == []
    cluster.runner.call(cluster.api(NAME).delete(SCENARIOS, "test"))
    cluster.advance(1)
    assert passed


@pytest.mark.parametrize("event", ["DELETED", "ERROR"])
def test_official_client_is_released_for_every_watch_event(monkeypatch, event):
    """Only the responses of the client are faked."""
    from kubernetes.client import ApiException, CustomObjectsApi
    from kubernetes.watch import Watch

    status = {
        "phase": RUNNING,
        "stepStatus": {"step": {"major": 1, "minor": 0}, "phase": OPERATING},
    }
    held = {**scenario(done(1), controllers=["a"]), "status": status}
    answers = iter([ApiException(503), ConnectionResetError(), [held], []])

    def listed(*_, **__):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return {"items": answer, "metadata": {"resourceVersion": "1"}}

    monkeypatch.setattr(CustomObjectsApi, "list_cluster_custom_object", listed)
    monkeypatch.setattr(
        Watch, "stream", lambda *_, **__: iter([{"type": event, "object": {"kind": "Status"}}])
    )
    check_with_the_official_client("a", None)
    assert list(answers) == []


def test_controller_waits_at_its_gate_before_the_first_operation(runner):
    api, clock = runner.cluster.api("own-controller"), runner.cluster.runner.clock
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "made", "namespace": "default"},
    }

    async def control():
        made = False
        while True:
            if not made and (await api.list(NODES)).items:
                made = True
                await api.create(CONFIG_MAPS, config)
            await check_scenario_step_phase("own-controller", api, clock)
            await clock.sleep(0.05)

    runner.controllers.add(Waiter("own-controller", {CONFIG_MAPS: lambda _: ""}))
    runner.cluster.runner.start(control(), "own-controller")
    played = runner.play(scenario(create(1, node()), done(1), controllers=["own-controller"]))
    phases = [entry.data["phase"] for entry in played.journal if entry.what == "scenario-step"]

    assert phases[:4] == [
        "Operating",
        "OperatingCompleted",
        "ControllerRunning",
        "ControllerPaused",
    ]
