"""Contract of the runner on real time."""

from __future__ import annotations

import asyncio
import time

import pytest

from pytest_kscen.clock import ActorCrashedError, WallRunner, epoch_of, timestamp_of


@pytest.fixture
def runner():
    runner = WallRunner()
    yield runner
    runner.close()


def test_actors_run_between_test_calls(runner):
    beats = []

    async def heart():
        while True:
            beats.append(runner.clock.now())
            await runner.clock.sleep(0.01)

    runner.start(heart(), "heart")
    assert runner.until(lambda: len(beats) > 3, 5)


def test_advance_waits_in_real_time(runner):
    began = time.monotonic()
    runner.advance(0.1)
    assert time.monotonic() - began >= 0.1


def test_actor_crash_is_raised(runner):
    async def crashes():
        raise ZeroDivisionError

    runner.start(crashes(), "the weak one")
    with pytest.raises(ActorCrashedError, match="the weak one crashed"):
        runner.advance(0.2)


def test_crash_during_call_is_raised_by_that_call_only(runner):
    async def crashes():
        raise ZeroDivisionError

    async def answers():
        return 42

    runner.start(crashes(), "the weak one")
    with pytest.raises(ActorCrashedError, match="the weak one crashed"):
        runner.call(runner.clock.sleep(0.05))
    assert runner.call(answers()) == 42


def test_until_raises_at_timeout(runner):
    assert not runner.until(lambda: False, 0.05)


def test_blocking_the_loop_is_refused(runner):
    async def blocks():
        runner.call(asyncio.Event().wait())

    with pytest.raises(RuntimeError, match="would block it"):
        runner.call(blocks())


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1970-01-01T00:00:00Z"), (1767225600, "2026-01-01T00:00:00Z")]
)
def test_timestamps(seconds, text):
    assert timestamp_of(seconds) == text
    assert epoch_of(text) == seconds
    assert timestamp_of(seconds + 0.5, micro=True) == text.replace("Z", ".500000Z")


def test_time_ignores_backward_clock_steps(runner, monkeypatch):
    before = runner.clock.now()
    assert before == pytest.approx(time.time(), abs=1)
    for set_to in (before - 3600, before + 3600, before):
        monkeypatch.setattr(time, "time", lambda set_to=set_to: set_to)
        latest = max(before, set_to)
        assert latest <= runner.clock.now() < latest + 60
        before = runner.clock.now()
