"""Network position of containers: address, filter table and servers, and the commands that use
them.

Containers with the host's network share their machine's address and table; others have only their
own. Servers end with their container; a machine's rules stay until they are deleted or it loses its
power.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.embedded.kubelet.network.firewall import FilterTable, Firewalls
from pytest_kscen.embedded.kubelet.network.flows import Traffic
from pytest_kscen.embedded.kubelet.network.iperf3 import Iperf3Client, Iperf3Servers, parse_options
from pytest_kscen.embedded.kubelet.network.iptables import run_iptables
from pytest_kscen.embedded.kubelet.shell import FOREVER, ScriptError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.machines import Machine, Machines
    from pytest_kscen.embedded.kubelet.network.flows import Network
    from pytest_kscen.embedded.kubelet.network.iperf3 import Iperf3Server
    from pytest_kscen.embedded.kubelet.shell import Program, Shell
    from pytest_kscen.objects.resources import Obj


TABLE_CAPABILITIES = ("NET_ADMIN", "ALL")  # either allows changing filter tables


@dataclass(slots=True)
class NetworkHost:
    """Network position of one run of one container, passed to its behaviour as `container.host`."""

    machine: str
    address: str
    tables: FilterTable | None
    """Filter table the container may change; None without the capability."""
    hosts: NetworkHosts
    _servers: list[Iperf3Server] = field(default_factory=list)

    def listen(self, port: int) -> Iperf3Server | None:
        """Return a server that listens until the container ends, or None if the port is taken."""
        server = self.hosts.servers.listen(self.address, port, self.machine)
        if server:
            self._servers.append(server)
        return server

    def client(
        self, write: Callable[[str], None], sleep: Callable[[float], Awaitable[None]]
    ) -> Iperf3Client:
        hosts = self.hosts
        return Iperf3Client(
            self.machine, self.address, hosts.network, hosts.traffic, hosts.servers, write, sleep
        )

    def machine_at(self, address: str, port: int) -> str:
        server = self.hosts.servers.at(address, port)
        return server.machine if server else self.hosts.machine_with_address(address)

    def close(self) -> None:
        for server in self._servers:
            self.hosts.servers.close(server)


class NetworkHosts:
    def __init__(self, machines: Machines, network: Network, clock: Clock) -> None:
        self._machines = machines
        self.network = network
        self.traffic = Traffic(network)
        self.firewalls = Firewalls(machines, network, self.traffic, clock)
        self.servers = Iperf3Servers()

    def of(self, machine: Machine, pod: Obj, container: Obj, address: str) -> NetworkHost:
        """Return the network position of a container whose pod has this address. Privileged
        containers on the host's network share the machine's table.
        """
        is_host = bool(pod["spec"].get("hostNetwork"))
        tables = None
        security = container.get("securityContext") or {}
        added = (security.get("capabilities") or {}).get("add") or ()
        if bool(security.get("privileged")) or any(
            capability in added for capability in TABLE_CAPABILITIES
        ):
            tables = self.firewalls.of(machine) if is_host else FilterTable()
        return NetworkHost(machine.name, machine.address if is_host else address, tables, self)

    def machine_with_address(self, address: str) -> str:
        return next((machine.name for machine in self._machines if machine.address == address), "")


BANNER = "-----------------------------------------------------------\n"
NETWORK_PROGRAMS = ("iptables", "iperf3")


def network_programs(host: NetworkHost) -> dict[str, Program]:
    async def iptables(shell: Shell, arguments: list[str]) -> int:
        outcome = run_iptables(host.tables, arguments)
        shell.write(outcome.text)
        shell.write_error(outcome.stderr)
        return outcome.code

    async def iperf3(shell: Shell, arguments: list[str]) -> int:
        try:
            options = parse_options(arguments)
        except ValueError as error:
            raise ScriptError(f"iperf3: {error}") from error
        if options.serves:
            # A background server reports no error, as it has detached from the shell.
            port = options.port
            in_background = options.in_background
            server = host.listen(port)
            if in_background:
                return 0
            if server is None:
                why = "unable to start listener for connections: Address already in use"
                shell.write_error(f"iperf3: error - {why}\niperf3: exiting\n")
                return 1
            shell.write(f"{BANNER}Server listening on {port} (test #1)\n{BANNER}")
            try:
                await shell.sleep(FOREVER)
            finally:
                host.hosts.servers.close(server)
            return 0
        client = host.client(shell.write, shell.sleep)
        ended = await client.run(options, host.machine_at(options.host, options.port))
        shell.write_error(ended.stderr)
        return ended.code

    return {"iptables": iptables, "iperf3": iperf3}
