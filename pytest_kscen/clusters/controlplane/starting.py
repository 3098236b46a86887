"""Start of a control plane: files, port, processes, and a wait with a timeout for each process.

If the port is taken meanwhile, the start is repeated with another port. Any other failure is
reported with the end of the process's log.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets  # noqa: TID251  # keys do not depend on the seed, and no journal contains them
import shutil
import socket  # noqa: TID251  # only to find a free port
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.controlplane import programs, supervisor
from pytest_kscen.embedded.apiserver.credentials import make_keys
from pytest_kscen.kube.remote import Connection, RemoteApi, access_of, configuration_of
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from pytest_kscen.clock import WallRunner


STOP_TIMEOUT = 5.0  # seconds that each process gets to end by itself
SUPERVISOR_TIMEOUT = 60.0  # seconds, longer than the supervisor needs
LOG_TAIL_LINES = 15


class Processes:
    """Processes of a control plane in a private folder, started and ended by the supervisor. All of
    it is gone when the test run ends, even if that is killed.
    """

    def __init__(self, stop_timeout: float = STOP_TIMEOUT) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kscen-controlplane-"))
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(self.folder), str(stop_timeout)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches only the test run, which then stops them
        )

    def start(self, name: str, command: list[str]) -> None:
        stdin = cast("IO[bytes]", self._supervisor.stdin)
        stdin.write(json.dumps({"name": name, "command": command}).encode() + b"\n")
        stdin.flush()

    def ended(self) -> str | None:
        """Return the name of a process that has ended, if any."""
        for path in sorted(self.folder.glob("*.exit")):
            return path.stem
        return None if self._supervisor.poll() is None else "the supervisor"

    def pid(self, name: str) -> int:
        return int((self.folder / f"{name}.pid").read_text())

    def log_tail(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def close(self) -> None:
        cast("IO[bytes]", self._supervisor.stdin).close()
        try:
            self._supervisor.wait(SUPERVISOR_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def random_token() -> str:
    return secrets.token_urlsafe(32)


def signing_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


ADMIN = "kscen-admin"
MASTERS_GROUP = "system:masters"
CONTROLLERS_USER, SCHEDULER_USER = "system:kube-controller-manager", "system:kube-scheduler"
ETCD_URL = "unix://etcd:1"  # a socket in the private folder: no port is needed
SERVICE_CIDR = "10.0.0.0/24"
QPS, BURST = 1000, 2000  # the default limits would slow busy tests down


@dataclass(frozen=True, slots=True)
class ControlPlaneFiles:
    """Folder and port of one control plane: the files that its programs read, and their command
    lines.
    """

    folder: pathlib.Path
    port: int

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> pathlib.Path:
        return self.folder / "kubeconfig"

    @property
    def tunnel(self) -> pathlib.Path:
        return self.folder / "tunnel"

    def write(self) -> None:
        """Write keys, tokens, and a kubeconfig per user, readable by this user only."""
        server = make_keys()
        self._write("ca.crt", server.authority)
        self._write("server.crt", server.certificate)
        self._write("server.key", server.key)
        self._write("service-accounts.key", signing_key())
        people = {ADMIN: MASTERS_GROUP, CONTROLLERS_USER: "", SCHEDULER_USER: ""}
        tokens = {name: random_token() for name in people}
        rows = [f'{tokens[name]},{name},{name},"{group}"' for name, group in people.items()]
        self._write("tokens.csv", "\n".join(rows).encode())
        for name, path in (
            (ADMIN, self.kubeconfig),
            (CONTROLLERS_USER, "controllers"),
            (SCHEDULER_USER, "scheduler"),
        ):
            self._write(
                str(path), json.dumps(self._kubeconfig(name, tokens[name]), indent=2).encode()
            )
        self._write("scheduler.yaml", json.dumps(self.scheduler_configuration()).encode())
        connection = {
            "proxyProtocol": "HTTPConnect",
            "transport": {"uds": {"udsName": str(self.tunnel)}},
        }
        self._write(
            "egress.yaml",
            json.dumps(
                {
                    "apiVersion": "apiserver.k8s.io/v1beta1",
                    "kind": "EgressSelectorConfiguration",
                    "egressSelections": [{"name": "cluster", "connection": connection}],
                }
            ).encode(),
        )

    def etcd(self, program: pathlib.Path) -> list[str]:
        peer = "http://127.0.0.1:0"
        flags = {
            "data-dir": "etcd-data",
            "listen-client-urls": ETCD_URL,
            "advertise-client-urls": ETCD_URL,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
        }
        return _command_line(program, flags)

    def api_server(self, program: pathlib.Path) -> list[str]:
        flags = {
            "etcd-servers": ETCD_URL,
            "bind-address": "127.0.0.1",
            "secure-port": self.port,
            "tls-cert-file": "server.crt",
            "tls-private-key-file": "server.key",
            "token-auth-file": "tokens.csv",
            "anonymous-auth": "false",
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": "service-accounts.key",
            "service-account-signing-key-file": "service-accounts.key",
            "service-cluster-ip-range": SERVICE_CIDR,
            "allow-privileged": "true",
            "egress-selector-config-file": "egress.yaml",
            "max-requests-inflight": 4000,
            "max-mutating-requests-inflight": 2000,
        }
        return _command_line(program, flags)

    def controller_manager(self, program: pathlib.Path) -> list[str]:
        flags = {
            "kubeconfig": "controllers",
            "service-account-private-key-file": "service-accounts.key",
            # each controller with its own rights, as clusters have it
            "use-service-account-credentials": "true",
            "root-ca-file": "ca.crt",
            "leader-elect": "false",
            "secure-port": 0,
            "kube-api-qps": QPS,
            "kube-api-burst": BURST,
        }
        return _command_line(program, flags)

    def scheduler(self, program: pathlib.Path) -> list[str]:
        return _command_line(program, {"config": "scheduler.yaml", "secure-port": 0})

    def scheduler_configuration(self) -> dict[str, object]:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": "scheduler", "qps": QPS, "burst": BURST},
        }

    def _kubeconfig(self, user: str, token: str) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "kscen",
                    "cluster": {
                        "server": self.server,
                        "certificate-authority": str(self.folder / "ca.crt"),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "kscen", "context": {"cluster": "kscen", "user": user}}],
            "current-context": "kscen",
        }

    def _write(self, name: str, content: bytes) -> None:
        with open(
            self.folder / name, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)
        ) as file:
            file.write(content)


def _command_line(program: pathlib.Path, flags: Mapping[str, object]) -> list[str]:
    return [str(program), *(f"--{name}={value}" for name, value in flags.items())]


AGENT = "pytest-kscen"
MAX_PORTS_TRIED = 5
START_TIMEOUT = 90.0  # seconds for each step on a slow machine; usually two or three are enough


class _PortTakenError(Exception):
    pass


def start_control_plane(runner: WallRunner) -> tuple[Processes, ControlPlaneFiles]:
    """Start a control plane and return it when pods can be created. ClusterRefused, with the end of
    a log, if a program ends or does not serve within 90 seconds.
    """
    found = programs.find_programs()
    for _ in range(MAX_PORTS_TRIED):
        processes = Processes()
        try:
            layout = ControlPlaneFiles(processes.folder, free_port())
            layout.write()
            _StartAttempt(runner, processes, layout).run(found)
        except _PortTakenError:
            processes.close()
        except BaseException:
            processes.close()
            raise
        else:
            return processes, layout
    raise ClusterRefused(
        f"no port for a kube-apiserver: {MAX_PORTS_TRIED} that were free were taken before it "
        "came up; try again"
    )


class _StartAttempt:
    """Attempt to start all programs on one port."""

    def __init__(self, runner: WallRunner, processes: Processes, layout: ControlPlaneFiles) -> None:
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
            self._wait(
                "kube-apiserver",
                lambda: self._connection.request(
                    "GET", "/readyz", agent=AGENT, accept="*/*", attempts=1
                ),
            )
            start(
                "kube-controller-manager",
                layout.controller_manager(found["kube-controller-manager"]),
            )
            start("kube-scheduler", layout.scheduler(found["kube-scheduler"]))
            self._wait(
                "kube-controller-manager",
                lambda: self._api.get(SERVICE_ACCOUNTS, "default", "default"),
            )
        finally:
            self._runner.call(self._connection.close())

    def _wait(self, program: str, probe: Callable[[], Coroutine[Any, Any, object]]) -> None:
        def answered() -> bool:
            if dead := self._processes.ended():
                raise self._failure(dead, "ended early")
            try:
                self._runner.call(probe())
            except (ApiError, OSError):
                return False
            return True

        if not self._runner.until(answered, START_TIMEOUT):
            raise self._failure(program, f"did not serve within {START_TIMEOUT:.0f} s")

    def _failure(self, program: str, what: str) -> Exception:
        words = self._processes.log_tail(program)
        if "address already in use" in words:
            return _PortTakenError(program)
        return ClusterRefused(
            f"the real control plane did not start: {program} {what}. The end of its log:\n{words}"
        )


def free_port() -> int:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
