"""What the control plane reads when it starts: files in its folder, and four command lines."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clusters.controlplane import keys
from pytest_kscen.machinery.http.keys import make_keys

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping

ADMIN = "kscen-admin"
MASTERS = "system:masters"
CONTROLLERS, SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
ETCD = "unix://etcd:1"  # a socket in the folder, which keeps others out and takes no port
SERVICES = "10.0.0.0/24"
QPS, BURST = 1000, 2000  # the defaults would be what a busy test measures


@dataclass(frozen=True, slots=True)
class Layout:
    """One control plane's folder and port."""

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
        """Keys, tokens, and a kubeconfig for each who comes."""
        server = make_keys()
        self._write("ca.crt", server.authority)
        self._write("server.crt", server.certificate)
        self._write("server.key", server.key)
        self._write("service-accounts.key", keys.signing_key())
        people = {ADMIN: MASTERS, CONTROLLERS: "", SCHEDULER: ""}
        tokens = {name: keys.token() for name in people}
        rows = [f'{tokens[name]},{name},{name},"{group}"' for name, group in people.items()]
        self._write("tokens.csv", "\n".join(rows).encode())
        for name, path in ((ADMIN, self.kubeconfig), (CONTROLLERS, "controllers"), (SCHEDULER, "scheduler")):
            self._write(str(path), json.dumps(self._kubeconfig(name, tokens[name]), indent=2).encode())
        self._write("scheduler.yaml", json.dumps(self.scheduler_configuration()).encode())
        self._write("egress.yaml", json.dumps(self._egress_configuration()).encode())

    def etcd(self, program: pathlib.Path) -> list[str]:
        peer = "http://127.0.0.1:0"
        flags = {
            "data-dir": "etcd-data",
            "listen-client-urls": ETCD,
            "advertise-client-urls": ETCD,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
        }
        return _command(program, flags)

    def api_server(self, program: pathlib.Path) -> list[str]:
        flags = {
            "etcd-servers": ETCD,
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
            "service-cluster-ip-range": SERVICES,
            "allow-privileged": "true",
            "egress-selector-config-file": "egress.yaml",
            "max-requests-inflight": 4000,
            "max-mutating-requests-inflight": 2000,
        }
        return _command(program, flags)

    def controller_manager(self, program: pathlib.Path) -> list[str]:
        flags = {
            "kubeconfig": "controllers",
            "service-account-private-key-file": "service-accounts.key",
            "use-service-account-credentials": "true",  # each controller with its own rights, as clusters have it
            "root-ca-file": "ca.crt",
            "leader-elect": "false",
            "secure-port": 0,
            "kube-api-qps": QPS,
            "kube-api-burst": BURST,
        }
        return _command(program, flags)

    def scheduler(self, program: pathlib.Path) -> list[str]:
        return _command(program, {"config": "scheduler.yaml", "secure-port": 0})

    def _egress_configuration(self) -> dict[str, object]:
        """Whatever is meant for machines goes through the tunnel."""
        connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(self.tunnel)}}}
        return {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }

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
                {"name": "kscen", "cluster": {"server": self.server, "certificate-authority": str(self.folder / "ca.crt")}}
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "kscen", "context": {"cluster": "kscen", "user": user}}],
            "current-context": "kscen",
        }

    def _write(self, name: str, content: bytes) -> None:
        with open(self.folder / name, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(content)


def _command(program: pathlib.Path, flags: Mapping[str, object]) -> list[str]:
    return [str(program), *(f"--{name}={value}" for name, value in flags.items())]
