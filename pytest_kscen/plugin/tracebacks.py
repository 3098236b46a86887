"""Shorten tracebacks of misuse errors to end at the caller. --full-trace turns this off."""

from __future__ import annotations

import linecache
import sys
from typing import TYPE_CHECKING

from pytest_kscen.chaos.clients import FaultImpossible
from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from types import TracebackType

STATED = (ValueError, TypeError, RuntimeError, TimeoutError, FaultImpossible, ApiError)
PACKAGE = __name__.partition(".")[0]
RAISES_CRASH = "raise_crash"
"""Function that raises an actor's crash again; such a traceback is kept whole."""


def shorten(error: BaseException) -> None:
    """Drop this package's frames from the error of a wrong use; a defect of ours keeps all frames.

    The traceback then ends at the caller. Errors of actors, which a run passes on, keep theirs too.
    """
    steps: list[TracebackType] = []
    step = error.__traceback__
    while step:
        steps.append(step)
        step = step.tb_next
    if not steps or not isinstance(error, STATED) or _package(steps[-1]) != PACKAGE:
        return
    line = linecache.getline(steps[-1].tb_frame.f_code.co_filename, steps[-1].tb_lineno)
    if not line.lstrip().startswith("raise "):
        return  # a defect
    outside = [step for step in steps if _package(step) not in {PACKAGE, *sys.stdlib_module_names}]
    if outside and not any(step.tb_frame.f_code.co_name == RAISES_CRASH for step in steps):
        outside[-1].tb_next = None


def _package(step: TracebackType) -> str:
    """Return the top-level package of a frame; code generated for a data class has no file."""
    return str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
