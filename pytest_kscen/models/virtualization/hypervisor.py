"""The guests behind virtual machines. A guest is off, or runs in the one launcher pod that holds
it; its machine has power then.

Launchers move guests, controllers look at them and turn their switches; whoever asked hears of
every change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.kube.cache import Ref
from pytest_kscen.models.virtualization.objects import RECEIVER_ANNOTATION
from pytest_kscen.objects.virtualization import PARENT_ROLE, ROLE_LABEL, VM_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Chance, Stream
    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.embedded.kubelet.machines import Machine, Machines
    from pytest_kscen.objects.resources import Obj


OFF, STARTING, BOOTING, UP, STOPPING = "Off", "Starting", "Booting", "Up", "Stopping"
RUNNING_STATES = (BOOTING, UP, STOPPING)  # there is a domain


@dataclass(slots=True, eq=False)
class Guest:
    """One of them. What it is goes through the hypervisor, so that everybody hears of it."""

    ref: Ref
    state: str = OFF
    container: ContainerContext | None = None
    """The launcher that it runs in."""
    endings: list[asyncio.Future[None]] = field(default_factory=list)
    """Of those who wait until it is off."""

    @property
    def holder(self) -> str:
        """The uid of the launcher's pod."""
        return str(self.container.pod["metadata"]["uid"]) if self.container else ""


class Hypervisor:
    """All guests of a parent cluster; those in the namespace of the nested cluster's machines
    are its machines.
    """

    def __init__(self, machines: Machines, namespace: str) -> None:
        self.namespace = namespace
        self._machines = machines
        self._guests: dict[Ref, Guest] = {}
        self._switches: dict[str, bool] = {}
        self._listeners: list[Callable[[Ref], None]] = []

    def on_change(self, listener: Callable[[Ref], None]) -> None:
        """Tell of every change of a guest, or of what is wanted of it."""
        self._listeners.append(listener)

    def guest(self, ref: Ref) -> Guest:
        if ref not in self._guests:
            self._guests[ref] = Guest(ref)
        return self._guests[ref]

    def machine(self, ref: Ref) -> Machine | None:
        """The nested cluster's machine that this guest is, if it is one."""
        if ref.namespace != self.namespace or ref.name not in self._machines:
            return None
        machine = self._machines[ref.name]
        return None if machine.labels.get(ROLE_LABEL) == PARENT_ROLE else machine

    # --- what launchers do ---

    def hold(self, guest: Guest, container: ContainerContext) -> None:
        """The guest is this launcher's from now on; another that had it has nothing left to do.

        A machine that has power when nobody holds it was on before anybody looked.
        """
        before, guest.container = guest.container, container
        if before:
            before.ask_to_stop()
        machine = self.machine(guest.ref)
        if machine and machine.powered:
            guest.state = UP
        self._changed(guest)

    def enter(self, guest: Guest, state: str) -> None:
        guest.state = state
        machine = self.machine(guest.ref)
        if machine and state == UP:
            self._machines.power_on(machine.name)
        elif machine and state in (OFF, STARTING, BOOTING):
            self._machines.power_off(machine.name)
        for ending in guest.endings if state == OFF else ():
            _wake(ending)
        self._changed(guest)

    async def ends(self, guest: Guest, *, within: float) -> None:
        """Wait until somebody takes its power away, at most this many seconds."""
        loop = asyncio.get_running_loop()
        ending = loop.create_future()
        guest.endings.append(ending)
        patience = loop.call_later(within, _wake, ending)
        try:
            await ending
        finally:
            guest.endings.remove(ending)
            patience.cancel()

    def let_go(self, guest: Guest, container: ContainerContext) -> None:
        """The launcher has ended: so has the guest, if it was still in there."""
        if guest.container is container:
            guest.container = None
            self.enter(guest, OFF)

    # --- what controllers do ---

    def unplug(self, ref: Ref) -> None:
        """Take the guest's power away, now."""
        guest = self.guest(ref)
        if guest.state != OFF:
            self.enter(guest, OFF)

    def switch(self, vm: Obj, *, on: bool) -> None:
        """Remember what somebody wanted of this machine by hand."""
        self._switches[vm["metadata"]["uid"]] = on
        self._changed(self.guest(Ref.of(vm)))

    def switched(self, vm: Obj) -> bool | None:
        return self._switches.get(vm["metadata"]["uid"])

    def forget(self, vm: Obj) -> None:
        self._switches.pop(vm["metadata"]["uid"], None)
        self._guests.pop(Ref.of(vm), None)

    def _changed(self, guest: Guest) -> None:
        for listener in self._listeners:
            listener(guest.ref)


