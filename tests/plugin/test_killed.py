"""The folder of a killed run can be read by `story`."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from pytest_kscen.commands.story import main

TEST = """
import pathlib, signal, pytest

@pytest.mark.volume_churn(max_volumes=2, step=(2, 2), step_period=(1, 1))
def test_it(scenario_runner):
    with scenario_runner as run:
        run.advance("5m")
        pathlib.Path("far").touch()
        signal.pause()
"""
PATIENCE = 60.0  # seconds within which five minutes are played


@pytest.fixture
def killed(tmp_path):
    (tmp_path / "test_a.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--kscen-archive=kept",
    ]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        end = time.monotonic() + PATIENCE
        while not (tmp_path / "far").exists() and time.monotonic() < end:
            time.sleep(0.1)
        process.kill()
    return tmp_path / "kept" / "test_a.py-test_it"


def test_folder_of_a_killed_run_yields_its_story(killed, capsys):
    assert sorted(path.name for path in killed.iterdir()) == [
        "changes.jsonl.gz",
        "journal.jsonl",
        "run.json",
    ]
    assert main([str(killed)]) == 0
    volume = capsys.readouterr().out.split()[1]
    assert main([str(killed), volume]) == 0
    assert "check started: IOReady, Quorum" in capsys.readouterr().out
