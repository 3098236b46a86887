"""Virtual time: exact wake-up times and order, and reports of runs that cannot proceed."""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kscen.clock import ActorCrashedError, Signal, StalledError, VirtualRunner

START = 1767225600.0


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


def test_time_starts_at_fixed_instant_and_advances_on_request(runner):
    assert runner.clock.now() == START
    runner.advance(3600)
    assert runner.clock.now() == START + 3600


def test_sleepers_wake_at_their_exact_times(runner):
    woken = []

    async def sleeper(name, seconds):
        for _ in range(3):
            await runner.clock.sleep(seconds)
            woken.append((name, runner.clock.now() - START))

    runner.start(sleeper("a", 1), "a")
    runner.start(sleeper("b", 2), "b")
    runner.advance(6)
    assert woken == [("a", 1), ("b", 2), ("a", 2), ("a", 3), ("b", 4), ("b", 6)]


@given(st.lists(st.integers(0, 50), max_size=60))
def test_timers_fire_by_time_then_by_creation(delays):
    runner, fired = VirtualRunner(), []

    async def sleeper(index, delay):
        await runner.clock.sleep(delay, background=index % 3 == 0)
        fired.append((delay, index))

    async def all_of_them():
        async with asyncio.TaskGroup() as group:
            for index, delay in enumerate(delays):
                group.create_task(sleeper(index, delay))
            await runner.clock.sleep(51)

    runner.call(all_of_them())
    runner.close()
    assert fired == sorted(fired)
    assert len(fired) == len(delays)


def test_until_evaluates_condition_when_instant_is_idle(runner):
    seen = []

    async def actor():
        await runner.clock.sleep(7)
        seen.append("half")
        await runner.clock.sleep(0)
        seen.append("whole")

    runner.start(actor(), "actor")
    assert runner.until(lambda: "half" in seen, 100)
    assert seen == ["half", "whole"]
    assert runner.clock.now() == START + 7


def test_until_raises_at_timeout(runner):
    assert not runner.until(lambda: False, 30)
    assert runner.clock.now() == START + 30


def test_deadlock_error_names_waiting_actors(runner):
    async def waits_for_nothing():
        await asyncio.Event().wait()

    runner.start(waits_for_nothing(), "the forgotten one")
    with pytest.raises(
        StalledError,
        match=(
            r"no timer is set(.|\n)*the forgotten one waits in .*waits_for_nothing.* > "
            r"Event.wait"
        ),
    ):
        runner.call(asyncio.Event().wait())


def test_deadlock_is_reported_to_manually_started_request(runner):
    async def request():
        await asyncio.Event().wait()

    with pytest.raises(
        StalledError, match=r"the test waits in .*request \(test_virtual.py:\d+\) > Event.wait"
    ):
        runner.ask(request())


def test_deadlock_report_ignores_local_variables(runner):
    async def wraps(coroutine):
        await coroutine

    with pytest.raises(
        StalledError, match=r"the test waits in .*wraps \(test_virtual.py:\d+\) > Event.wait"
    ):
        runner.call(wraps(asyncio.Event().wait()))


def test_background_timers_alone_are_deadlock(runner):
    beats = []

    async def heart():
        while True:
            await runner.clock.sleep(10, background=True)
            beats.append(runner.clock.now() - START)

    runner.start(heart(), "heart")
    runner.advance(25)
    assert beats == [10, 20]
    with pytest.raises(StalledError, match="no timer is set but heartbeats"):
        runner.call(asyncio.Event().wait())


def test_endless_instant_is_error(runner, monkeypatch):
    monkeypatch.setattr("pytest_kscen.clock.loop.STEPS_PER_INSTANT", 1000)

    async def spins():
        while True:
            await runner.clock.sleep(0)

    with pytest.raises(StalledError, match="steps were taken in one instant"):
        runner.call(spins())


