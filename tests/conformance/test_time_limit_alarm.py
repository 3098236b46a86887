from __future__ import annotations

import signal
import threading

import pytest
from time_limit_alarm import TimeLimitExceeded, time_limit


def test_time_limit_interrupts_lock_wait():
    lock = threading.Lock()
    with lock, pytest.raises(TimeLimitExceeded, match=r"not ended after 0\.02 s"), time_limit(0.02):
        lock.acquire()


def test_time_limit_is_reset_after_success():
    with time_limit(60):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
