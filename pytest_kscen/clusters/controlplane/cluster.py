"""Controlplane backend: the real control plane with simulated nodes and kubelets.

Also the control of its scheduler and programs that scenarios need.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import signal
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp

from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters import simulated_parent as parents
from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.controlplane import programs
from pytest_kscen.clusters.controlplane.starting import free_port, start_control_plane
from pytest_kscen.clusters.controlplane.tunnel import Tunnel
from pytest_kscen.clusters.kubeconfig import LiveCluster
from pytest_kscen.embedded.actors import actors
from pytest_kscen.embedded.apiserver.credentials import make_keys
from pytest_kscen.embedded.kubelet.nodes import Site
from pytest_kscen.embedded.kubelet.pod_http import PodHttpClient
from pytest_kscen.kube.informer import Informer
from pytest_kscen.kube.remote import configuration_of
from pytest_kscen.kube.remote.connection import Sockets
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.scenarios import SCENARIOS, may_work, on

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.clusters.controlplane.starting import ControlPlaneFiles, Processes
    from pytest_kscen.kube.actor import ParentCluster
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj


SCHEDULER_PROGRAM = "kube-scheduler"
REPEATABLE_SETTINGS = {"parallelism": 1, "percentageOfNodesToScore": 100}
"""Settings with which the same pods and nodes give the same placement, unless scores are tied."""

SCHEDULER_TIMEOUT = 30.0
POLL_INTERVAL = 0.05
IDLE_INTERVAL = 0.03
PENDING = re.compile(r'^scheduler_pending_pods\{queue="(active|backoff)"\} (\S+)', re.MULTILINE)
ATTEMPTS = re.compile(r"^scheduler_schedule_attempts_total\{[^}]*\} (\S+)", re.MULTILINE)
CACHED_NODES = re.compile(r'^scheduler_cache_size\{type="nodes"\} (\S+)', re.MULTILINE)
CACHED_PODS = re.compile(r'^scheduler_cache_size\{type="pods"\} (\S+)', re.MULTILINE)
UNSCHEDULABLE = re.compile(r'^scheduler_pending_pods\{queue="unschedulable"\} (\S+)', re.MULTILINE)
GATED = re.compile(r'^scheduler_pending_pods\{queue="gated"\} (\S+)', re.MULTILINE)
BINDING = re.compile(r'^scheduler_goroutines\{operation="binding"[^}]*\} (\S+)', re.MULTILINE)


class RealScheduler:
    """Kube-scheduler process for scenarios: restarted with a configuration, and observed by its
    metrics.
    """

    def __init__(
        self,
        processes: Processes,
        layout: ControlPlaneFiles,
        program: pathlib.Path,
        port: int,
        clock: Clock,
    ) -> None:
        self._processes = processes
        self._layout = layout
        self._program = program
        self._port = port
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._sockets = Sockets()

    async def restart(self, configuration: dict[str, Any] | None = None) -> None:
        """Restart with this KubeSchedulerConfiguration; fields that it leaves open get repeatable
        settings. ClusterRefused, with the end of the log, if the program does not start.
        """
        exit_code = self._layout.folder / f"{SCHEDULER_PROGRAM}.exit"
        if not exit_code.exists():  # it holds nothing that another could not take up
            os.kill(self._processes.pid(SCHEDULER_PROGRAM), signal.SIGKILL)
        end = self._clock.now() + SCHEDULER_TIMEOUT
        while not exit_code.exists() and self._clock.now() < end:
            await self._clock.sleep(POLL_INTERVAL)
        exit_code.unlink(missing_ok=True)
        path = self._layout.folder / "scheduler-of-scenarios.yaml"
        path.write_text(
            json.dumps(
                {
                    **self._layout.scheduler_configuration(),
                    **REPEATABLE_SETTINGS,
                    **(configuration or {}),
                }
            )
        )
        flags = {
            "config": path.name,
            "bind-address": "127.0.0.1",
            "secure-port": self._port,
            "authorization-always-allow-paths": "/metrics,/healthz",
        }
        self._processes.start(
            SCHEDULER_PROGRAM,
            [str(self._program), *(f"--{name}={value}" for name, value in flags.items())],
        )
        end = self._clock.now() + SCHEDULER_TIMEOUT
        while not await self._is_serving():
            if exit_code.exists() or self._clock.now() > end:
                words = self._processes.log_tail(SCHEDULER_PROGRAM)
                raise ClusterRefused(
                    f"the real {SCHEDULER_PROGRAM} did not start with this configuration. The end "
                    f"of its log:\n{words}"
                )
            await self._clock.sleep(POLL_INTERVAL)

    async def _is_serving(self) -> bool:
        try:
            return bool(await self._metrics())
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def is_idle(self, *, nodes: int, pods: int, gated: int, unschedulable: int) -> bool:
        """Return True if the program has seen this many nodes, placed pods and gated pods, and
        neither queues nor binds any.

        Its queue must have at least `unschedulable` pods: a pod in flight is in no queue. Two
        readings in succession must agree on the number of attempts. Without nodes, pods that back
        off do not count. The program updates its counts of nodes and placed pods once a second.
        """
        try:
            before = await self._metrics()
            await self._clock.sleep(IDLE_INTERVAL)
            after = await self._metrics()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        pending = [
            float(count) for queue, count in PENDING.findall(after) if nodes or queue != "backoff"
        ]
        waiting = pending + [float(count) for count in BINDING.findall(after)]
        if (_sum(CACHED_NODES, after), _sum(CACHED_PODS, after), _sum(GATED, after)) != (
            nodes,
            pods,
            gated,
        ):
            return False
        if nodes and _sum(UNSCHEDULABLE, after) < unschedulable:
            return False
        return not any(waiting) and _sum(ATTEMPTS, before) == _sum(ATTEMPTS, after)

    async def _metrics(self) -> str:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=5)
            connector = aiohttp.TCPConnector(socket_factory=self._sockets.make)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, trust_env=False
            )
        # The program signs its own certificate, on loopback.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        async with self._session.get(
            f"https://127.0.0.1:{self._port}/metrics", ssl=tls
        ) as response:
            return await response.text()

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            await self._sockets.end(lambda: self._clock.sleep(0))


def _sum(pattern: re.Pattern[str], metrics: str) -> float:
    return sum(float(value) for value in pattern.findall(metrics))


PAUSABLE_PROGRAMS = ("kube-scheduler", "kube-controller-manager")


class ProgramPauser:
    """Pauser of kube-scheduler and kube-controller-manager while a Scenario disables them. They are
    stopped by SIGSTOP, wherever they are in their work, and continued by SIGCONT.
    """

    def __init__(self, processes: Processes, clock: Clock) -> None:
        self._processes = processes
        self._clock = clock
        self.resumed_at: dict[str, float] = {}
        """Time in cluster seconds at which each program was last continued."""
        self._scenarios: Informer | None = None
        self._stopped: set[str] = set()
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()

    async def follow(self, api: Api, clock: Clock) -> Never:
        self._scenarios = scenarios = Informer(api, clock, SCENARIOS)
        scenarios.on_change(lambda _, __: self._changed.set())
        following = asyncio.get_running_loop().create_task(
            scenarios.run(), name="scenarios that pause programs"
        )
        try:
            while True:
                self._changed.clear()
                await self.apply_scenarios(api)
                await self._changed.wait()
        finally:
            following.cancel()
            for program in list(self._stopped):
                self._resume(program)

    async def apply_scenarios(self, api: Api) -> None:
        """Pause and continue programs as the active Scenario requires at this moment."""
        async with self._lock:  # no caller may apply an older state after a newer one
            scenarios: list[Obj] = []
            with contextlib.suppress(NotFound):
                if self._scenarios and (scenario := on(self._scenarios)):
                    scenarios = [await api.get(SCENARIOS, scenario["metadata"]["name"])]
            for program in PAUSABLE_PROGRAMS:
                if may_work(scenarios, program):
                    self._resume(program)
                elif program not in self._stopped:
                    self._stopped.add(program)
                    self._signal(program, signal.SIGSTOP)

    def _resume(self, program: str) -> None:
        if program in self._stopped:
            self._stopped.discard(program)
            self.resumed_at[program] = self._clock.now()
            self._signal(program, signal.SIGCONT)

    def _signal(self, program: str, what: signal.Signals) -> None:
        # A program that has ended is reported elsewhere.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(self._processes.pid(program), what)


NODES_READY_TIMEOUT = 60.0
USER_PREFIX = "kscen:"


class ControlPlaneCluster(LiveCluster):
    """Cluster with a real control plane. Nodes and kubelets are simulated; everything else is
    real.
    """

    def __init__(self, seed: int | str = 0, *, nodes: int = 6) -> None:
        with contextlib.ExitStack() as undo:
            runner = WallRunner()
            undo.callback(runner.close)
            self.processes, layout = start_control_plane(runner)
            undo.callback(self.processes.close)
            self.kubeconfig = layout.kubeconfig
            super().__init__(
                "controlplane",
                runner,
                functools.partial(configuration_of, self.kubeconfig),
                seed=seed,
                owned=True,
                users=USER_PREFIX,
            )
            self.program_pauser = ProgramPauser(self.processes, runner.clock)
            program = programs.find_programs()["kube-scheduler"]
            self.scheduler = RealScheduler(
                self.processes, layout, program, free_port(), runner.clock
            )
            self.site = Site.of(runner.clock, self.chance, nodes=nodes)
            pod_http = PodHttpClient(
                self.site, runner.clock, self.chance.stream("packets that are sent again")
            )
            self._tunnel = Tunnel(
                layout.tunnel, make_keys().context(), self.site.logs.read, pod_http
            )
            undo.callback(super().close)
            # Simulated nodes and their kubelets; everything else is real.
            self.runner.call(self._start_actors())
            if not self.runner.until(
                lambda: self.runner.call(self._has_ready(nodes)), NODES_READY_TIMEOUT
            ):
                raise ClusterRefused(
                    f"the real control plane has not seen its {nodes} simulated nodes "
                    f"ready within {NODES_READY_TIMEOUT:.0f} s"
                )
            undo.pop_all()

    async def _start_actors(self) -> None:
        await self._tunnel.open()
        for name, life in actors(
            "controlplane", self.api, self.runner.clock, self.chance, site=self.site
        ):
            self.runner.start(life, name)

    async def _has_ready(self, nodes: int) -> bool:
        """Return True if this many nodes are ready and have lost the taint that keeps pods off new
        nodes.
        """
        listed = (await self._api.list(NODES)).items
        return (
            sum(is_true(node, "Ready") and not node["spec"].get("taints") for node in listed)
            >= nodes
        )

    def _open_parent(self, _: pathlib.Path | None, namespace: str) -> ParentCluster:
        """Use the same API server as the parent: add nodes for virtual machines, and a namespace
        for them.
        """
        self.runner.call(
            parents.add_parent_nodes(
                self.api("virtualization-installer"), self.runner.clock, self.site
            )
        )
        return parents.virtualize(
            self.runner,
            self.api,
            parents.parent_chance(self.chance.seed),
            host=self.site,
            nested=self.site,
            namespace=namespace or parents.DEFAULT_NAMESPACE,
        )

    def until(
        self, condition: Callable[[], object], timeout: str | float | timedelta = "5m"
    ) -> None:
        try:
            super().until(condition, timeout)
        except TimeoutError as error:
            if dead := self.processes.ended():
                error.add_note(
                    f"{dead} of the real control plane has ended. The end of its "
                    f"log:\n{self.processes.log_tail(dead)}"
                )
            raise

    async def _close_connections(self) -> None:
        await self.scheduler.close()
        await self._tunnel.close()
        await super()._close_connections()

    def close(self) -> None:
        super().close()
        self.processes.close()