def test_endless_instant_error_names_busy_actors_only(runner, monkeypatch):
    monkeypatch.setattr("pytest_kscen.clock.loop.STEPS_PER_INSTANT", 1000)

    def rings():
        runner.loop.call_later(0, rings)

    async def spins():
        while True:
            await runner.clock.sleep(0)

    runner.start(asyncio.Event().wait(), "the innocent one")
    runner.start(spins(), "the culprit")
    rings()
    with pytest.raises(StalledError) as error:
        runner.advance(1)
    told = str(error.value)
    assert re.search(r"one instant \(at 0.0 s\).*Busiest tasks:", told)
    assert re.search(r"of the last \d+: the culprit in .*spins \(test_virtual.py:\d+\)", told)
    assert re.search(r"of the last \d+: \S*test_virtual\.\S*rings", told)
    assert "the innocent one" not in told


def test_many_calls_in_one_instant_are_allowed(runner, monkeypatch):
    monkeypatch.setattr("pytest_kscen.clock.loop.STEPS_PER_INSTANT", 100)
    for _ in range(200):
        runner.advance(0)


def test_actor_crash_is_raised_by_next_call(runner):
    async def crashes():
        await runner.clock.sleep(5)
        raise ZeroDivisionError

    runner.start(crashes(), "the weak one")
    with pytest.raises(ActorCrashedError, match="the weak one crashed: ZeroDivisionError"):
        runner.advance(10)
    assert runner.clock.now() == START + 5
    runner.advance(10)


def test_crash_during_close_keeps_shutdown_order():
    runner, ended = VirtualRunner(), []

    async def ends(steps, error=None):
        try:
            await runner.clock.sleep(100)
        finally:
            for _ in range(steps):
                await asyncio.sleep(0)
            if error:
                raise error
            ended.append(steps)

    runner.start(ends(5), "the slow one")
    runner.start(ends(1, ZeroDivisionError()), "the weak one")
    runner.advance(0)
    runner.close()
    assert ended == [5]


def test_immediate_request_runs_no_actor(runner):
    moved = []

    async def actor():
        moved.append(1)

    async def request():
        return 42

    runner.start(actor(), "actor")
    assert runner.ask(request()) == 42
    assert moved == []
    runner.advance(0)
    assert moved == [1]


def test_waiting_request_runs_the_loop(runner):
    async def request():
        await runner.clock.sleep(3)
        return runner.clock.now() - START

    assert runner.ask(request()) == 3


def test_synchronous_wait_inside_loop_is_refused(runner):
    async def actor():
        runner.ask(runner.clock.sleep(1))

    with pytest.raises(RuntimeError, match="use the asynchronous client"):
        runner.call(actor())


def test_real_work_holds_time(runner):
    async def works():
        await runner.in_thread(lambda: time.sleep(0.05))
        return runner.clock.now() - START

    async def both():
        async with asyncio.TaskGroup() as group:
            work = group.create_task(works())
            group.create_task(runner.clock.sleep(1))
        return work.result()

    assert runner.call(both()) == 0


def test_real_work_completes_in_request_order(runner):
    gate, done = threading.Event(), []

    async def works(name, function):
        await runner.in_thread(function)
        done.append(name)

    async def both():
        async with asyncio.TaskGroup() as group:
            group.create_task(works("slow", lambda: gate.wait(5) and time.sleep(0.05)))
            group.create_task(works("fast", gate.set))

    runner.call(both())
    assert done == ["slow", "fast"]
    assert runner.replayable


def test_real_work_completes_when_instant_is_otherwise_idle(runner):
    gate, done = threading.Event(), []

    async def works():
        await runner.in_thread(gate.set)
        done.append("work")

    async def dawdles():
        gate.wait(5)
        threading.Event().wait(0.05)
        for _ in range(5):
            await runner.clock.sleep(0)
        done.append("rest")

    async def both():
        async with asyncio.TaskGroup() as group:
            group.create_task(works())
            group.create_task(dawdles())

    runner.call(both())
    assert done == ["rest", "work"]


def test_nested_real_work_completes_but_is_not_replayable(runner):
    async def request():
        return await runner.in_thread(lambda: 42)

    assert runner.call(runner.in_thread(lambda: runner.submit(request()).result(5))) == 42
    assert not runner.replayable


