"""Status writes of a Scenario over a slow API: never older than earlier writes."""

import asyncio
import dataclasses

import pytest

from pytest_kscen.journal import JournalSwitch
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.informer import Informers
from pytest_kscen.objects.errors import TooLarge
from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.objects.scenarios import (
    CONTROLLER_PAUSED,
    CONTROLLER_RUNNING,
    OPERATING,
    PENDING,
    RUNNING,
    SCENARIOS,
)
from pytest_kscen.scenario.cluster_setup import install
from pytest_kscen.scenario.execution import ScenarioExecution
from pytest_kscen.scenario.models import ScenarioSpec, read
from pytest_kscen.scenario.participants import ControllerRegister, Participants
from pytest_kscen.scenario.progress import Progress
from pytest_kscen.scenario.waiting import Convergence
from pytest_kscen.scenario.writes import CREATE, NAME, Write
from tests.scenario.objects import done, scenario


class SlowApi:
    """The cluster's API with a delay per patch and a size limit."""

    def __init__(self, api, clock, seconds=(), room=10_000_000):
        self._api, self._clock, self._seconds, self._room = api, clock, iter(seconds), room

    async def get(self, *arguments):
        return await self._api.get(*arguments)

    async def patch(self, resource, name, patch, **options):
        await self._clock.sleep(next(self._seconds, 0))
        if len(str(patch)) > self._room:
            raise TooLarge("Request entity too large")
        return await self._api.patch(resource, name, patch, **options)


@pytest.fixture
def cluster(runner):
    cluster = runner.cluster
    cluster.runner.call(install(cluster.api(NAME), cluster.runner.clock))
    return cluster


def progress_on(cluster, **wire):
    api, clock, call = cluster.api(NAME), cluster.runner.clock, cluster.runner.call
    uid = call(api.create(SCENARIOS, scenario(done(1))))["metadata"]["uid"]
    call(api.patch(SCENARIOS, "test", {"status": {"phase": PENDING}}, subresource="status"))
    actor = RunContext(cluster.api, clock, cluster.chance, JournalSwitch(), "x").actor(NAME)
    return Progress(
        "test", uid, dataclasses.replace(actor, api=SlowApi(api, clock, **wire)), "of today"
    )


def status(cluster):
    return cluster.runner.call(cluster.api().get(SCENARIOS, "test"))["status"]


def test_step_never_decreases(cluster):
    progress = progress_on(cluster, seconds=(0, 0.4, 0.1, 0.2))

    async def many_writes():
        await progress.set_step_phase(OPERATING, major=1)
        await asyncio.gather(*(progress.next_minor(CONTROLLER_PAUSED) for _ in range(3)))

    cluster.runner.call(many_writes())
    assert status(cluster)["stepStatus"]["step"] == {"major": 1, "minor": 3}


def test_truncated_entries_are_removed_from_the_status(cluster):
    progress = progress_on(cluster, room=2500)

    async def steps():
        await progress.set_phase(RUNNING)
        for major in (1, 2, 3, 4):
            await progress.set_step_phase(OPERATING, major=major)
            progress.record_event(controller="x" * 400)
            progress.record_event(controller="y" * 100)
            await progress.write(step_ended=True)

    cluster.runner.call(steps())
    result = status(cluster)["scenarioResult"]
    kept = {major: len(events) for major, events in result["timeline"].items()}

    assert sum(kept.values()) == len(progress.events)
    assert result["note"].startswith(f"the last {8 - len(progress.events)} of 8 events do not fit")


def test_status_is_not_written_to_another_scenario_of_the_name(cluster):
    progress = progress_on(cluster)
    cluster.runner.call(cluster.api().delete(SCENARIOS, "test"))
    progress_on(cluster)
    cluster.runner.call(progress.set_phase(RUNNING))

    assert status(cluster)["phase"] == PENDING


def test_minor_step_during_a_phase_write_is_kept(cluster):
    """The second write arrives while the first writer is being released."""
    progress = progress_on(cluster, seconds=(0, 0.2, 0.2, 0.2))
    play = ScenarioExecution(progress, None, None, ScenarioSpec(), 600)

    async def both():
        await progress.set_step_phase(OPERATING, major=1, running="own-controller")
        goes_on = asyncio.get_running_loop().create_task(
            play._enter_phase(OPERATING, CONTROLLER_RUNNING)
        )
        await cluster.runner.clock.sleep(0.1)
        await progress.next_minor(CONTROLLER_PAUSED)
        return await goes_on

    assert cluster.runner.call(both()) is False
    assert status(cluster)["stepStatus"]["phase"] == CONTROLLER_PAUSED


def test_concurrent_writes_each_receive_their_own_step(cluster):
    """A real API server calls the webhook for all of them before the first step is written."""
    progress = progress_on(cluster, seconds=(0, 0, 0.2, 0.2, 0.2))
    clock, spec = (
        cluster.runner.clock,
        read(ScenarioSpec, scenario(controllers=["own-controller"])["spec"]),
    )
    api = cluster.api(NAME)
    seen = Convergence(api, Informers(api, clock), clock, 0.1)
    play = ScenarioExecution(
        progress, seen, Participants.of(ControllerRegister(), spec), spec, 600, _begun=True
    )

    async def several():
        await progress.set_phase(RUNNING)
        await progress.set_step_phase(OPERATING, major=1, running="own-controller")
        objects = [{"metadata": {"name": name}} for name in "abc"]
        writes = [
            Write(
                "own-controller",
                CREATE,
                CONFIG_MAPS,
                "",
                "default",
                each["metadata"]["name"],
                each,
                None,
            )
            for each in objects
        ]
        await asyncio.gather(*(play.admit_write(each) for each in writes))

    cluster.runner.call(several())
    reported = [
        (tuple(event.step), event.create.operation["object"]["metadata"]["name"])
        for event in progress.events
    ]
    assert reported == [((1, 1), "a"), ((1, 2), "b"), ((1, 3), "c")]
