"""Ctrl-C in an unlimited run on the real control plane, without leftovers."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from isolated_command import IsolatedCommand

pytestmark = pytest.mark.controlplane

TEST = """
import pytest

@pytest.mark.volume_churn(max_volumes=3, step=(3, 3), step_period=(1, 1), lifetime=("10m", "10m"))
@pytest.mark.chaos("network-block", period=(20, 20), incident=("10m", "10m"))
def test_without_an_end(scenario_runner):
    assert scenario_runner.run().verdict in {"valid", "unknown"}

def test_for_which_there_is_no_time(cluster):
    pass
"""
COMMAND = [
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "no:cacheprovider",
    "--kscen-cluster=controlplane",
    "--log-cli-level=info",
]
READY = re.compile(r"volume-main/.* ended action=wait until the volume is ready .* result=done")
CUT = re.compile(r"chaos-network-blocker: ended action=cause .* result=done")
LIVE = 240.0  # seconds within which three volumes are ready and a fault is on
ENDS = 240.0  # seconds from the last Ctrl-C until pytest is over


class TerminalSession:
    """pytest in a pseudo-terminal."""

    def __init__(self, place: IsolatedCommand, folder):
        (folder / "test_endless.py").write_text(TEST)
        (folder / "pytest.ini").write_text("[pytest]\n")
        self.said: list[str] = []
        self._runs = folder / "runs"
        self._process = place.start(
            [*COMMAND, f"--kscen-archive={self._runs}"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.said.append(line)
            self._lines.put(line)

    def until(self, *wanted: re.Pattern) -> None:
        """Read the output until each of these texts has appeared."""
        left, end = list(wanted), time.monotonic() + LIVE
        while left:
            try:
                line = self._lines.get(timeout=max(end - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"{left} was not said within {LIVE:.0f} s:\n{self}") from None
            if message := next((each for each in left if each.search(line)), None):
                left.remove(message)

    def press(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def ended(self):
        """Return the exit status and the run's outcome after its end."""
        self._process.wait(ENDS)
        self._reader.join()
        kept = list(self._runs.glob("*/outcome.json"))
        assert len(kept) == 1, f"there are {len(kept)} outcomes:\n{self}"
        return self._process.returncode, json.loads(kept[0].read_text())

    def __str__(self) -> str:
        return "".join(self.said)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()


@pytest.fixture
def place():
    with contextlib.closing(IsolatedCommand()) as place:
        yield place


@pytest.fixture
def session(place, tmp_path):
    with contextlib.closing(TerminalSession(place, tmp_path)) as session:
        session.until(READY, READY, READY, CUT)
        yield session


def test_first_ctrl_c_ends_everything_in_order(session, place):
    session.press()
    status, outcome = session.ended()
    assert status == pytest.ExitCode.INTERRUPTED, str(session)
    assert outcome["stopped_early"]
    assert outcome["leftovers"] == []
    assert outcome["verdict"] in {"valid", "unknown"}, str(session)
    assert [volume["stopped_at"] is None for volume in outcome["volumes"]] == [False] * 3
    assert all(incident["removed_at"] for incident in outcome["incidents"])
    assert "kscen runs" in str(session)
    assert "test_for_which_there_is_no_time" not in str(session)
    assert place.left() == []


def test_second_ctrl_c_keeps_volumes_and_names_them(session, place):
    session.press()
    time.sleep(0.05)  # two signals at once are one
    session.press()
    status, outcome = session.ended()
    assert status == pytest.ExitCode.INTERRUPTED, str(session)
    volumes = {f"replicatedvolumes/{volume['name']}" for volume in outcome["volumes"]}
    left = {name for name in outcome["leftovers"] if name.startswith("replicatedvolumes/")}
    assert left
    assert left <= volumes
    assert {name.partition("/")[0] for name in outcome["leftovers"]} <= {
        "replicatedvolumes",
        "replicatedvolumeattachments",
    }
    assert len(set(outcome["leftovers"])) == len(outcome["leftovers"])
    assert outcome["verdict"] == "unknown", outcome["findings"]
    assert all(incident["removed_at"] for incident in outcome["incidents"])
    assert f"left behind: {', '.join(outcome['leftovers'])}" in str(session)
    assert place.left() == []