def _wake(ending: asyncio.Future[None]) -> None:
    if not ending.done():
        ending.set_result(None)


# How long things take around a guest, in seconds of cluster time.


DOMAIN_START = 10.0  # the launcher makes a domain of the definition and starts it
GUEST_BOOT = (60.0, 75.0)  # firmware, kernel and services, until the guest's kubelet speaks
GUEST_SHUTDOWN = (8.0, 20.0)  # a guest that was asked to, and stops its services one by one
DISKS_LOCKED = 1.0  # until a launcher looks again at disks that another one holds
DOMAIN_TEAR_DOWN = 5.0  # the launcher puts away what it held for a domain that has ended
RECEIVER_PREPARE = 3.0  # the receiving launcher gets ready for a guest that runs elsewhere
MEMORY_TRANSFER = (15.0, 40.0)  # its memory goes over while it runs


# What a virt-launcher's container does: it starts its guest, or receives a running one, and
# ends it when it is told to stop. Whatever ends the container ends the guest: SIGTERM as a
# shutdown, anything harder as the plug.


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
            if RECEIVER_ANNOTATION in (metadata.get("annotations") or {}):
                ran = await self._receive(guest, container, chance)
            else:
                ran = await self._start(guest, container, chance)
            if ran and await container.stopping():
                # A guest that is up shuts down; one that is not yet, or has lost its power, is
                # just put away.
                if guest.container is not container:
                    container.write("the guest has gone\n")
                else:
                    if guest.state == UP:
                        self._hypervisor.enter(guest, STOPPING)
                        await self._hypervisor.ends(guest, within=chance.between(*GUEST_SHUTDOWN))
                    if guest.state != OFF:
                        self._hypervisor.enter(guest, OFF)
                    container.write("the guest is off\n")
                    await container.sleep(DOMAIN_TEAR_DOWN)
        finally:
            self._hypervisor.let_go(guest, container)
        return 0 if ran else 1

    async def _start(self, guest: Guest, container: ContainerContext, chance: Stream) -> bool:
        """Until the guest is up, or is to stop before that."""
        while guest.container:  # another launcher has not let go of its disks yet
            if await container.stopping(within=DISKS_LOCKED):
                return True
        self._hypervisor.hold(guest, container)
        if guest.state == UP:
            container.write("the guest runs already\n")
            return True
        for state, takes in ((STARTING, DOMAIN_START), (BOOTING, chance.between(*GUEST_BOOT))):
            self._hypervisor.enter(guest, state)
            container.write(f"the guest is {state.lower()}\n")
            if await container.stopping(within=takes):
                return True
        self._hypervisor.enter(guest, UP)
        container.write("the guest is up\n")
        return True

    async def _receive(self, guest: Guest, container: ContainerContext, chance: Stream) -> bool:
        """Whether the guest has come over; it has not if one of both ends was stopped on the
        way.
        """
        source = guest.container
        for takes in (RECEIVER_PREPARE, chance.between(*MEMORY_TRANSFER)):
            if (
                await container.stopping(within=takes)
                or guest.state != UP
                or guest.container is not source
            ):
                container.write("the guest has not come\n")
                return False
        self._hypervisor.hold(guest, container)
        container.write("the guest has come\n")
        return True
