"""Where the control plane's programs are: in KUBEBUILDER_ASSETS, in the project's cache, or on PATH, in this order."""

from __future__ import annotations

import os
import pathlib
import shutil

from pytest_kscen.clusters.controlplane.module import fingerprint
from pytest_kscen.clusters.refusal import ClusterRefused

SERVERS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
BUILD = "python -m pytest_kscen controlplane build"


def cache() -> pathlib.Path:
    """The project's folder for what is dear to make and belongs to no run."""
    if chosen := os.environ.get("KSCEN_CACHE"):
        return pathlib.Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(base).expanduser() / "pytest-kscen"


def shelf() -> pathlib.Path:
    """Where the builds are, a folder for each state of the pinned module."""
    return cache() / "controlplane"


def built() -> pathlib.Path:
    """The folder of the programs as they are pinned now, whether they have been built or not."""
    return shelf() / fingerprint()


def find(names: tuple[str, ...] = SERVERS) -> dict[str, pathlib.Path]:
    """Where each of these programs is; a refusal names those that are nowhere."""
    if absent := missing(names):
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        looked = f"in KUBEBUILDER_ASSETS ({assets or 'not set'}), in {built()} or on PATH"
        raise ClusterRefused(f"the real control plane needs {', '.join(absent)}: not found {looked}. Build it with: {BUILD}")
    return {name: path for name in names if (path := _find(name))}


def missing(names: tuple[str, ...] = SERVERS) -> list[str]:
    return [name for name in names if _find(name) is None]


def _find(name: str) -> pathlib.Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in (assets, built()):
        if folder and (path := shutil.which(name, path=str(folder))):
            return pathlib.Path(path).absolute()
    on_path = shutil.which(name)
    return pathlib.Path(on_path).absolute() if on_path else None
