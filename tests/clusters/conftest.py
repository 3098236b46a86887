from __future__ import annotations

import pathlib
import sys

import pytest

from pytest_kscen.clusters.controlplane import programs

CACHE = programs.cache_folder()
STANDIN = pathlib.Path(__file__).with_name("standin_kind.py")


class Docker:
    """What the stand-in for kind has done."""

    def __init__(self, folder: pathlib.Path, program: pathlib.Path) -> None:
        self.folder = folder
        self.program = program

    def calls(self, *wanted: str) -> list[str]:
        """The commands that were given, of these kinds if any are named."""
        log = self.folder / "calls"
        given = log.read_text().splitlines() if log.exists() else []
        return [
            " ".join(line.split()[:2]) for line in given if not wanted or line.startswith(wanted)
        ]

    def clusters(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())


@pytest.fixture
def docker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """A folder that stands for Docker, and a `kind` program; shares and pytest-kind's folder
    stay inside tmp_path.
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
