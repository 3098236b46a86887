"""Programs of the control plane: their lookup and their build.

Looked up in KUBEBUILDER_ASSETS, in the project's cache and on PATH, in this order. Each program is
built once for each state of a pinned Go module.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING

from pytest_kscen.clock.wall import elapsed
from pytest_kscen.clusters.cluster import ClusterRefused

if TYPE_CHECKING:
    from collections.abc import Callable


_PACKAGE_FOLDER = pathlib.Path(__file__).parent
_MODULE_FOLDERS = (
    _PACKAGE_FOLDER / "gomodule",
    _PACKAGE_FOLDER.parents[2] / "controlplane",
)  # in an installed wheel; in a checkout


@functools.cache
def go_module_folder() -> pathlib.Path:
    for place in _MODULE_FOLDERS:
        if (place / "go.mod").is_file():
            return place
    raise FileNotFoundError(
        "this installation lacks the control plane's Go module: expected it in "
        f"{_MODULE_FOLDERS[0]}"
    )


@functools.cache
def go_module_text() -> str:
    return (go_module_folder() / "go.mod").read_text()


def go_version() -> str:
    return _match_go_mod(r"^go (\S+)$")


def kubernetes_version() -> str:
    return _match_go_mod(r"^\s*k8s\.io/kubernetes (v\S+)")


def go_tools() -> dict[str, str]:
    packages = re.findall(r"^\t(\S+)$", _match_go_mod(r"^tool \(\n(.*?)^\)"), re.MULTILINE)
    return {
        "etcd" if "etcd.io" in package else package.rpartition("/")[2]: package
        for package in packages
    }


def linker_flags() -> str:
    """Return linker flags that strip the programs and stamp them with the version, which a build
    from a module lacks.
    """
    return f"-s -w -X k8s.io/component-base/version.gitVersion={kubernetes_version()}"


@functools.cache
def build_fingerprint() -> str:
    """Return a name that changes with anything that affects the build."""
    digest = hashlib.sha256(
        (go_module_folder() / "go.sum").read_bytes() + (go_module_text() + linker_flags()).encode()
    )
    return f"{kubernetes_version()}-{digest.hexdigest()[:12]}"


def _match_go_mod(pattern: str) -> str:
    found = re.search(pattern, go_module_text(), re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError(f"{go_module_folder() / 'go.mod'} has no line like {pattern}")
    return found[1]


SERVER_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
BUILD_COMMAND = "python -m pytest_kscen controlplane build"


def cache_folder() -> pathlib.Path:
    """Return the project's cache folder: KSCEN_CACHE, or a folder in the user's cache."""
    if chosen := os.environ.get("KSCEN_CACHE"):
        return pathlib.Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(base).expanduser() / "pytest-kscen"


def builds_folder() -> pathlib.Path:
    """Return the folder of all builds, which has one subfolder per fingerprint."""
    return cache_folder() / "controlplane"


def current_build_folder() -> pathlib.Path:
    """Return the folder of the programs for the pinned versions; it may not exist yet."""
    return builds_folder() / build_fingerprint()


def find_programs(names: tuple[str, ...] = SERVER_PROGRAMS) -> dict[str, pathlib.Path]:
    """Return the path of each program; ClusterRefused lists the missing ones, the searched folders,
    and the command that builds them.
    """
    if absent := missing_programs(names):
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        searched = (
            f"in KUBEBUILDER_ASSETS ({assets or 'not set'}), in {current_build_folder()} or on PATH"
        )
        raise ClusterRefused(
            f"the real control plane needs {', '.join(absent)}: not found {searched}. Build "
            f"it with: {BUILD_COMMAND}"
        )
    return {name: path for name in names if (path := _find_program(name))}


def missing_programs(names: tuple[str, ...] = SERVER_PROGRAMS) -> list[str]:
    return [name for name in names if _find_program(name) is None]


def _find_program(name: str) -> pathlib.Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in (assets, current_build_folder()):
        if folder and (path := shutil.which(name, path=str(folder))):
            return pathlib.Path(path).absolute()
    on_path = shutil.which(name)
    return pathlib.Path(on_path).absolute() if on_path else None


ERROR_TAIL_LINES = 20  # lines of the compiler's words that a failure shows


def build_programs(report: Callable[[str], None]) -> pathlib.Path:
    """Build the missing programs and return their folder. `report` receives a line per program;
    ClusterRefused has the end of the compiler's output.
    """
    folder = current_build_folder()
    tools = go_tools()
    wanted = {name: package for name, package in tools.items() if not (folder / name).is_file()}
    for name in tools:
        if name not in wanted:
            report(f"{name}: up to date")
    if wanted:
        go = _go_program()
        folder.mkdir(parents=True, exist_ok=True)
        report(
            f"building Kubernetes {kubernetes_version()} into {folder}; minutes from a "
            "cold cache, seconds from a warm one"
        )
        for number, (name, package) in enumerate(wanted.items(), 1):
            report(f"[{number}/{len(wanted)}] {name} ...")
            began = elapsed()
            # The program appears under its name only when it is whole.
            target = folder / name
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as scratch:
                binary = pathlib.Path(scratch) / target.name
                command = [
                    go,
                    "build",
                    "-mod=readonly",
                    "-trimpath",
                    "-ldflags",
                    linker_flags(),
                    "-o",
                    str(binary),
                    package,
                ]
                done = _run_in_module(command)
                if done.returncode:
                    tail = "\n".join(done.stderr.splitlines()[-ERROR_TAIL_LINES:])
                    raise ClusterRefused(
                        f"building {target.name} failed: {' '.join(command)} (in "
                        f"{go_module_folder()})\n{tail}"
                    )
                binary.rename(target)
            size = (folder / name).stat().st_size / 2**20
            report(
                f"[{number}/{len(wanted)}] {name} built in {elapsed() - began:.0f} s "
                f"({size:.0f} MiB)"
            )
    return folder


def remove_builds() -> list[pathlib.Path]:
    folders = sorted(builds_folder().glob("*"))
    shutil.rmtree(builds_folder(), ignore_errors=True)
    return folders


def _go_program() -> str:
    """Return the go program to build with, or raise ClusterRefused with advice.

    Since 1.21 Go can download a newer version itself, so its version is queried inside the module.
    """
    wanted = go_version()
    advice = (
        f"install Go {wanted} or newer (https://go.dev/dl), or put ready programs into "
        "KUBEBUILDER_ASSETS"
    )
    go = shutil.which("go")
    if go is None:
        raise ClusterRefused(
            f"building the control plane needs Go, and there is no `go` on PATH: {advice}"
        )
    result = _run_in_module([go, "env", "GOVERSION"])
    found = result.stdout.strip().removeprefix("go")
    if result.returncode or not found:
        raise ClusterRefused(f"{go} cannot serve this module ({result.stderr.strip()}): {advice}")
    if _version_tuple(found) < _version_tuple(wanted):
        raise ClusterRefused(f"{go} is Go {found}, too old for the control plane: {advice}")
    return go


def _version_tuple(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _run_in_module(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    return subprocess.run(
        command,
        cwd=go_module_folder(),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
