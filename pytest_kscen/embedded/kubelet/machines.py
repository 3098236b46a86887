"""Simulated machines behind the nodes: powered or not, reachable or not.

A machine exists as long as its Node. A machine without power loses its containers; a machine
without network continues to run. Only fault injection and simulated third parties change machines:
`power_off` and `power_on`, `cut_off` and `reconnect`.
"""

from __future__ import annotations

import ipaddress
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj

FIRST_HOST = ipaddress.IPv4Address("172.18.0.2")
FIRST_PARENT_HOST = ipaddress.IPv4Address(
    "172.19.0.2"
)  # of a parent cluster, whose machines run another cluster's
POD_NETWORKS = ipaddress.IPv4Address("10.128.0.0")
DEFAULT_CAPACITY = {"cpu": "8", "ephemeral-storage": "100Gi", "memory": "32Gi", "pods": "110"}


@dataclass(slots=True, eq=False)
class Machine:
    """Machine of one node: identity, capacity, power, reachability, pulled images and pod
    addresses.
    """

    name: str
    number: int
    machine_id: str
    boot_id: str
    labels: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_CAPACITY))
    powered: bool = True
    reachable: bool = True
    images: dict[str, None] = field(default_factory=dict)
    pod_network: str = ""
    hosts: InitVar[ipaddress.IPv4Address] = FIRST_HOST
    address: str = field(init=False)
    _first: ipaddress.IPv4Address | ipaddress.IPv6Address = POD_NETWORKS
    _address_count: int = 0
    _last: int = 0
    _addresses: dict[str, None] = field(default_factory=dict)

    def __post_init__(self, hosts: ipaddress.IPv4Address) -> None:
        self.address = str(hosts + self.number)

    def set_pod_network(self, cidr: str) -> None:
        """Give pods addresses of this network; without one, of a network derived from the
        machine's number.
        """
        wanted = cidr or f"{POD_NETWORKS + 256 * self.number}/24"
        if wanted == self.pod_network:
            return
        self.pod_network = wanted
        network = ipaddress.ip_network(self.pod_network)
        self._first, self._address_count = (
            network.network_address,
            min(network.num_addresses - 2, 2**16),
        )

    def allocate_address(self) -> str:
        """Return an unused address for a pod. Addresses are given out in turn, so none is
        reused soon.
        """
        for _ in range(self._address_count):
            self._last = self._last % self._address_count + 1
            address = str(self._first + self._last)
            if address not in self._addresses:
                self._addresses[address] = None
                return address
        raise RuntimeError(f"{self.name} has no address left in {self.pod_network}")

    def has_address(self, address: str) -> bool:
        return address in self._addresses

    def release_address(self, address: str) -> None:
        self._addresses.pop(address, None)


class Machines:
    """Machines of a cluster by the names of their nodes. Changes of power and reachability are
    reported to listeners.
    """

    def __init__(self, chance: Stream, hosts: ipaddress.IPv4Address = FIRST_HOST) -> None:
        self._chance = chance
        self._hosts = hosts
        self._machines: dict[str, Machine] = {}
        self._count = 0
        self._listeners: list[Callable[[Machine], None]] = []

    def on_change(self, listener: Callable[[Machine], None]) -> None:
        self._listeners.append(listener)

    def __iter__(self) -> Iterator[Machine]:
        return iter(list(self._machines.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._machines

    def has_power(self, name: str) -> bool:
        machine = self._machines.get(name)
        return machine is not None and machine.powered

    def __getitem__(self, name: str) -> Machine:
        machine = self._machines.get(name)
        if machine is None:
            raise KeyError(
                f"there is no machine {name!r}; there are "
                f"{', '.join(sorted(self._machines)) or 'none'}"
            )
        return machine

    def add(
        self,
        name: str,
        *,
        labels: dict[str, str] | None = None,
        capacity: dict[str, str] | None = None,
    ) -> Machine:
        identity = self._chance.uid().replace("-", ""), self._chance.uid()
        machine = Machine(name, self._count, *identity, labels or {}, hosts=self._hosts)
        machine.capacity.update(capacity or {})
        machine.set_pod_network("")
        self._count += 1
        self._machines[name] = machine
        return machine

    def remove(self, name: str) -> None:
        self.power_off(name)
        del self._machines[name]

    def power_off(self, name: str) -> None:
        """Cut the power at once, without a shutdown. Containers, filter tables and unsent
        statuses of the machine are lost.
        """
        self._set(name, powered=False)

    def power_on(self, name: str) -> None:
        """Restore the power. The kubelet starts at once; a simulated boot time has to pass
        before this call.
        """
        self._set(name, powered=True)

    def cut_off(self, name: str) -> None:
        """Cut the connection between this machine and the API server, in both directions. Links
        between machines are not affected.
        """
        self._set(name, reachable=False)

    def reconnect(self, name: str) -> None:
        self._set(name, reachable=True)

    def _set(
        self, name: str, *, powered: bool | None = None, reachable: bool | None = None
    ) -> None:
        machine = self[name]
        before = machine.powered, machine.reachable
        if powered and not machine.powered:
            machine.boot_id = self._chance.uid()
        machine.powered = machine.powered if powered is None else powered
        machine.reachable = machine.reachable if reachable is None else reachable
        if (machine.powered, machine.reachable) != before:
            for listener in self._listeners:
                listener(machine)


def node_capacity(node: Obj, machine: Machine) -> tuple[Obj, Obj]:
    """Return capacity and allocatable resources: the Node's own if it was created with them,
    otherwise the machine's.
    """
    status = node.get("status") or {}
    capacity = status.get("capacity") or status.get("allocatable") or machine.capacity
    return capacity, status.get("allocatable") or capacity
