"""Attaching the storage to a cluster: from now on its images do what the storage's programs do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.storage import NAMESPACE
from pytest_kscen.simulation.images import own
from pytest_kscen.simulation.storage.agent import Agent
from pytest_kscen.simulation.storage.controller import Leader
from pytest_kscen.simulation.storage.generations import DEFAULT, GENERATIONS
from pytest_kscen.simulation.storage.lease import LostError
from pytest_kscen.simulation.storage.plant import Plant
from pytest_kscen.simulation.storage.workloads import IMAGE

if TYPE_CHECKING:
    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.simulation.images import ContainerContext
    from pytest_kscen.simulation.site import Site


def attach(site: Site, informers: Informers, clock: Clock, chance: Chance, generation: str = DEFAULT) -> Plant:
    """Once for a cluster, before the storage's pods start. The kernels that are returned outlive all pods."""
    plant = Plant(site, informers, clock, chance, GENERATIONS[generation])

    async def lead(container: ContainerContext) -> int:
        return await plant.staff(container, Leader(plant, container).run())

    async def tend(container: ContainerContext) -> int:
        return await plant.staff(container, Agent(plant, container).run())

    for app, behaviour in {"controller": lead, "agent": tend}.items():
        site.images.register(own(behaviour, LostError), image=IMAGE.format(app=app), namespace=NAMESPACE)
    return plant
