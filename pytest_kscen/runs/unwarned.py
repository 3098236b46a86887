"""A real API server warns whoever asks for what is deprecated, and the log tells it.

Who looks into everything that is served has asked for nothing of that, and it is no news to anybody: while such a look lasts,
its own requests' warnings are left out. What others ask for meanwhile is told as ever.
"""

from __future__ import annotations

import contextlib
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TELLS = logging.getLogger("pytest_kscen.kube.remote.connection")
"""By its name: on an embedded cluster nobody needs that module."""

_looks = ContextVar("looks", default=False)


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """What the task that is inside asks for is not told of."""
    TELLS.addFilter(_is_news)  # one that is there already is not added again
    inside = _looks.set(True)
    try:
        yield
    finally:
        _looks.reset(inside)


def _is_news(_: logging.LogRecord) -> bool:
    return not _looks.get()
