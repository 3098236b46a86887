"""A cluster becomes a parent: definitions first, then the namespace and a virtual machine for each machine of the nested one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES
from pytest_kscen.simulation.virtualization.bodies import virtual_machine
from pytest_kscen.simulation.virtualization.definitions import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

PATIENCE = 120.0


async def define(api: Api, clock: Clock, definitions: Sequence[Obj] = DEFINITIONS) -> None:
    """Returns when objects of these kinds can be made."""
    for definition in definitions:
        await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    for definition in definitions:
        name = definition["metadata"]["name"]
        await wait_for(api, clock, CUSTOM_RESOURCE_DEFINITIONS, name, condition=_established, timeout=PATIENCE)


async def make_machines(api: Api, clock: Clock, namespace: str, names: Sequence[str]) -> None:
    """Returns when all of them run."""
    try:
        await api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    except AlreadyExists:
        """A namespace that every cluster has, or somebody made."""
    for name in names:
        await api.create(VIRTUAL_MACHINES, virtual_machine(name, namespace))
    for name in names:
        await wait_for(api, clock, VIRTUAL_MACHINES, name, namespace, condition=_runs, timeout=PATIENCE)


def _established(definition: Obj | None) -> bool:
    return is_true(definition, "Established")


def _runs(machine: Obj | None) -> bool:
    return ((machine or {}).get("status") or {}).get("phase") == "Running"
