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

    def __init__(self, wish: KindWish, nodes: int | None = None) -> None:
        self._wish = wish
        self._nodes = nodes
        self._share = Share(wish.folder, _remove)
        self.kubeconfig = wish.folder / "kubeconfig"
        self.kind = _kind_class()(
            wish.called,
            self.kubeconfig,
            image=wish.image,
            kind_path=_program("--kind-bin", wish.program) or _on_path("kind"),
            kubectl_path=_program("--kind-kubectl-bin", wish.kubectl) or _on_path("kubectl"),
        )

    def enter(self) -> dict[str, Any]:
        _sweep(self._wish.folder)
        facts = self._share.enter(self._look, self._make)
        try:
            self._check(facts)
            self.kind.create()  # it is there: this makes pytest-kind's object know it
        except BaseException:
            self.leave()
            raise
        return facts

    def _check(self, facts: dict[str, Any]) -> None:
        if self._nodes not in (None, facts["nodes"]):
            made = "as kind does by default" if facts["nodes"] is None else f"with {facts['nodes']} nodes"
            raise ClusterRefused(
                f"a test run has one kind cluster, and {facts['name']!r} was made {made}, not with {self._nodes}: "
                "let the tests of one run ask for the same number"
            )

    def leave(self) -> None:
        self._share.leave()
        for folder in (self.kind.path, self.kind.path.parent):  # pytest-kind makes them where the tests are run
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _look(self) -> dict[str, Any]:
        self._find_program()
        program, name = str(self.kind.kind_path), self.kind.name
        ours = name not in _run(program, "get", "clusters").stdout.splitlines()
        return {"name": name, "program": program, "nodes": self._nodes, "ours": ours, "keep": self._wish.keep}

    def _find_program(self) -> None:
        """On PATH or by --kind-bin; else pytest-kind downloads one, if it can."""
        try:
            self.kind.ensure_kind()
        except OSError as error:  # what requests raises is one
            raise ClusterRefused(
                f"there is no kind program on PATH, and none could be downloaded ({type(error).__name__}): "
                "install kind, or say where it is with --kind-bin"
            ) from None

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
        """The control plane's node and workers, so many in all; kind's own default is a single one that does both."""
        if not self._nodes:
            return None
        nodes = [{"role": role} for role in ("control-plane", *["worker"] * (self._nodes - 1))]
        path = self._wish.folder / "kind.json"
        path.write_text(json.dumps({"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes}))
        return path


class KindBackedCluster(LiveCluster):
    """A `Cluster`. `kind` is pytest-kind's object, for loading images and forwarding ports."""

    def __init__(self, wish: KindWish | None = None, *, nodes: int | None = None, seed: int | str = 0) -> None:
        self._share = KindShare(wish or KindWish(), nodes)
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


def _program(flag: str, text: str | None) -> pathlib.Path | None:
    if text is None:
        return None
    path = pathlib.Path(text).expanduser().absolute()
    if not path.is_file():
        raise ClusterRefused(f"{flag}: there is no program {text!r}")
    return path


def _on_path(name: str) -> pathlib.Path | None:
    found = shutil.which(name)
    return pathlib.Path(found).absolute() if found else None
