from __future__ import annotations

import asyncio

import pytest

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.child_tasks import ChildTasks


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


async def crash(word):
    raise ZeroDivisionError(word)


def test_first_crash_is_raised_and_ends_other_tasks(runner):
    async def parent():
        brood = ChildTasks()
        other = brood.start(asyncio.Event().wait(), "other")
        brood.start(crash("first"), "first")
        brood.start(crash("second"), "second")
        try:
            await brood.watch()
        finally:
            await asyncio.wait([other])
            assert other.cancelled()

    with pytest.raises(ZeroDivisionError, match="first"):
        runner.call(parent())


def test_earlier_crash_is_raised_when_supervision_starts(runner):
    async def parent():
        brood = ChildTasks()
        other = brood.start(asyncio.Event().wait(), "other")
        brood.start(crash("first"), "first")
        brood.start(crash("second"), "second")
        await runner.clock.sleep(1)
        try:
            await brood.watch()
        finally:
            await asyncio.wait([other])
            assert other.cancelled()

    with pytest.raises(ZeroDivisionError, match="first"):
        runner.call(parent())
