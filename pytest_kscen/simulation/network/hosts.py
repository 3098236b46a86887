"""What containers have of the network: those with the host's have their machine's address and tables, others only their own.

A container's servers end with it; its machine's rules stay until somebody deletes them, or the machine loses its power.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.simulation.network.firewall import Firewalls, Tables
from pytest_kscen.simulation.network.iperf3 import Client, Servers
from pytest_kscen.simulation.network.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.clock import Clock
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.kubelet.machines import Machine, Machines
    from pytest_kscen.simulation.network.iperf3 import Server
    from pytest_kscen.simulation.network.network import Network

CAPABILITIES = ("NET_ADMIN", "ALL")  # any of them lets a container change tables


@dataclass(slots=True)
class Host:
    """One run of one container's place in the network."""

    machine: str
    address: str
    tables: Tables | None
    """None if it may not touch any."""
    hosts: Hosts
    _servers: list[Server] = field(default_factory=list)

    def listen(self, port: int) -> Server | None:
        """A server that listens until the container ends; None if the port is taken."""
        server = self.hosts.servers.listen(self.address, port, self.machine)
        if server:
            self._servers.append(server)
        return server

    def client(self, write: Callable[[str], None], sleep: Callable[[float], Awaitable[None]]) -> Client:
        hosts = self.hosts
        return Client(self.machine, self.address, hosts.network, hosts.traffic, hosts.servers, write, sleep)

    def machine_at(self, address: str, port: int) -> str:
        """The name of the machine that is reached by this address, or nothing."""
        server = self.hosts.servers.at(address, port)
        return server.machine if server else self.hosts.named(address)

    def close(self) -> None:
        """The container has ended."""
        for server in self._servers:
            self.hosts.servers.close(server)


class Hosts:
    """A cluster's."""

    def __init__(self, machines: Machines, network: Network, clock: Clock) -> None:
        self._machines = machines
        self.network = network
        self.traffic = Traffic(network)
        self.firewalls = Firewalls(machines, network, self.traffic, clock)
        self.servers = Servers()

    def of(self, machine: Machine, pod: Obj, container: Obj, address: str) -> Host:
        """The place of a container whose pod has this address."""
        is_host = bool(pod["spec"].get("hostNetwork"))
        tables = None
        if _may_change(container):
            tables = self.firewalls.of(machine) if is_host else Tables()
        return Host(machine.name, machine.address if is_host else address, tables, self)

    def named(self, address: str) -> str:
        return next((machine.name for machine in self._machines if machine.address == address), "")


def _may_change(container: Obj) -> bool:
    security = container.get("securityContext") or {}
    added = (security.get("capabilities") or {}).get("add") or ()
    return bool(security.get("privileged")) or any(capability in added for capability in CAPABILITIES)
