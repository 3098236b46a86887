"""The queue of events: one of a workflow at a time, nothing of one that is forgotten, and as many awake as there is work."""

from __future__ import annotations

import asyncio

import pytest

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.workflow.events import Event, Happening, Key
from pytest_kscen.workflow.trigger import OperableTrigger

A, B = Key("default", "a"), Key("default", "b")


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


def event(key, node=""):
    return Event(key, node, Happening.CREATED)


def test_what_is_forgotten_never_comes_and_what_follows_under_its_name_does(runner):
    trigger, came = OperableTrigger("t", runner.clock), []

    async def work():
        while True:
            acquired = await trigger.acquire()
            came.append((acquired.workflow.name, acquired.node, runner.clock.now() - begun))
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
    assert came == [("b", "old", 10), ("a", "new", 20)]


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
