"""Real input and output, in threads: begun within an instant, and answered in the order in which it was asked for.

How long it takes is the wall's affair, so nothing of it may show: an answer is delivered only when the instant has
otherwise come to rest, the oldest question's first.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from concurrent.futures import Future

    from pytest_kscen.clock.loop import VirtualLoop


class RealWork:
    """What is under way, oldest first."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._threads: ThreadPoolExecutor | None = None
        self.under_way: dict[asyncio.Future[Any], Future[Any]] = {}

    def begin(self, executor: Any, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        if executor is None:
            executor = self._threads = self._threads or ThreadPoolExecutor(16, thread_name_prefix="kscen-io")
        answer = self._loop.create_future()
        work = self.under_way[answer] = executor.submit(function, *args)
        answer.add_done_callback(self._forget)
        work.add_done_callback(lambda _: self._loop.nudge())
        return answer

    def deliver(self, *, in_order: bool) -> bool:
        """Give one answer, of the oldest question or of any; False if that is still to come."""
        for answer, work in self.under_way.items():
            if work.done():
                del self.under_way[answer]
                _copy(work, answer)
                return True
            if in_order:
                return False
        return False

    def _forget(self, answer: asyncio.Future[Any]) -> None:
        if work := self.under_way.pop(answer, None):
            work.cancel()

    def close(self, *, wait: bool = False) -> None:
        if self._threads:
            self._threads.shutdown(wait=wait, cancel_futures=not wait)


def _copy(work: Future[Any], answer: asyncio.Future[Any]) -> None:
    if work.cancelled():
        answer.cancel()
    elif error := work.exception():
        answer.set_exception(error)
    else:
        answer.set_result(work.result())
