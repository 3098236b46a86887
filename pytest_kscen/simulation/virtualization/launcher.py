"""What a virt-launcher's container does: it starts its guest, or receives a running one, and ends it when it is told to stop.

Whatever ends the container ends the guest: SIGTERM as a shutdown, anything harder as the plug.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.virtualization import VM_LABEL
from pytest_kscen.simulation.virtualization import timings
from pytest_kscen.simulation.virtualization.bodies import RECEIVES
from pytest_kscen.simulation.virtualization.hypervisor import BOOTING, OFF, STARTING, STOPPING, UP

if TYPE_CHECKING:
    from pytest_kscen.chance import Chance, Stream
    from pytest_kscen.simulation.images import ContainerContext
    from pytest_kscen.simulation.virtualization.hypervisor import Guest, Hypervisor


class Launcher:
    """The behaviour of all of them."""

    def __init__(self, hypervisor: Hypervisor, chance: Chance) -> None:
        self._hypervisor = hypervisor
        self._chance = chance

    async def run(self, container: ContainerContext) -> int:
        metadata = container.pod["metadata"]
        guest = self._hypervisor.guest(Ref(metadata["namespace"], metadata["labels"][VM_LABEL]))
        chance = self._chance.stream(f"guest {guest.ref.namespace}/{guest.ref.name}")
        try:
            if RECEIVES in (metadata.get("annotations") or {}):
                ran = await self._receive(guest, container, chance)
            else:
                ran = await self._start(guest, container, chance)
            if ran and await container.stopping():
                await self._stop(guest, container, chance)
        finally:
            self._hypervisor.let_go(guest, container)
        return 0 if ran else 1

    async def _start(self, guest: Guest, container: ContainerContext, chance: Stream) -> bool:
        """Until the guest is up, or is to stop before that."""
        while guest.container:  # another launcher has not let go of its disks yet
            if await container.stopping(within=timings.LOCKED):
                return True
        self._hypervisor.hold(guest, container)
        if guest.state == UP:
            container.write("the guest runs already\n")
            return True
        for state, takes in ((STARTING, timings.START), (BOOTING, chance.between(*timings.BOOT))):
            self._hypervisor.enter(guest, state)
            container.write(f"the guest is {state.lower()}\n")
            if await container.stopping(within=takes):
                return True
        self._hypervisor.enter(guest, UP)
        container.write("the guest is up\n")
        return True

    async def _receive(self, guest: Guest, container: ContainerContext, chance: Stream) -> bool:
        """Whether the guest has come over; it has not if one of both ends was stopped on the way."""
        source = guest.container
        for takes in (timings.PREPARE, chance.between(*timings.TRANSFER)):
            if await container.stopping(within=takes) or guest.state != UP or guest.container is not source:
                container.write("the guest has not come\n")
                return False
        self._hypervisor.hold(guest, container)
        container.write("the guest has come\n")
        return True

    async def _stop(self, guest: Guest, container: ContainerContext, chance: Stream) -> None:
        """A guest that is up shuts down; one that is not yet, or has lost its power, is just put away."""
        if guest.container is not container:
            container.write("the guest has gone\n")
            return
        if guest.state == UP:
            self._hypervisor.enter(guest, STOPPING)
            await self._hypervisor.ends(guest, within=chance.between(*timings.SHUTDOWN))
        if guest.state != OFF:
            self._hypervisor.enter(guest, OFF)
        container.write("the guest is off\n")
        await container.sleep(timings.TEAR_DOWN)
