"""Separate program that ends a control plane with the test run, however the run ends.

It starts a process per line of JSON on standard input, and writes exit codes to `<name>.exit`. When
the input closes or the parent dies, it ends the processes, newest first, and removes their folder.
If it is killed itself, the kernel ends its children. It imports nothing of this package, so that it
starts fast.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


class Supervisor:
    """Processes of one folder, with their logs and pid files."""

    def __init__(self, folder: pathlib.Path, stop_timeout: float) -> None:
        self._folder = folder
        self._stop_timeout = stop_timeout
        self._poller = select.poll()
        self._children: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}

    def run(self) -> None:
        parent = os.pidfd_open(os.getppid())
        commands = sys.stdin.fileno()
        self._poller.register(parent, select.POLLIN)
        self._poller.register(commands, select.POLLIN)
        unread = b""
        while True:
            for ready, _ in self._poller.poll():
                if ready in self._children:
                    name, child = self._children.pop(ready)
                    self._poller.unregister(ready)
                    os.close(ready)
                    (self._folder / f"{name}.exit").write_text(str(child.wait()))
                elif ready == parent:
                    return
                else:
                    received = os.read(commands, 2**16)
                    if not received:
                        return
                    *lines, unread = (unread + received).split(b"\n")
                    for line in lines:
                        self._start(**json.loads(line))

    def _start(self, name: str, command: list[str]) -> None:
        (self._folder / f"{name}.exit").unlink(missing_ok=True)
        with (self._folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # this program has one thread
            )
        watched = os.pidfd_open(child.pid)
        self._children[watched] = (name, child)
        self._poller.register(watched, select.POLLIN)
        whole = self._folder / f"{name}.pid.new"
        whole.write_text(str(child.pid))
        whole.rename(self._folder / f"{name}.pid")  # readers never see a partial file

    def end(self) -> None:
        """Terminate all processes, newest first, and remove the folder. A process that outlives the
        stop timeout is killed.
        """
        for _, child in reversed(self._children.values()):
            child.terminate()
            child.send_signal(signal.SIGCONT)
            try:
                child.wait(self._stop_timeout)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    supervisor = Supervisor(pathlib.Path(sys.argv[1]), float(sys.argv[2]))
    try:
        supervisor.run()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        supervisor.end()


if __name__ == "__main__":
    main()
