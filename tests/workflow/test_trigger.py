"""Event queue: one event per workflow at a time, none of deleted ones, no idle wake-ups."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from engine_env import EngineEnv, suspend

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.workflow.engine.manager import WorkflowManager
from pytest_kscen.workflow.engine.triggers import OperableTrigger, RateLimiter
from pytest_kscen.workflow.tables.machine import EventType, NodeEvent, WorkflowKey

A, B = WorkflowKey("default", "a"), WorkflowKey("default", "b")


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


def event(key, node=""):
    return NodeEvent(key, node, EventType.CREATED)


def test_removed_key_is_not_delivered_and_a_later_one_of_the_name_is(runner):
    trigger, delivered = OperableTrigger("t", runner.clock), []

    async def work():
        while True:
            acquired = await trigger.acquire()
            delivered.append((acquired.workflow.name, acquired.node, runner.clock.now() - begun))
            trigger.done(acquired)

    async def play():
        lives = [asyncio.create_task(life) for life in (trigger.run(), work(), work())]
        for key in (A, B):
            trigger.notify_delay(event(key, "old"), 10)
        trigger.notify(event(A, "at once"))
        trigger.forget(A)
        trigger.notify_delay(event(A, "new"), 20)
        await runner.clock.sleep(60)
        for life in lives:
            life.cancel()

    begun = runner.clock.now()
    runner.call(play())
    assert delivered == [("b", "old", 10), ("a", "new", 20)]


def test_one_event_wakes_one_worker(runner):
    trigger, woken = OperableTrigger("t", runner.clock), []

    class Watched(asyncio.Semaphore):
        async def acquire(self):
            await super().acquire()
            woken.append(1)
            return True

    async def play():
        trigger._some = Watched(0)
        workers = [asyncio.create_task(trigger.acquire()) for _ in range(50)]
        await asyncio.sleep(0)
        trigger.notify(event(A))
        await runner.clock.sleep(1)
        done = [worker for worker in workers if worker.done()]
        for worker in workers:
            worker.cancel()
        return len(done)

    assert runner.call(play()) == 1
    assert len(woken) == 1


def acquired_at(runner, rate, events):
    """Return the seconds after which each event is delivered, with ten waiting workers."""
    trigger, delivered = OperableTrigger("t", runner.clock, rate), []

    async def work():
        while True:
            acquired = await trigger.acquire()
            delivered.append(round(runner.clock.now() - begun, 6))
            trigger.done(acquired)

    async def play():
        workers = [asyncio.create_task(work()) for _ in range(10)]
        for each in events:
            trigger.notify(each)
        await runner.clock.sleep(60)
        for worker in workers:
            worker.cancel()

    begun = runner.clock.now()
    runner.call(play())
    return delivered


MANY = [event(WorkflowKey("default", f"w{number}")) for number in range(5)]


@pytest.mark.parametrize(
    ("burst", "instants"),
    [(1, [0, 0.5, 1, 1.5, 2]), (3, [0, 0, 0, 0.5, 1])],
    ids=["one by one", "three at once"],
)
def test_rate_limits_deliveries(runner, burst, instants):
    assert acquired_at(runner, RateLimiter(runner.clock, 2, burst), MANY) == instants
    assert acquired_at(runner, None, MANY) == [0] * 5


def test_idle_period_restores_one_burst(runner):
    rate = RateLimiter(runner.clock, 2, 2)
    assert acquired_at(runner, rate, MANY) == [0, 0, 0.5, 1, 1.5]
    assert acquired_at(runner, rate, MANY) == [0, 0, 0.5, 1, 1.5]


@pytest.fixture
def engine_env():
    engine_env = EngineEnv()
    yield engine_env
    engine_env.close()


@pytest.mark.parametrize("per_second", [None, 0.1])
def test_engine_processes_events_within_its_rate(engine_env, per_second):
    phases = []
    engine_env.journal.follow(
        lambda entry: (
            entry.what == "workflow-node"
            and phases.append((entry.data["phase"], engine_env.clock.now()))
        )
    )
    engine_env.runner.start(
        WorkflowManager(engine_env.actor(), per_second=per_second).run(), "engine"
    )
    for name in "abc":
        engine_env.create_workflow("rest", suspend("rest", "1h"), name=name)
    engine_env.runner.advance(70)
    held = [at for phase, at in phases if phase == "Holding"]
    assert [later - sooner for sooner, later in itertools.pairwise(held)] == pytest.approx(
        [10, 10] if per_second else [0, 0]
    )
