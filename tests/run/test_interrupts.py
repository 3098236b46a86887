import os
import signal

import pytest

from pytest_kscen.clock import Signal, VirtualRunner, WallRunner
from pytest_kscen.run.context import handle_signals


def test_each_signal_prints_the_next_message_and_then_handlers_are_restored():
    runner, message = VirtualRunner(), []
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with handle_signals(
        runner.loop,
        lambda: message.append("stop"),
        lambda: message.append("hurry"),
        awaited=lambda: True,
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
        assert message == []
        runner.advance(0)
    runner.close()
    assert message == ["stop", "hurry"]


def test_wait_ends_when_the_signal_arrives():
    runner, stop = VirtualRunner(), Signal()

    async def wait():
        runner.loop.call_later(10, os.kill, os.getpid(), signal.SIGINT)
        return await stop.within(3600)

    with handle_signals(runner.loop, stop.give, awaited=lambda: True):
        began = runner.clock.now()
        assert runner.call(wait())
        assert runner.clock.now() - began == 10
    runner.close()


@pytest.mark.parametrize("make", [VirtualRunner, WallRunner])
def test_code_not_waiting_for_the_run_is_interrupted(make):
    runner, message = make(), []
    with handle_signals(
        runner.loop,
        lambda: message.append("stop"),
        lambda: message.append("hurry"),
        awaited=lambda: False,
    ):
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        runner.advance(0.01)
        assert message == ["stop"]
        runner.start(press(runner.clock, 0.1), "Ctrl-C")
        with pytest.raises(KeyboardInterrupt):
            runner.advance(3600)
        runner.advance(0.01)
    runner.close()
    assert message == ["stop", "hurry"]


async def press(clock, seconds):
    await clock.sleep(seconds)
    os.kill(os.getpid(), signal.SIGINT)
