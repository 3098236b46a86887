"""The real kube-scheduler as scenarios need it: with a configuration of theirs, and asked whether it has anything left to do."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp

from pytest_kscen.clusters.refusal import ClusterRefused
from pytest_kscen.kube.remote.sockets import Sockets

if TYPE_CHECKING:
    import pathlib

    from pytest_kscen.clock import Clock
    from pytest_kscen.clusters.controlplane.layout import Layout
    from pytest_kscen.clusters.controlplane.processes import Processes

PROGRAM = "kube-scheduler"
REPEATABLE = {"parallelism": 1, "percentageOfNodesToScore": 100}
"""The same pods and nodes then give the same answer, wherever no scores are equal."""

PATIENCE = 30.0
LOOK_AGAIN = 0.05
BETWEEN_LOOKS = 0.03
PENDING = re.compile(r'^scheduler_pending_pods\{queue="(active|backoff)"\} (\S+)', re.MULTILINE)
ATTEMPTS = re.compile(r"^scheduler_schedule_attempts_total\{[^}]*\} (\S+)", re.MULTILINE)
NODES = re.compile(r'^scheduler_cache_size\{type="nodes"\} (\S+)', re.MULTILINE)
PODS = re.compile(r'^scheduler_cache_size\{type="pods"\} (\S+)', re.MULTILINE)
PARKED = re.compile(r'^scheduler_pending_pods\{queue="unschedulable"\} (\S+)', re.MULTILINE)
GATED = re.compile(r'^scheduler_pending_pods\{queue="gated"\} (\S+)', re.MULTILINE)
BINDING = re.compile(r'^scheduler_goroutines\{operation="binding"[^}]*\} (\S+)', re.MULTILINE)


class RealScheduler:
    """One control plane's."""

    def __init__(self, processes: Processes, layout: Layout, program: pathlib.Path, port: int, clock: Clock) -> None:
        self._processes = processes
        self._layout = layout
        self._program = program
        self._port = port
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._sockets = Sockets()

    async def restart(self, configuration: dict[str, Any] | None = None) -> None:
        """Begin anew with this KubeSchedulerConfiguration; what it leaves open is as repeatable as it can be."""
        await self._end()
        path = self._layout.folder / "scheduler-of-scenarios.yaml"
        path.write_text(json.dumps({**self._layout.scheduler_configuration(), **REPEATABLE, **(configuration or {})}))
        flags = {
            "config": path.name,
            "bind-address": "127.0.0.1",
            "secure-port": self._port,
            "authorization-always-allow-paths": "/metrics,/healthz",
        }
        self._processes.start(PROGRAM, [str(self._program), *(f"--{name}={value}" for name, value in flags.items())])
        end = self._clock.now() + PATIENCE
        while not await self._answers():
            if (self._layout.folder / f"{PROGRAM}.exit").exists() or self._clock.now() > end:
                words = self._processes.log_tail(PROGRAM)
                raise ClusterRefused(f"the real {PROGRAM} did not start with this configuration. The end of its log:\n{words}")
            await self._clock.sleep(LOOK_AGAIN)

    async def _end(self) -> None:
        exit_code = self._layout.folder / f"{PROGRAM}.exit"
        if not exit_code.exists():
            os.kill(self._processes.pid(PROGRAM), signal.SIGKILL)  # it holds nothing that another could not take up
        end = self._clock.now() + PATIENCE
        while not exit_code.exists() and self._clock.now() < end:
            await self._clock.sleep(LOOK_AGAIN)
        exit_code.unlink(missing_ok=True)

    async def _answers(self) -> bool:
        try:
            return bool(await self._metrics())
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def is_idle(self, *, nodes: int, pods: int, gated: int, parked: int) -> bool:
        """Whether it knows so many nodes, pods that have one and pods at gates, and has none in its queues or on its way.

        So many pods at least must be parked, as it knows: one that it is just looking at is in no queue. Nor does one come within
        a moment. Without any node it tries all pods again for ever, and that is no work. What it knows of nodes and placed pods
        it tells once a second.
        """
        try:
            before = await self._metrics()
            await self._clock.sleep(BETWEEN_LOOKS)
            after = await self._metrics()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        pending = [float(count) for queue, count in PENDING.findall(after) if nodes or queue != "backoff"]
        waiting = pending + [float(count) for count in BINDING.findall(after)]
        if (_sum(NODES, after), _sum(PODS, after), _sum(GATED, after)) != (nodes, pods, gated):
            return False
        if nodes and _sum(PARKED, after) < parked:
            return False
        return not any(waiting) and _sum(ATTEMPTS, before) == _sum(ATTEMPTS, after)

    async def _metrics(self) -> str:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=5)
            connector = aiohttp.TCPConnector(socket_factory=self._sockets.make)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        async with self._session.get(f"https://127.0.0.1:{self._port}/metrics", ssl=_unverified()) as response:
            return await response.text()

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            await self._sockets.end(lambda: self._clock.sleep(0))


def _unverified() -> ssl.SSLContext:
    """Its certificate is made by itself at each start, and it is on loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _sum(pattern: re.Pattern[str], metrics: str) -> float:
    return sum(float(value) for value in pattern.findall(metrics))
