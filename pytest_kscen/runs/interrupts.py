"""Ctrl-C and SIGTERM during a run: the first word ends it in good order, the next hurries it; then they mean what they did.

While the run itself is waited for, it hears the word and comes to its end. A test's own code is interrupted beside that, as
any Python program is, and the run is ended by whoever began it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def heard(loop: asyncio.AbstractEventLoop, *words: Callable[[], object], awaited: Callable[[], bool]) -> Iterator[list[int]]:
    """At each signal the next word is said inside the loop. What has come so far is in the list that this gives.

    Only a process's main thread can hear signals.

    `awaited` says whether whoever called waits for the one to whom the word is said.
    """
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    left = list(words)

    def hear(number: int, _: FrameType | None) -> None:
        signals.append(number)
        word = left.pop(0)
        if not loop.is_closed():
            loop.call_soon_threadsafe(word)
        if not left:
            give_back()
        if not awaited():
            _interrupt(loop)

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, hear)
    try:
        yield signals
    finally:
        give_back()


def _interrupt(loop: asyncio.AbstractEventLoop) -> None:
    """A loop that turns in this thread comes to a halt between two steps, so that nobody in it is hit."""
    if asyncio._get_running_loop() is loop:  # noqa: SLF001  # asyncio's documented hook for loops of others
        loop.call_soon_threadsafe(_raise)
    else:
        _raise()


def _raise() -> NoReturn:
    raise KeyboardInterrupt("the run was told to stop")
