"""The controlplane backend: the real control plane with simulated nodes and kubelets attached."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters import parent as parents
from pytest_kscen.clusters.controlplane import programs
from pytest_kscen.clusters.controlplane.holding import Holding
from pytest_kscen.clusters.controlplane.scheduler import RealScheduler
from pytest_kscen.clusters.controlplane.starting import free_port, start
from pytest_kscen.clusters.controlplane.tunnel import Tunnel
from pytest_kscen.clusters.live import LiveCluster
from pytest_kscen.clusters.refusal import ClusterRefused
from pytest_kscen.kube.remote import configuration_of
from pytest_kscen.machinery.http.keys import make_keys
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import NODES
from pytest_kscen.simulation.assembly import actors
from pytest_kscen.simulation.kubelet.web import Web
from pytest_kscen.simulation.site import Site

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable
    from datetime import timedelta

    from pytest_kscen.kube.actor import Parent

PATIENCE = 60.0
USERS = "kscen:"


class ControlPlaneCluster(LiveCluster):
    """A `Cluster` of our own."""

    def __init__(self, seed: int | str = 0, *, nodes: int = 6) -> None:
        with contextlib.ExitStack() as undo:
            runner = WallRunner()
            undo.callback(runner.close)
            self.processes, layout = start(runner)
            undo.callback(self.processes.close)
            self.kubeconfig = layout.kubeconfig
            super().__init__(
                "controlplane", runner, functools.partial(configuration_of, self.kubeconfig), seed=seed, owned=True, users=USERS
            )
            self.holding = Holding(self.processes, runner.clock)
            program = programs.find()["kube-scheduler"]
            self.scheduler = RealScheduler(self.processes, layout, program, free_port(), runner.clock)
            self.site = Site.of(runner.clock, self.chance, nodes=nodes)
            web = Web(self.site, runner.clock, self.chance.stream("packets that are sent again"))
            self._tunnel = Tunnel(layout.tunnel, make_keys().context(), self.site.logs.read, web)
            undo.callback(super().close)
            self._attach_machines(nodes)
            undo.pop_all()

    def _attach_machines(self, nodes: int) -> None:
        """Simulated nodes and their kubelets; everything else is real."""
        self.runner.call(self._start_actors())
        if not self.runner.until(lambda: self.runner.call(self._has_ready(nodes)), PATIENCE):
            raise ClusterRefused(f"the real control plane has not seen its {nodes} simulated nodes ready within {PATIENCE:.0f} s")

    async def _start_actors(self) -> None:
        await self._tunnel.open()
        for name, life in actors("controlplane", self.api, self.runner.clock, self.chance, site=self.site):
            self.runner.start(life, name)

    async def _has_ready(self, nodes: int) -> bool:
        """Ready, and free of the taint that keeps pods off a new node."""
        listed = (await self._api.list(NODES)).items
        return sum(is_true(node, "Ready") and not node["spec"].get("taints") for node in listed) >= nodes

    def _open_parent(self, _: pathlib.Path | None, namespace: str) -> Parent:
        """The same API server in a second role: nodes that are kept for virtual machines, and a namespace of these."""
        self.runner.call(parents.add_nodes(self.api("virtualization-installer"), self.runner.clock, self.site))
        return parents.virtualize(
            self.runner,
            self.api,
            parents.chance_of(self.chance.seed),
            host=self.site,
            nested=self.site,
            namespace=namespace or parents.NAMESPACE,
        )

    def until(self, condition: Callable[[], object], timeout: str | float | timedelta = "5m") -> None:
        try:
            super().until(condition, timeout)
        except TimeoutError as error:
            if dead := self.processes.ended():
                error.add_note(f"{dead} of the real control plane has ended. The end of its log:\n{self.processes.log_tail(dead)}")
            raise

    async def _put_away(self) -> None:
        await self.scheduler.close()
        await self._tunnel.close()
        await super()._put_away()

    def close(self) -> None:
        super().close()
        self.processes.close()
