"""The file that lets kubectl and any other client in."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kscen.machinery.http.keys import Keys


def write_kubeconfig(path: Path, url: str, keys: Keys, name: str = "kscen") -> None:
    """For its owner's eyes only: it holds the token."""
    authority = base64.b64encode(keys.authority).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": name, "user": {"token": keys.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        yaml.safe_dump(content, file, sort_keys=False)
