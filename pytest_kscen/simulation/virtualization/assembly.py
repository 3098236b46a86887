"""The cast of a parent cluster, beside what every cluster has: whoever starts them must start them in this order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.informer import Informers
from pytest_kscen.simulation.bench import Bench
from pytest_kscen.simulation.images import own
from pytest_kscen.simulation.network.cilium import CiliumAgents
from pytest_kscen.simulation.virtualization.bodies import CONTAINER, IMAGE
from pytest_kscen.simulation.virtualization.hypervisor import Hypervisor
from pytest_kscen.simulation.virtualization.launcher import Launcher
from pytest_kscen.simulation.virtualization.machines import VirtualMachines
from pytest_kscen.simulation.virtualization.operations import VirtualMachineOperations

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.simulation.site import Site


def actors(
    api_for: Callable[[str], Api], clock: Clock, chance: Chance, *, host: Site, nested: Site, namespace: str
) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
    """Pods run on the host's machines; the guests in them are the nested site's."""
    informers = Informers(api_for("virtualization-informers"), clock, chance)
    hypervisor = Hypervisor(nested.machines, namespace)
    host.images.register(own(Launcher(hypervisor, chance).run), image=IMAGE, container=CONTAINER)

    def bench(name: str) -> Bench:
        return Bench.of(name, api_for(name), clock, informers)

    machines = VirtualMachines(bench("virtual-machine-controller"), hypervisor, chance.stream("virtual machines"))
    operations = VirtualMachineOperations(
        bench("virtual-machine-operation-controller"), hypervisor, chance.stream("virtual machine operations")
    )
    return [
        ("virtualization-informers", informers.run()),
        ("virtual-machine-controller", machines.run()),
        ("virtual-machine-operation-controller", operations.run()),
        ("cilium-agents", CiliumAgents(informers, nested.network, namespace).run()),
    ]
