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

USER = """
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


class Users:
    """Processes that share."""

    def __init__(self, tmp_path: pathlib.Path) -> None:
        self.folder = tmp_path / "shared"
        self.log = tmp_path / "log"
        self.running: list[subprocess.Popen[str]] = []

    def start(self, slow: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", USER, str(self.folder), str(self.log), slow]
        self.running.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        return self.running[-1]

    def done(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def share(self) -> SharedResource:
        return SharedResource(self.folder, lambda facts: self.say(f"remove {facts['state']}"))

    def say(self, word: str) -> None:
        with self.log.open("a") as file:
            file.write(word + "\n")


@pytest.fixture
def users(tmp_path: pathlib.Path) -> Iterator[Users]:
    users = Users(tmp_path)
    yield users
    for process in users.running:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline().strip()


def release(process: subprocess.Popen[str]) -> None:
    process.communicate("release\n", timeout=20)
    assert process.returncode == 0


def test_one_makes_it_all_use_it_the_last_removes_it(users):
    processes = [users.start() for _ in range(4)]
    assert [line_of(process) for process in processes] == ["in"] * 4
    assert users.done() == ["make"]
    for process in processes[:-1]:
        release(process)
    assert users.done() == ["make"]
    release(processes[-1])
    assert users.done() == ["make", "remove made"]
    assert not users.folder.exists()


def test_a_user_that_was_killed_does_not_count(users):
    killed, other = users.start(), users.start()
    assert [line_of(killed), line_of(other)] == ["in", "in"]
    killed.kill()
    killed.wait()
    release(other)
    assert users.done() == ["make", "remove made"]


def test_a_killed_process_that_nobody_has_reaped_does_not_count(users):
    killed, other = users.start(), users.start()
    assert [line_of(killed), line_of(other)] == ["in", "in"]
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    release(other)
    assert users.done() == ["make", "remove made"]


def test_what_was_half_made_when_its_maker_died_is_made_again(users):
    maker = users.start("slow")
    assert line_of(maker) == "making"
    second = users.start()
    maker.kill()
    assert line_of(second) == "in"
    assert users.done() == ["make", "remove making", "make"]


def test_a_failed_making_leaves_nothing(users):
    def fail() -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        users.share().acquire(dict, fail)
    assert users.done() == ["remove making"]
    assert not users.folder.exists()


def test_who_holds_it_keeps_it_for_those_who_come_and_go(users):
    holder = users.share()
    holder.hold()
    for _ in range(2):
        share = users.share()
        assert share.acquire(lambda: {"name": "a"}, lambda: users.say("make")) == {
            "name": "a",
            "state": "made",
        }
        share.release()
    assert users.done() == ["make"]
    holder.release()
    assert users.done() == ["make", "remove made"]


def test_a_sweep_removes_what_a_killed_run_left(users):
    killed = users.start()
    assert line_of(killed) == "in"
    users.share().remove_if_unused()
    assert users.done() == ["make"]
    killed.kill()
    killed.wait()
    users.share().remove_if_unused()
    assert users.done() == ["make", "remove made"]


def test_a_pid_that_came_again_is_somebody_else(users):
    share = users.share()
    share.acquire(dict, lambda: None)
    (users.folder / f"user-{os.getpid()}-1-0").touch()
    share.release()
    assert not users.folder.exists()


def test_a_folder_of_somebody_else_is_not_trusted(users, monkeypatch):
    users.folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(PermissionError, match="belongs to another user"):
        users.share().hold()
