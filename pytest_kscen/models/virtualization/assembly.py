"""Additional actors of a parent cluster, and the installation of a parent.

Called by clusters with simulated virtual machines.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.kubelet.images import simulation_program
from pytest_kscen.kube.informer import Informers
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.models.cilium.agents import CiliumAgents
from pytest_kscen.models.virtualization.hypervisor import Hypervisor, Launcher
from pytest_kscen.models.virtualization.machines import VirtualMachines
from pytest_kscen.models.virtualization.objects import (
    CONTAINER,
    DEFINITIONS,
    IMAGE,
    virtual_machine,
)
from pytest_kscen.models.virtualization.operations import VirtualMachineOperations
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.nodes import Site
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj


def actors(
    api_for: Callable[[str], Api],
    clock: Clock,
    chance: Chance,
    *,
    host: Site,
    nested: Site,
    namespace: str,
) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
    """Return the actors of a parent by name; they are started in this order, once per cluster.

    Pods run on the machines of `host`; the guests in them are the machines of `nested`.
    """
    informers = Informers(api_for("virtualization-informers"), clock, chance)
    hypervisor = Hypervisor(nested.machines, namespace)
    host.images.register(
        simulation_program(Launcher(hypervisor, chance).run), image=IMAGE, container=CONTAINER
    )

    def context(name: str) -> ControllerContext:
        return ControllerContext.of(name, api_for(name), clock, informers)

    machines = VirtualMachines(
        context("virtual-machine-controller"), hypervisor, chance.stream("virtual machines")
    )
    operations = VirtualMachineOperations(
        context("virtual-machine-operation-controller"),
        hypervisor,
        chance.stream("virtual machine operations"),
    )
    return [
        ("virtualization-informers", informers.run()),
        ("virtual-machine-controller", machines.run()),
        ("virtual-machine-operation-controller", operations.run()),
        ("cilium-agents", CiliumAgents(informers, nested.network, namespace).run()),
    ]


READY_TIMEOUT = 120.0


async def install_definitions(
    api: Api, clock: Clock, definitions: Sequence[Obj] = DEFINITIONS
) -> None:
    for definition in definitions:
        await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    for definition in definitions:
        name = definition["metadata"]["name"]
        await wait_for(
            api,
            clock,
            CUSTOM_RESOURCE_DEFINITIONS,
            name,
            condition=lambda found: is_true(found, "Established"),
            timeout=READY_TIMEOUT,
        )


async def make_machines(api: Api, clock: Clock, namespace: str, names: Sequence[str]) -> None:
    """Create a virtual machine for each name, and return when all of them run."""
    with contextlib.suppress(AlreadyExists):  # the namespace may exist already
        await api.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
    for name in names:
        await api.create(VIRTUAL_MACHINES, virtual_machine(name, namespace))
    for name in names:
        await wait_for(
            api,
            clock,
            VIRTUAL_MACHINES,
            name,
            namespace,
            condition=lambda vm: ((vm or {}).get("status") or {}).get("phase") == "Running",
            timeout=READY_TIMEOUT,
        )
