from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from pytest_kscen.clusters.controlplane.starting import Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IGNORES_SIGTERM = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
SLEEPING_RUN = """
import sys, time
from pytest_kscen.clusters.controlplane.starting import Processes

processes = Processes()
for name in ("a", "b"):
    processes.start(name, ["sleep", "1000"])
while not (processes.folder / "b.pid").exists():
    time.sleep(0.01)
print(processes.folder, processes.pid("a"), processes.pid("b"), processes._supervisor.pid, flush=True)
time.sleep(1000)
"""


def eventually(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come true within 10 s")


def is_alive(pid: int) -> bool:
    stat = pathlib.Path(f"/proc/{pid}/stat")
    return stat.exists() and ") Z " not in stat.read_text()


@pytest.fixture
def processes() -> Iterator[Processes]:
    processes = Processes(stop_timeout=0.2)
    yield processes
    processes.close()


@pytest.fixture
def sleeping_run() -> Iterator[tuple[subprocess.Popen[str], pathlib.Path, list[int]]]:
    """Start a test run with two processes. Return it, its folder, and the pids of the processes and
    the supervisor.
    """
    run = subprocess.Popen([sys.executable, "-c", SLEEPING_RUN], stdout=subprocess.PIPE, text=True)
    folder, *pids = run.stdout.readline().split()
    yield run, pathlib.Path(folder), [int(pid) for pid in pids]
    run.kill()
    run.communicate()
    shutil.rmtree(folder, ignore_errors=True)


def pid_of(processes: Processes, name: str) -> int:
    eventually((processes.folder / f"{name}.pid").exists)
    return processes.pid(name)


def test_processes_end_newest_first_and_leave_nothing(processes, tmp_path):
    order = tmp_path / "order"
    for name in ("first", "second"):
        words = f"trap 'echo {name} >> {order}; exit' TERM; echo up; while :; do sleep 0.01; done"
        processes.start(name, ["sh", "-c", words])
        eventually(lambda name=name: "up" in processes.log_tail(name))
    processes.close()
    assert order.read_text().split() == ["second", "first"]
    assert not processes.folder.exists()


def test_folder_is_private(processes):
    assert processes.folder.stat().st_mode & 0o077 == 0


def test_early_exit_error_shows_end_of_log(processes):
    processes.start("sound", ["sleep", "1000"])
    processes.start("broken", ["sh", "-c", "echo no room >&2; exit 3"])
    eventually(processes.ended)
    assert processes.ended() == "broken"
    assert processes.log_tail("broken") == "no room"
    assert (processes.folder / "broken.exit").read_text() == "3"


def test_ended_process_can_be_restarted(processes):
    processes.start("a", ["true"])
    eventually(processes.ended)
    processes.start("a", ["sleep", "1000"])
    eventually(lambda: processes.ended() is None)


def test_process_ignoring_sigterm_is_killed(processes):
    processes.start("stubborn", ["sh", "-c", IGNORES_SIGTERM])
    eventually(lambda: "deaf" in processes.log_tail("stubborn"))
    pid = pid_of(processes, "stubborn")
    processes.close()
    assert not is_alive(pid)


def test_stopped_process_is_ended(processes):
    processes.start("still", ["sleep", "1000"])
    pid = pid_of(processes, "still")
    os.kill(pid, signal.SIGSTOP)
    processes.close()
    assert not is_alive(pid)


def test_killed_run_leaves_no_processes(sleeping_run):
    run, folder, pids = sleeping_run
    run.kill()
    eventually(lambda: not any(map(is_alive, pids)) and not folder.exists())


def test_killed_run_with_surviving_child_leaves_no_processes():
    program = SLEEPING_RUN.replace(
        "time.sleep(1000)", "import os\nif os.fork():\n    time.sleep(1000)\ntime.sleep(5)"
    )
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    folder, *pids = run.stdout.readline().split()
    time.sleep(0.1)
    run.kill()
    eventually(
        lambda: not any(is_alive(int(pid)) for pid in pids) and not pathlib.Path(folder).exists()
    )
    run.stdout.close()
    run.wait()


def test_killed_supervisor_ends_its_processes(sleeping_run):
    _, _, (first, second, supervisor) = sleeping_run
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not is_alive(first) and not is_alive(second))


def test_terminal_interrupt_is_not_passed_on(sleeping_run):
    run, _, pids = sleeping_run
    assert all(os.getpgid(pid) != os.getpgid(run.pid) for pid in pids)
