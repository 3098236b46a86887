"""The scenario controller under concurrent events, after a start and after a scenario."""

import pytest

from pytest_kscen.journal import JournalSwitch
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.retrying import RetryingApi
from pytest_kscen.objects.errors import InternalError
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.scenarios import SCENARIOS, phase_of
from pytest_kscen.scenario.cluster_setup import install
from pytest_kscen.scenario.controller import ScenarioController
from pytest_kscen.scenario.participants import ControllerRegister
from pytest_kscen.scenario.webhooks import HELD, HeldPods, gates_of
from pytest_kscen.scenario.writes import NAME
from tests.scenario.objects import create, done, node, pod, scenario


class Slow:
    """The cluster's API with a list as slow as over a network."""

    def __init__(self, api, clock):
        self._api, self._clock = api, clock

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def list(self, *arguments, **options):
        await self._clock.sleep(0.05)
        return await self._api.list(*arguments, **options)


@pytest.fixture
def cluster(runner):
    """Cluster with the Scenario definition and without a scenario controller."""
    cluster = runner.cluster
    cluster.runner.call(install(cluster.api(NAME), cluster.runner.clock))
    return cluster


def controller_on(cluster, api_for=None):
    clock = cluster.runner.clock
    actor = RunContext(api_for or cluster.api, clock, cluster.chance, JournalSwitch(), "x").actor(
        NAME
    )
    return ScenarioController(actor, ControllerRegister())


def live(cluster, name="test"):
    return cluster.runner.call(cluster.api().get(SCENARIOS, name))


def test_operations_added_before_the_start_are_kept(cluster):
    clock, api, call = cluster.runner.clock, cluster.api("kubectl"), cluster.runner.call
    controller = controller_on(cluster, lambda name: Slow(cluster.api(name), clock))
    cluster.runner.start(controller.run(), NAME)
    cluster.advance(1)
    call(api.create(SCENARIOS, scenario(create(1, node()))))
    cluster.advance(0.03)
    assert phase_of(live(cluster)) == "Pending"
    added = [{"op": "add", "path": "/spec/operations/-", "value": done(2)}]
    call(api.patch(SCENARIOS, "test", added, patch_type="application/json-patch+json"))
    cluster.advance(60)

    assert phase_of(live(cluster)) == "Succeeded"


def gated(name):
    return pod(name, schedulingGates=[{"name": HELD}])


def test_scenario_found_running_leaves_no_pod_at_a_gate(cluster):
    api, call, controller = cluster.api("kubectl"), cluster.runner.call, controller_on(cluster)
    call(api.create(SCENARIOS, scenario()))
    call(api.patch(SCENARIOS, "test", {"status": {"phase": "Running"}}, subresource="status"))
    call(api.create(PODS, gated("left")))
    held = HeldPods(cluster.api(NAME), controller.informer_of(PODS))
    controller.register.cleanups.append(held.release_all)
    cluster.runner.start(controller.run(), NAME)
    cluster.advance(10)

    assert live(cluster)["status"] == {
        "phase": "Failed",
        "message": "the controller restarted while the Scenario was running",
    }
    assert gates_of(call(api.get(PODS, "left", "default"))) == []


class Failing:
    """The cluster's API, which refuses changes of these pods, so often or always."""

    def __init__(self, api, **refusals):
        self._api, self._refusals = api, refusals

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def patch(self, resource, name, *arguments, **options):
        if self._refusals.get(name, 0) > 0:
            self._refusals[name] -= 1
            raise InternalError("etcdserver: leader changed")
        return await self._api.patch(resource, name, *arguments, **options)


@pytest.mark.parametrize(("times", "left"), [(1, []), (10**6, [HELD])])
def test_refusal_after_a_scenario_ends_no_other(cluster, times, left):
    """Temporary errors are retried; permanent ones block neither other pods nor later scenarios."""
    api, call, controller = cluster.api("kubectl"), cluster.runner.call, controller_on(cluster)
    tried = RetryingApi(
        Failing(cluster.api(NAME), odd=times), cluster.runner.clock, cluster.chance.stream("again")
    )
    held = HeldPods(tried, controller.informer_of(PODS))
    controller.register.cleanups.append(held.release_all)
    cluster.runner.start(controller.run(), NAME)
    for name in ("odd", "other"):
        call(api.create(PODS, gated(name)))
    call(api.create(SCENARIOS, scenario({"id": "none", "step": 1}, name="first")))
    call(api.create(SCENARIOS, scenario({"id": "none", "step": 1}, name="second")))
    cluster.advance(1000)

    assert [phase_of(live(cluster, name)) for name in ("first", "second")] == ["Failed", "Failed"]
    assert [gates_of(call(api.get(PODS, name, "default"))) for name in ("odd", "other")] == [
        left,
        [],
    ]
