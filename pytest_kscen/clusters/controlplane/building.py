"""Building the control plane from its pinned Go module into the cache: each program once for each state of the module."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING

from pytest_kscen.clock.wall import elapsed
from pytest_kscen.clusters.controlplane import module, programs
from pytest_kscen.clusters.refusal import ClusterRefused

if TYPE_CHECKING:
    from collections.abc import Callable

TAIL = 20  # lines of the compiler's words that a failure shows


def build(say: Callable[[str], None]) -> pathlib.Path:
    """Build what is not there yet, telling of each program; returns the folder."""
    folder = programs.built()
    tools = module.tools()
    wanted = {name: package for name, package in tools.items() if not (folder / name).is_file()}
    for name in tools:
        if name not in wanted:
            say(f"{name}: up to date")
    if wanted:
        go = _go()
        folder.mkdir(parents=True, exist_ok=True)
        say(f"building Kubernetes {module.kubernetes_version()} into {folder}; minutes from a cold cache, seconds from a warm one")
        for number, (name, package) in enumerate(wanted.items(), 1):
            say(f"[{number}/{len(wanted)}] {name} ...")
            began = elapsed()
            _build_one(go, package, folder / name)
            size = (folder / name).stat().st_size / 2**20
            say(f"[{number}/{len(wanted)}] {name} built in {elapsed() - began:.0f} s ({size:.0f} MiB)")
    return folder


def clean() -> list[pathlib.Path]:
    """Remove every build; returns what was removed."""
    folders = sorted(programs.shelf().glob("*"))
    shutil.rmtree(programs.shelf(), ignore_errors=True)
    return folders


def _build_one(go: str, package: str, target: pathlib.Path) -> None:
    """The program appears under its name only when it is whole."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as scratch:
        made = pathlib.Path(scratch) / target.name
        command = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", module.linker_flags(), "-o", str(made), package]
        done = _run(command)
        if done.returncode:
            tail = "\n".join(done.stderr.splitlines()[-TAIL:])
            raise ClusterRefused(f"building {target.name} failed: {' '.join(command)} (in {module.folder()})\n{tail}")
        made.rename(target)


def _go() -> str:
    """The Go to build with. A Go from 1.21 on fetches a newer one by itself if it may, so it is asked inside the module."""
    wanted = module.go_version()
    advice = f"install Go {wanted} or newer (https://go.dev/dl), or put ready programs into KUBEBUILDER_ASSETS"
    go = shutil.which("go")
    if go is None:
        raise ClusterRefused(f"building the control plane needs Go, and there is no `go` on PATH: {advice}")
    asked = _run([go, "env", "GOVERSION"])
    found = asked.stdout.strip().removeprefix("go")
    if asked.returncode or not found:
        raise ClusterRefused(f"{go} cannot serve this module ({asked.stderr.strip()}): {advice}")
    if _order(found) < _order(wanted):
        raise ClusterRefused(f"{go} is Go {found}, too old for the control plane: {advice}")
    return go


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    return subprocess.run(command, cwd=module.folder(), env=environment, capture_output=True, text=True, check=False)
