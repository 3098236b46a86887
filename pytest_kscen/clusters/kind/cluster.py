"""A cluster in containers, made by kind through pytest-kind's KindCluster and shared by the whole test run.

One that was there before under the name we were given is used, but it is not ours, and stays.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters.kind.sharing import MADE, Share
from pytest_kscen.clusters.kind.wish import PREFIX, KindWish
from pytest_kscen.clusters.live import LiveCluster
from pytest_kscen.clusters.refusal import ClusterRefused
from pytest_kscen.kube.remote import configuration_of
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import NODES, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 180.0  # seconds for the nodes to become ready once kind has made them
INSTALL = "pip install 'pytest-kscen[kind]'"


class KindShare:
    """The run's cluster: made by who enters first, removed when the last has left."""

    def __init__(self, wish: KindWish) -> None:
        self._wish = wish
        self._share = Share(wish.folder, _remove)
        self.kubeconfig = wish.folder / "kubeconfig"
        self.kind = _kind_class()(
            wish.called,
            self.kubeconfig,
            image=wish.image,
            kind_path=_path(wish.program or shutil.which("kind")),
            kubectl_path=_path(wish.kubectl or shutil.which("kubectl")),
        )

    def enter(self) -> dict[str, Any]:
        _sweep(self._wish.folder)
        facts = self._share.enter(self._look, self._make)
        self.kind.create()  # it is there: this makes pytest-kind's object know it
        return facts

    def leave(self) -> None:
        self._share.leave()
        for folder in (self.kind.path, self.kind.path.parent):  # pytest-kind makes them where the tests are run
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _look(self) -> dict[str, Any]:
        self.kind.ensure_kind()
        program, name = str(self.kind.kind_path), self.kind.name
        found = _run(program, "get", "clusters")
        ours = name not in found.stdout.splitlines()
        return {"name": name, "program": program, "ours": ours, "keep": self._wish.keep}

    def _make(self) -> None:
        program, name = str(self.kind.kind_path), self.kind.name
        if there := _run(program, "get", "kubeconfig", f"--name={name}").stdout:
            self.kubeconfig.write_text(there)
        try:
            self.kind.create(self._configuration())
        except subprocess.CalledProcessError as error:
            raise ClusterRefused(
                f"kind made no cluster {name!r}: {' '.join(error.cmd)} ended with {error.returncode}; "
                "what it said is in the captured output. Is Docker running, and is --kind-bin the right program?"
            ) from error

    def _configuration(self) -> pathlib.Path | None:
        if not self._wish.workers:
            return None
        roles = ["control-plane", *["worker"] * self._wish.workers]
        path = self._wish.folder / "kind.json"
        nodes = [{"role": role} for role in roles]
        path.write_text(json.dumps({"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes}))
        return path


class KindBackedCluster(LiveCluster):
    """A `Cluster`. `kind` is pytest-kind's object, for loading images and forwarding ports."""

    def __init__(self, wish: KindWish | None = None, *, seed: int | str = 0) -> None:
        self._share = KindShare(wish or KindWish())
        self.kind = self._share.kind
        self.kubeconfig = self._share.kubeconfig
        with contextlib.ExitStack() as undo:
            facts = self._share.enter()
            undo.callback(self._share.leave)
            runner = WallRunner()
            undo.callback(runner.close)
            read = functools.partial(configuration_of, self.kubeconfig)
            super().__init__("kind", runner, read, seed=seed, owned=facts["ours"])
            undo.callback(super().close)
            if not runner.until(lambda: runner.call(self._is_ready()), PATIENCE):
                raise ClusterRefused(f"the kind cluster {self.kind.name!r} has nodes that are not ready after {PATIENCE:.0f} s")
            undo.pop_all()

    async def _is_ready(self) -> bool:
        try:
            await self._api.get(SERVICE_ACCOUNTS, "default", "default")
            return all(is_true(node, "Ready") for node in (await self._api.list(NODES)).items)
        except (ApiError, OSError):
            return False

    def close(self) -> None:
        super().close()
        self._share.leave()


def hold(wish: KindWish) -> Callable[[], None]:
    """Keep the run's cluster, whenever it is made, until what this returns is called."""
    share = Share(wish.folder, _remove)
    share.hold()
    return share.leave


def _kind_class() -> Any:
    try:
        from pytest_kind import KindCluster
    except ImportError as error:
        raise ClusterRefused(f"the kind backend works through pytest-kind, which is not installed: {INSTALL}") from error
    return KindCluster


def _sweep(own: pathlib.Path) -> None:
    """Remove the clusters of test runs that were killed."""
    for left in sorted(own.parent.glob(f"{PREFIX}*")):
        if left != own:
            with contextlib.suppress(OSError):
                Share(left, _remove).sweep()


def _remove(facts: dict[str, Any]) -> None:
    """Delete what we made, unless it is whole and shall be kept."""
    if facts["ours"] and not (facts["keep"] and facts["state"] == MADE):
        _run(facts["program"], "delete", "cluster", f"--name={facts['name']}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _path(text: str | None) -> pathlib.Path | None:
    return pathlib.Path(text) if text else None
