"""Shorten tracebacks of misuse errors to end at the caller. --full-trace turns this off."""

from __future__ import annotations

import linecache
import sys
from typing import TYPE_CHECKING

from pytest_kscen.chaos.clients import FaultImpossible
from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

STATED = (ValueError, TypeError, RuntimeError, TimeoutError, FaultImpossible, ApiError)
OURS = __name__.partition(".")[0]
RAISES_CRASH = "raise_crash"
"""Function that raises an actor's crash again; such a traceback is kept whole."""


def shorten(error: BaseException) -> None:
    """Drop this package's frames from the error of a wrong use; a defect of ours keeps all frames.

    The traceback then ends at the caller. Errors of actors, which a run passes on, keep theirs too.
    """
    steps = list(_steps(error.__traceback__))
    if not steps or not isinstance(error, STATED) or not _states(steps[-1]):
        return
    outside = [step for step in steps if _package(step) not in {OURS, *sys.stdlib_module_names}]
    if outside and not any(step.tb_frame.f_code.co_name == RAISES_CRASH for step in steps):
        outside[-1].tb_next = None


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback:
        yield traceback
        traceback = traceback.tb_next


def _states(step: TracebackType) -> bool:
    """Return True if a `raise` statement of this package raised the error."""
    line = linecache.getline(step.tb_frame.f_code.co_filename, step.tb_lineno)
    return _package(step) == OURS and line.lstrip().startswith("raise ")


def _package(step: TracebackType) -> str:
    """Return the top-level package of a frame; code generated for a data class has no file."""
    return str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
