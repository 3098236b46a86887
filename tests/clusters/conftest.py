from __future__ import annotations

import pathlib
import sys

import pytest

from pytest_kscen.clusters.controlplane import programs

CACHE = programs.cache_folder()
STANDIN = pathlib.Path(__file__).with_name("standin_kind.py")


class Docker:
    """Record of the calls to the fake `kind` program."""

    def __init__(self, folder: pathlib.Path, program: pathlib.Path) -> None:
        self.folder = folder
        self.program = program

    def calls(self, *wanted: str) -> list[str]:
        """Return the commands, filtered by their beginnings if any are given."""
        log = self.folder / "calls"
        given = log.read_text().splitlines() if log.exists() else []
        return [
            " ".join(line.split()[:2]) for line in given if not wanted or line.startswith(wanted)
        ]

    def clusters(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())


@pytest.fixture
def docker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """Create a folder in place of Docker, and a fake `kind` program. Shared state and pytest-kind's
    folder stay in tmp_path.
    """
    monkeypatch.setenv(
        "KSCEN_CACHE", str(CACHE)
    )  # pytester has a home of its own, and the real programs are in this one's cache
    folder = tmp_path / "docker"
    folder.mkdir()
    program = tmp_path / "kind"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STANDIN} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("KSCEN_STANDIN", str(folder))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    return Docker(folder, program)
