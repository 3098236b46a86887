"""From a wish to a control plane that answers: a port, files, four processes, and a bounded wait for each to be of use.

A port that somebody else took in the meantime means another start with another port. Whatever else goes wrong is told
with the last lines of the log that knows.
"""

from __future__ import annotations

import contextlib
import socket  # noqa: TID251  # only to learn of a port that is free
from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.controlplane import programs
from pytest_kscen.clusters.controlplane.layout import Layout
from pytest_kscen.clusters.controlplane.processes import Processes
from pytest_kscen.clusters.refusal import ClusterRefused
from pytest_kscen.kube.remote import Connection, RemoteApi, access_of, configuration_of
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import SERVICE_ACCOUNTS

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Coroutine

    from pytest_kscen.clock import WallRunner

AGENT = "pytest-kscen"
PORTS_TRIED = 5
PATIENCE = 90.0  # seconds for each step, for the slowest machine; it is a matter of two or three


class _PortTakenError(Exception):
    pass


def start(runner: WallRunner) -> tuple[Processes, Layout]:
    """A control plane that is ready for pods."""
    found = programs.find()
    for _ in range(PORTS_TRIED):
        processes = Processes()
        try:
            layout = Layout(processes.folder, free_port())
            layout.write()
            _Start(runner, processes, layout).run(found)
        except _PortTakenError:
            processes.close()
        except BaseException:
            processes.close()
            raise
        else:
            return processes, layout
    raise ClusterRefused(f"no port for a kube-apiserver: {PORTS_TRIED} that were free were taken before it came up; try again")


class _Start:
    """One attempt."""

    def __init__(self, runner: WallRunner, processes: Processes, layout: Layout) -> None:
        self._runner = runner
        self._processes = processes
        self._layout = layout
        self._connection = Connection(access_of(configuration_of(layout.kubeconfig)), runner.clock)
        self._api = RemoteApi(self._connection)

    def run(self, found: dict[str, pathlib.Path]) -> None:
        layout, start = self._layout, self._processes.start
        try:
            start("etcd", layout.etcd(found["etcd"]))
            start("kube-apiserver", layout.api_server(found["kube-apiserver"]))
            self._wait("kube-apiserver", self._ready)
            start("kube-controller-manager", layout.controller_manager(found["kube-controller-manager"]))
            start("kube-scheduler", layout.scheduler(found["kube-scheduler"]))
            self._wait("kube-controller-manager", self._has_service_account)
        finally:
            self._runner.call(self._connection.close())

    async def _ready(self) -> None:
        await self._connection.request("GET", "/readyz", agent=AGENT, accept="*/*", attempts=1)

    async def _has_service_account(self) -> None:
        await self._api.get(SERVICE_ACCOUNTS, "default", "default")

    def _wait(self, program: str, probe: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Until the probe is answered, while nobody dies."""

        def answered() -> bool:
            if dead := self._processes.ended():
                raise self._failure(dead, "ended before its time")
            try:
                self._runner.call(probe())
            except (ApiError, OSError):
                return False
            return True

        if not self._runner.until(answered, PATIENCE):
            raise self._failure(program, f"was of no use after {PATIENCE:.0f} s")

    def _failure(self, program: str, what: str) -> Exception:
        words = self._processes.log_tail(program)
        if "address already in use" in words:
            return _PortTakenError(program)
        return ClusterRefused(f"the real control plane did not start: {program} {what}. The end of its log:\n{words}")


def free_port() -> int:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
