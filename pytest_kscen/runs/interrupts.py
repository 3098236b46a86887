"""Ctrl-C and SIGTERM during a run: the first word ends it in good order, the next hurries it; then they mean what they did."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def heard(loop: asyncio.AbstractEventLoop, *words: Callable[[], object]) -> Iterator[None]:
    """At each signal the next word is said inside the loop. Only a process's main thread can hear signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    left = list(words)

    def hear(_: int, __: FrameType | None) -> None:
        loop.call_soon_threadsafe(left.pop(0))
        if not left:
            give_back()

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, hear)
    try:
        yield
    finally:
        give_back()
