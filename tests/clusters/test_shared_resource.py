from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kscen.clusters.kind import SharedResource

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

SHARING_PROCESS = """
import pathlib, sys, time
from pytest_kscen.clusters.kind import SharedResource

folder, log, slow = sys.argv[1:]

def say(word):
    with open(log, "a") as file:
        file.write(word + "\\n")

def make():
    say("make")
    if slow == "slow":
        print("making", flush=True)
        time.sleep(60)

share = SharedResource(pathlib.Path(folder), lambda facts: say("remove " + facts["state"]))
share.acquire(dict, make)
print("in", flush=True)
sys.stdin.readline()
share.release()
"""


class SharingProcesses:
    """Processes that share a resource."""

    def __init__(self, tmp_path: pathlib.Path) -> None:
        self.folder = tmp_path / "shared"
        self.log = tmp_path / "log"
        self.running: list[subprocess.Popen[str]] = []

    def start(self, slow: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SHARING_PROCESS, str(self.folder), str(self.log), slow]
        self.running.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        return self.running[-1]

    def done(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def shared_resource(self) -> SharedResource:
        return SharedResource(self.folder, lambda facts: self.write_log(f"remove {facts['state']}"))

    def write_log(self, word: str) -> None:
        with self.log.open("a") as file:
            file.write(word + "\n")


@pytest.fixture
def users(tmp_path: pathlib.Path) -> Iterator[SharingProcesses]:
    users = SharingProcesses(tmp_path)
    yield users
    for process in users.running:
        process.kill()
        process.communicate()


def read_line(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline().strip()


def release(process: subprocess.Popen[str]) -> None:
    process.communicate("release\n", timeout=20)
    assert process.returncode == 0


def test_first_user_creates_and_last_user_removes(users):
    processes = [users.start() for _ in range(4)]
    assert [read_line(process) for process in processes] == ["in"] * 4
    assert users.done() == ["make"]
    for process in processes[:-1]:
        release(process)
    assert users.done() == ["make"]
    release(processes[-1])
    assert users.done() == ["make", "remove made"]
    assert not users.folder.exists()


def test_killed_user_is_ignored(users):
    killed, other = users.start(), users.start()
    assert [read_line(killed), read_line(other)] == ["in", "in"]
    killed.kill()
    killed.wait()
    release(other)
    assert users.done() == ["make", "remove made"]


def test_zombie_user_is_ignored(users):
    killed, other = users.start(), users.start()
    assert [read_line(killed), read_line(other)] == ["in", "in"]
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    release(other)
    assert users.done() == ["make", "remove made"]


def test_creation_is_repeated_after_creator_died(users):
    maker = users.start("slow")
    assert read_line(maker) == "making"
    second = users.start()
    maker.kill()
    assert read_line(second) == "in"
    assert users.done() == ["make", "remove making", "make"]


def test_failed_creation_leaves_no_state(users):
    def fail() -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        users.shared_resource().acquire(dict, fail)
    assert users.done() == ["remove making"]
    assert not users.folder.exists()


def test_resource_lives_while_one_user_holds_it(users):
    holder = users.shared_resource()
    holder.hold()
    for _ in range(2):
        share = users.shared_resource()
        assert share.acquire(lambda: {"name": "a"}, lambda: users.write_log("make")) == {
            "name": "a",
            "state": "made",
        }
        share.release()
    assert users.done() == ["make"]
    holder.release()
    assert users.done() == ["make", "remove made"]


def test_sweep_removes_resources_of_killed_run(users):
    killed = users.start()
    assert read_line(killed) == "in"
    users.shared_resource().remove_if_unused()
    assert users.done() == ["make"]
    killed.kill()
    killed.wait()
    users.shared_resource().remove_if_unused()
    assert users.done() == ["make", "remove made"]


def test_reused_pid_is_another_process(users):
    share = users.shared_resource()
    share.acquire(dict, lambda: None)
    (users.folder / f"user-{os.getpid()}-1-0").touch()
    share.release()
    assert not users.folder.exists()


def test_folder_of_other_user_is_refused(users, monkeypatch):
    users.folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(PermissionError, match="belongs to another user"):
        users.shared_resource().hold()
