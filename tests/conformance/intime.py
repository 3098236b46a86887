"""A bound that even a thread which waits for a lock cannot miss: the alarm, again and again
until somebody has heard it.
"""

from __future__ import annotations

import contextlib
import signal

AGAIN = 5.0  # seconds: an alarm that rings within a finaliser is printed and lost


class TookTooLong(BaseException):
    """No Exception, so that nobody takes it for an answer and goes on."""


@contextlib.contextmanager
def in_time(seconds):
    def ring(*_):
        raise TookTooLong(f"not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
