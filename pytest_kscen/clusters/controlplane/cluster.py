"""The controlplane backend: the real control plane with simulated nodes and kubelets attached."""

from __future__ import annotations

import contextlib

from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters.controlplane.starting import start
from pytest_kscen.clusters.live import LiveCluster


class ControlPlaneCluster(LiveCluster):
    """A `Cluster` of our own."""

    def __init__(self, seed: int | str = 0, *, nodes: int = 6) -> None:  # noqa: ARG002
        with contextlib.ExitStack() as undo:
            runner = WallRunner()
            undo.callback(runner.close)
            self.processes, layout = start(runner)
            undo.callback(self.processes.close)
            super().__init__("controlplane", runner, layout.kubeconfig, seed=seed, owned=True)
            undo.pop_all()

    def close(self) -> None:
        super().close()
        self.processes.close()