def test_abandoned_real_work_does_not_hold_time(runner):
    gate = threading.Event()

    async def gives_up():
        work = asyncio.ensure_future(runner.in_thread(lambda: gate.wait(5)))
        await asyncio.sleep(0)
        work.cancel()
        await runner.clock.sleep(1)

    runner.call(gives_up())
    assert not gate.is_set()
    gate.set()


def test_failed_real_work_raises_its_error(runner):
    with pytest.raises(ZeroDivisionError):
        runner.call(runner.in_thread(lambda: 1 / 0))


def test_asyncio_timeouts_use_cluster_time(runner):
    async def impatient():
        async with asyncio.timeout(12):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        runner.call(impatient())
    assert runner.clock.now() == START + 12


def test_signal_interrupts_sleep(runner):
    signal = Signal()

    async def waits():
        return await signal.within(100), runner.clock.now() - START

    async def gives():
        await runner.clock.sleep(4)
        signal.give()

    runner.start(gives(), "giver")
    assert runner.call(waits()) == (True, 4)
    assert runner.call(waits()) == (True, 4)


def test_other_thread_is_served_while_time_stands_still(runner):
    async def request():
        return threading.current_thread().name, runner.clock.now() - START

    with ThreadPoolExecutor(1, thread_name_prefix="asker") as asker:
        name, now = asker.submit(lambda: runner.submit(request()).result(5)).result()
    assert (name, now) == ("asker_0", 0)
    assert runner.replayable


def test_other_thread_is_served_by_running_loop(runner):
    answers = []

    async def request():
        return threading.current_thread().name

    async def busy():
        asking = asyncio.to_thread(lambda: runner.submit(request()).result(5))
        answers.append(await asking)

    runner.call(busy())
    assert answers == ["MainThread"]
    assert not runner.replayable


def test_other_thread_between_calls_keeps_run_replayable(runner):
    async def request():
        return runner.clock.now() - START

    answers = []
    for _ in range(3):
        runner.advance(1)
        with ThreadPoolExecutor(1) as asker:
            answers.append(asker.submit(lambda: runner.submit(request()).result(5)).result())
    assert answers == [1, 2, 3]
    assert runner.replayable


def test_waiting_thread_advances_time_by_wall_clock(runner):
    began = time.monotonic()
    runner.submit(runner.clock.sleep(0.2)).result(5)
    assert 0.2 <= time.monotonic() - began < 2
    assert runner.clock.now() - START == pytest.approx(0.2)
    assert not runner.replayable


def test_cancelled_request_is_skipped_and_next_is_served(runner):
    served, hung_up = [], []

    async def request():
        served.append(1)

    def asks_and_hangs_up():
        hung_up.append(runner.submit(request()))
        return hung_up[0].cancel()

    runner.until(asks_and_hangs_up, 1)
    assert runner.submit(runner.clock.sleep(0.01)).result(5) is None
    assert served == []


def test_stall_is_raised_in_waiting_thread_and_next_is_served(runner, monkeypatch):
    monkeypatch.setattr("pytest_kscen.clock.loop.STEPS_PER_INSTANT", 1000)

    async def spins():
        while True:
            await runner.clock.sleep(0)

    with pytest.raises(StalledError, match="steps were taken in one instant"):
        runner.submit(spins()).result(5)
    monkeypatch.undo()
    assert runner.submit(runner.clock.sleep(0.01)).result(5) is None


def test_calls_of_test_precede_waiting_thread(runner):
    waiting = runner.submit(runner.clock.sleep(3600))
    runner.advance(7200)
    assert waiting.result(5) is None


def test_close_ends_newest_actors_first(runner):
    ended = []

    async def actor(name):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    runner.start(actor("first"), "first")
    runner.start(actor("second"), "second")
    runner.advance(1)
    runner.close()
    assert ended == ["second", "first"]


def test_task_context_survives_wait(runner):
    kept = contextvars.ContextVar("kept")

    async def keep():
        kept.set("by the task")
        await runner.clock.sleep(1)
        return kept.get("lost")

    assert contextvars.Context().run(runner.call, keep()) == "by the task"
