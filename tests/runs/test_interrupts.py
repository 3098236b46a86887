import os
import signal

from pytest_kscen.clock import Signal, VirtualRunner
from pytest_kscen.runs.interrupts import heard


def test_each_signal_says_the_next_word_and_then_the_handlers_are_back():
    runner, said = VirtualRunner(), []
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with heard(runner.loop, lambda: said.append("stop"), lambda: said.append("hurry")):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
        assert said == []
        runner.advance(0)
    runner.close()
    assert said == ["stop", "hurry"]


def test_a_wait_ends_when_the_signal_comes():
    runner, stop = VirtualRunner(), Signal()

    async def wait():
        runner.loop.call_later(10, os.kill, os.getpid(), signal.SIGINT)
        return await stop.within(runner.clock, 3600)

    with heard(runner.loop, stop.give):
        began = runner.clock.now()
        assert runner.call(wait())
        assert runner.clock.now() - began == 10
    runner.close()
