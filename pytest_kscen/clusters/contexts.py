"""What a kubeconfig holds, one file or several as kubectl merges them; and a copy with one context chosen."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any

import yaml

from pytest_kscen.clusters.refusal import ClusterRefused

NAMED = ("clusters", "users", "contexts")
FILES = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile"), "contexts": ()}


@dataclass(frozen=True, slots=True)
class Flags:
    """By which options somebody names a cluster."""

    file: str
    context: str = ""

    @property
    def another_file(self) -> str:
        return f"choose another with {self.file} FILE"

    @property
    def another(self) -> str:
        return f"{self.another_file} and {self.context} NAME" if self.context else self.another_file

    @property
    def a_context(self) -> str:
        return (
            f"Name one with {self.context} NAME"
            if self.context
            else f"Let {self.file} FILE have one of them as its current-context"
        )


TESTED = Flags("--kubeconfig", "--kscen-context")
COMMANDS = Flags("--kubeconfig", "--context")
PARENT = Flags("--parent-kubeconfig")


def default_path() -> str:
    """Where kubectl would look."""
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def merged(path: str, flags: Flags = TESTED) -> dict[str, Any]:
    """The files of a path, separated as in PATH; who comes first wins. File names in it become absolute."""
    whole: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    files = [pathlib.Path(part).expanduser() for part in path.split(os.pathsep) if part]
    present = [file for file in files if file.is_file()]
    if not present:
        raise ClusterRefused(f"there is no kubeconfig at {path}: {flags.another_file}")
    for file in present:
        content = _load(file, flags.another_file)
        for kind in NAMED:
            known = whole.setdefault(kind, [])
            names = [entry["name"] for entry in known]
            known += [_absolute(kind, entry, file.parent) for entry in content.get(kind) or () if entry["name"] not in names]
        if content.get("current-context"):
            whole.setdefault("current-context", content["current-context"])
    return whole


def chosen(config: dict[str, Any], context: str, path: str, flags: Flags = TESTED) -> str:
    """The context that is meant, or a refusal that names those there are."""
    names = [entry["name"] for entry in config["contexts"]]
    wanted = context or config.get("current-context", "")
    if wanted not in names:
        what = f"there is no context {wanted!r} in {path}" if wanted else f"{path} has no current context"
        raise ClusterRefused(f"{what}; its contexts are: {', '.join(names) or '(none)'}. {flags.a_context}")
    return str(wanted)


def server_of(config: dict[str, Any], context: str) -> str:
    """The URL behind a context, for messages."""
    cluster = next((one["context"].get("cluster") for one in config["contexts"] if one["name"] == context), None)
    return next((str(one["cluster"].get("server", "")) for one in config["clusters"] if one["name"] == cluster), "no server")


def _load(file: pathlib.Path, fix: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ClusterRefused(f"{file} is no kubeconfig ({error}): {fix}") from error
    except OSError as error:
        raise ClusterRefused(f"{file} cannot be read ({error}): {fix}") from error
    lists = [content.get(kind) or [] for kind in NAMED] if isinstance(content, dict) else [None]
    if not all(isinstance(entries, list) and all(isinstance(one, dict) and "name" in one for one in entries) for entries in lists):
        raise ClusterRefused(f"{file} is no kubeconfig: {', '.join(NAMED)} should be lists of things with names; {fix}")
    return content


def _absolute(kind: str, entry: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    inner_name = kind[:-1]
    inner = entry.get(inner_name) or {}
    paths = {name: str((folder / inner[name]).absolute()) for name in FILES[kind] if inner.get(name)}
    return {**entry, inner_name: {**inner, **paths}}
