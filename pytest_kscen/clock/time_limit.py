"""Limit of real time for a call of somebody else's function, which may never return.

A thread watches the call and raises an exception in the caller's thread. Must not be used around
code of this package: the exception may come between any two of its steps.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
DELIVERY = 10_000_000  # steps of a loop, within which the interpreter raises what was set


class TimeLimitExceeded(Exception):
    """Report that a function has not returned in time."""


class TimeLimit:
    """Limit for each call: `seconds` at least, twice as long at most.

    Its thread starts with the first call, and ends when there was no call for a while.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._calls = 0
        self._caller: int | None = None
        """Thread of the call under way; None between calls."""
        self._exceeded = 0
        """Number of the call that was interrupted last."""
        self._watcher: threading.Thread | None = None

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what the function returns. Raise TimeLimitExceeded if it takes too long."""
        with self._lock:
            self._calls += 1
            number, self._caller = self._calls, threading.get_ident()
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, daemon=True)
                self._watcher.start()
        try:
            result = function(*arguments)
        except TimeLimitExceeded:
            self._end()
            raise
        except BaseException:
            self._end_in_time(number)
            raise
        self._end_in_time(number)
        return result

    def _end(self) -> None:
        with self._lock:
            self._caller = None

    def _end_in_time(self, number: int) -> None:
        """End a call; an exception that is already on its way is raised here, not later."""
        self._end()
        if self._exceeded == number:
            for _ in range(DELIVERY):
                pass

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            with self._lock:
                before = self._calls
            pause.wait(self._seconds)
            with self._lock:
                if self._calls != before:
                    continue
                if self._caller is None:
                    self._watcher = None
                    return
                if self._exceeded != before:
                    self._exceeded = before
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(self._caller), ctypes.py_object(TimeLimitExceeded)
                    )
