"""The Go module that pins the real control plane: where it lies, and what it asks for."""

from __future__ import annotations

import functools
import hashlib
import pathlib
import re

_HERE = pathlib.Path(__file__).parent
_PLACES = (_HERE / "gomodule", _HERE.parents[2] / "controlplane")  # in an installed wheel; in a checkout


@functools.cache
def folder() -> pathlib.Path:
    for place in _PLACES:
        if (place / "go.mod").is_file():
            return place
    raise FileNotFoundError(f"this installation lacks the Go module of the control plane; it should be in {_PLACES[0]}")


@functools.cache
def text() -> str:
    return (folder() / "go.mod").read_text()


def go_version() -> str:
    """The oldest Go that builds it."""
    return _first(r"^go (\S+)$")


def kubernetes_version() -> str:
    return _first(r"^\s*k8s\.io/kubernetes (v\S+)")


def tools() -> dict[str, str]:
    """Each program's name, and its package."""
    packages = re.findall(r"^\t(\S+)$", _first(r"^tool \(\n(.*?)^\)"), re.MULTILINE)
    return {"etcd" if "etcd.io" in package else package.rpartition("/")[2]: package for package in packages}


def linker_flags() -> str:
    """Stripped, and stamped with the version, which a build from a module does not know by itself."""
    return f"-s -w -X k8s.io/component-base/version.gitVersion={kubernetes_version()}"


@functools.cache
def fingerprint() -> str:
    """A name that changes with anything that would make another build."""
    digest = hashlib.sha256((folder() / "go.sum").read_bytes() + (text() + linker_flags()).encode())
    return f"{kubernetes_version()}-{digest.hexdigest()[:12]}"


def _first(pattern: str) -> str:
    found = re.search(pattern, text(), re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError(f"{folder() / 'go.mod'} has no line like {pattern}")
    return found[1]
