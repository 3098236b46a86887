"""The test run's end of the supervisor: start a process, see whether it has ended and why, end them all."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import IO, cast

from pytest_kscen.clusters.controlplane import supervisor

PATIENCE = 5.0  # seconds that each process gets to end by itself
CLOSING = 60.0  # seconds, more than the supervisor takes at worst
TAIL = 15


class Processes:
    """Processes with a folder of their own, which nobody else may read; all of it goes when the test run goes."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kscen-controlplane-"))
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(self.folder), str(patience)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the test run, which then closes in order
        )

    def start(self, name: str, command: list[str]) -> None:
        orders = cast("IO[bytes]", self._supervisor.stdin)
        orders.write(json.dumps({"name": name, "command": command}).encode() + b"\n")
        orders.flush()

    def ended(self) -> str | None:
        """The name of a process that has ended, if one has."""
        for path in sorted(self.folder.glob("*.exit")):
            return path.stem
        return None if self._supervisor.poll() is None else "the supervisor"

    def pid(self, name: str) -> int:
        return int((self.folder / f"{name}.pid").read_text())

    def log_tail(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(lines[-TAIL:])

    def close(self) -> None:
        """End them all; the folder is gone when this returns."""
        cast("IO[bytes]", self._supervisor.stdin).close()
        try:
            self._supervisor.wait(CLOSING)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
