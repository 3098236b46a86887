from __future__ import annotations

import signal
import threading

import pytest
from intime import TookTooLong, in_time


def test_a_wait_for_a_lock_that_nobody_gives_back_ends():
    lock = threading.Lock()
    with lock, pytest.raises(TookTooLong, match=r"not ended after 0\.02 s"), in_time(0.02):
        lock.acquire()


def test_what_ends_in_time_hears_nothing():
    with in_time(60):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
