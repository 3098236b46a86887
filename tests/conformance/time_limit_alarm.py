"""Time limit that also interrupts a thread waiting for a lock, by a repeated alarm signal."""

from __future__ import annotations

import contextlib
import signal

ALARM_INTERVAL = 5.0  # seconds; an exception raised within a finalizer is printed and lost


class TimeLimitExceeded(BaseException):
    """BaseException, so that no handler of Exception catches it."""


@contextlib.contextmanager
def time_limit(seconds):
    def raise_time_limit(*_):
        raise TimeLimitExceeded(f"not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, raise_time_limit)
    signal.setitimer(signal.ITIMER_REAL, seconds, ALARM_INTERVAL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
