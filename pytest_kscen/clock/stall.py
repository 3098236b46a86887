"""How a run ends when time cannot move: a report of who waits for what, or of who is busy, read from the tasks' await chains."""

from __future__ import annotations

import asyncio
import pathlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock.carrying import carried_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class StalledError(RuntimeError):
    """Time cannot move.

    Common causes: an actor waits for something that nobody will do; only heartbeats are left; a loop of
    sleep(0) that never lets time pass.
    """


class ActorCrashedError(RuntimeError):
    """An actor that lives beside the test has raised; its own error is the cause."""


def stalled(why: str, tasks: Iterable[asyncio.Task[Any]]) -> StalledError:
    newest_first = reversed(list(tasks))  # the test itself is the last that began to wait
    lines = [f"  {task.get_name()} waits in {' > '.join(_chain(task.get_coro()))}" for task in newest_first]
    return StalledError("\n".join([f"{why}. Who waits for what:", *(lines or ["  (no task is left)"])]))


class Busy:
    """Who takes the steps of an instant that does not end."""

    SHOWN = 8

    def __init__(self) -> None:
        self._steps: Counter[str] = Counter()

    def note(self, callbacks: Iterable[Callable[..., object]]) -> None:
        self._steps.update(_doer(callback) for callback in callbacks)

    def error(self, why: str) -> StalledError:
        total = self._steps.total()
        lines = [f"  {count} of the last {total}: {who}" for who, count in self._steps.most_common(self.SHOWN)]
        return StalledError("\n".join([f"{why}. Who is busy:", *lines]))


def _doer(callback: Any) -> str:
    """A task and where it is, or a function: the one that a timer calls, where its owner tells."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"{owner.get_name()} in {' > '.join(_chain(owner.get_coro())) or 'its last step'}"
    called = getattr(owner, "act", callback)
    return f"{called.__module__}.{called.__qualname__}" if hasattr(called, "__qualname__") else repr(called)


def _chain(awaited: Any) -> Iterator[str]:
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            return
        if carried := carried_by(frame):
            awaited = carried
            continue
        yield f"{awaited.__qualname__} ({pathlib.PurePath(frame.f_code.co_filename).name}:{frame.f_lineno})"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None) or getattr(awaited, "gi_yieldfrom", None)
