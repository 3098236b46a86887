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

STUBBORN = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
DOOMED = """
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
def doomed() -> Iterator[tuple[subprocess.Popen[str], pathlib.Path, list[int]]]:
    """A test run with two processes, its folder, and the pids of the processes and the
    supervisor.
    """
    run = subprocess.Popen([sys.executable, "-c", DOOMED], stdout=subprocess.PIPE, text=True)
    folder, *pids = run.stdout.readline().split()
    yield run, pathlib.Path(folder), [int(pid) for pid in pids]
    run.kill()
    run.communicate()
    shutil.rmtree(folder, ignore_errors=True)


def pid_of(processes: Processes, name: str) -> int:
    eventually((processes.folder / f"{name}.pid").exists)
    return processes.pid(name)


def test_they_end_newest_first_and_leave_nothing(processes, tmp_path):
    order = tmp_path / "order"
    for name in ("first", "second"):
        words = f"trap 'echo {name} >> {order}; exit' TERM; echo up; while :; do sleep 0.01; done"
        processes.start(name, ["sh", "-c", words])
        eventually(lambda name=name: "up" in processes.log_tail(name))
    processes.close()
    assert order.read_text().split() == ["second", "first"]
    assert not processes.folder.exists()


def test_its_folder_is_for_nobody_else(processes):
    assert processes.folder.stat().st_mode & 0o077 == 0


def test_who_ended_before_its_time_is_named_with_its_last_words(processes):
    processes.start("sound", ["sleep", "1000"])
    processes.start("broken", ["sh", "-c", "echo no room >&2; exit 3"])
    eventually(processes.ended)
    assert processes.ended() == "broken"
    assert processes.log_tail("broken") == "no room"
    assert (processes.folder / "broken.exit").read_text() == "3"


def test_one_that_ended_may_be_started_again(processes):
    processes.start("a", ["true"])
    eventually(processes.ended)
    processes.start("a", ["sleep", "1000"])
    eventually(lambda: processes.ended() is None)


def test_who_does_not_listen_is_killed(processes):
    processes.start("stubborn", ["sh", "-c", STUBBORN])
    eventually(lambda: "deaf" in processes.log_tail("stubborn"))
    pid = pid_of(processes, "stubborn")
    processes.close()
    assert not is_alive(pid)


def test_one_that_stands_still_ends_too(processes):
    processes.start("still", ["sleep", "1000"])
    pid = pid_of(processes, "still")
    os.kill(pid, signal.SIGSTOP)
    processes.close()
    assert not is_alive(pid)


def test_a_killed_test_run_leaves_nothing(doomed):
    run, folder, pids = doomed
    run.kill()
    eventually(lambda: not any(map(is_alive, pids)) and not folder.exists())


def test_a_killed_test_run_leaves_nothing_though_a_child_of_it_lives_on():
    program = DOOMED.replace(
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


def test_a_killed_supervisor_takes_its_processes_along(doomed):
    _, _, (first, second, supervisor) = doomed
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not is_alive(first) and not is_alive(second))


def test_an_interrupt_from_the_terminal_is_not_for_them(doomed):
    run, _, pids = doomed
    assert all(os.getpgid(pid) != os.getpgid(run.pid) for pid in pids)
