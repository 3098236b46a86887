"""Where runs are to be kept: it is made before the first of them, or refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_kscen.options import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest


def unusable(items: Iterable[pytest.Item]) -> Iterator[str]:
    """What is wrong with the archive's folder, if any of these tests may have a run."""
    playing = next((item for item in items if "scenario_runner" in getattr(item, "fixturenames", ())), None)
    if playing is None or playing.config.getoption("collectonly"):
        return
    if (folder := playing.config.stash[SETTINGS].kscen_archive) is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        yield f"--kscen-archive {str(folder)!r} cannot be made: {error.strerror}: name a folder in which runs can be kept"
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield f"--kscen-archive {str(folder)!r} cannot be written to: name a folder in which runs can be kept"
