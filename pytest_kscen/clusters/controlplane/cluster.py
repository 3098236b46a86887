"""The controlplane backend: the real control plane with simulated nodes and kubelets attached."""

from __future__ import annotations

import contextlib
import functools

from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters.controlplane.starting import start
from pytest_kscen.clusters.live import LiveCluster
from pytest_kscen.kube.remote import configuration_of


class ControlPlaneCluster(LiveCluster):
    """A `Cluster` of our own."""

    def __init__(self, seed: int | str = 0, *, nodes: int = 6) -> None:  # noqa: ARG002
        with contextlib.ExitStack() as undo:
            runner = WallRunner()
            undo.callback(runner.close)
            self.processes, layout = start(runner)
            undo.callback(self.processes.close)
            self.kubeconfig = layout.kubeconfig
            super().__init__("controlplane", runner, functools.partial(configuration_of, self.kubeconfig), seed=seed, owned=True)
            undo.pop_all()

    def close(self) -> None:
        super().close()
        self.processes.close()
