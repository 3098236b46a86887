"""Command with its own home and temporary folder; reports leftover files and processes.

As a program it ends as the command does, or with a list of what was left: `python isolated_command.py pytest
-m megatest`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from pytest_kscen.clusters.controlplane import programs

MARK = "KSCEN_ISOLATED"  # whatever the command starts inherits it
PATIENCE = 30.0  # seconds for what was told to end
LEFT = 3
OURS = "kscen-"


class IsolatedCommand:
    """Folder and environment of one command."""

    def __init__(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="isolated-"))
        home, temporary = self.folder / "home", self.folder / "tmp"
        home.mkdir()
        temporary.mkdir()
        own = {
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "KSCEN_CACHE": str(programs.cache_folder()),
            MARK: str(self.folder),
        }
        self._environment = os.environ | own

    def start(self, command: list[str], **options) -> subprocess.Popen:
        return subprocess.Popen(command, env=self._environment, **options)

    def left(self) -> list[str]:
        """Wait up to 30 seconds; return the processes and files that remain."""
        end = time.monotonic() + PATIENCE
        while (processes := list(self._processes())) and time.monotonic() < end:
            time.sleep(0.2)
        there = sorted(self.folder.rglob("*"))  # pytest keeps empty folders of its own
        return [
            *processes,
            *(str(path) for path in there if not path.is_dir() or path.name.startswith(OURS)),
        ]

    def _processes(self):
        mark = f"{MARK}={self.folder}".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has just ended
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    words = (
                        (process / "cmdline")
                        .read_bytes()
                        .replace(b"\0", b" ")
                        .decode(errors="replace")
                    )
                    yield f"process {process.name}: {words}"

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def main(command: list[str]) -> int:
    with contextlib.closing(IsolatedCommand()) as place:
        running = place.start(command)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: running.send_signal(number))
        status = running.wait()
        if left := place.left():
            sys.stderr.write("\n  ".join(["left behind:", *left]) + "\n")
    return status or (LEFT if left else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
