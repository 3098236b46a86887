"""What stands behind a cluster's nodes, for the rooms that act on it: machines and network, what images do, what was logged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.kube.gate import Gates
from pytest_kscen.simulation.images import Images
from pytest_kscen.simulation.kubelet.machines import HOSTS, Machines
from pytest_kscen.simulation.logs import Logs
from pytest_kscen.simulation.network import Network
from pytest_kscen.simulation.network.hosts import Hosts

if TYPE_CHECKING:
    import ipaddress

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.simulation.kubelet.kubelets import Kubelets
    from pytest_kscen.simulation.scheduler import Scheduler


@dataclass(slots=True)
class Site:
    """One cluster's. An embedded server answers `pods/log` from `logs`; `kubelets` are there when their actor is."""

    machines: Machines
    images: Images
    logs: Logs
    network: Network
    hosts: Hosts
    kubelets: Kubelets | None = None
    informers: Informers | None = None
    """The pictures that the cluster's controllers share, when they are there."""
    scheduler: Scheduler | None = None
    """The embedded one; a real control plane brings its own."""
    gates: Gates = field(default_factory=Gates)
    """Where a Scenario holds the cluster's controllers."""
    has_chaos_mesh: bool = False
    """Once somebody has brought it."""

    @classmethod
    def of(cls, clock: Clock, chance: Chance, *, nodes: int = 0, hosts: ipaddress.IPv4Address = HOSTS) -> Site:
        """With machines that are there from the beginning, and register themselves."""
        machines = Machines(chance.stream("machines"), hosts)
        for number in range(1, nodes + 1):
            machines.add(f"node-{number}")
        network = Network(machines)
        return cls(machines, Images(), Logs(clock), network, Hosts(machines, network, clock))
