"""Output of the commands: lines for a pipe, and one line per phase of what is driven.

The commands call it. Must not import anything that starts or reads a run.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.journal import Entry, Journal


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to standard output; end quietly if its reader has closed the pipe.

    Standard output then leads nowhere, so that Python reports no error when it flushes at its end.
    """
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_phases(journal: Journal, kind: str, *fields: str) -> None:
    """Print a line for each entry of this kind from now on: name, phase, and message if any.

    The name is made of these fields of the entry, with slashes between them.
    """

    def show(entry: Entry) -> None:
        if entry.what == kind:
            name = "/".join(entry.data[field] for field in fields)
            message = f": {entry.data['message']}" if entry.data.get("message") else ""
            print(f"{name} {entry.data['phase']}{message}", flush=True)

    journal.follow(show)
