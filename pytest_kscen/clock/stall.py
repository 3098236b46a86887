"""How a run ends when nothing can happen any more: a report of who waits for what, read from the tasks' await chains."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock.carrying import carried_by

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Iterator


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
