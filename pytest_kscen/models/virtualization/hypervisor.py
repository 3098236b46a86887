"""Guests behind virtual machines, and the launchers that run them.

A guest is off, or runs in the one launcher pod that holds it; its machine has power while it is up.
Launchers start and move guests, controllers inspect and switch them; listeners are called after
every change.
"""

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
    """Guest of one virtual machine. Its state must be changed by the hypervisor, which notifies
    listeners.
    """

    ref: Ref
    state: str = OFF
    container: ContainerContext | None = None
    """Launcher that it runs in."""
    off_waiters: list[asyncio.Future[None]] = field(default_factory=list)
    """Futures that are resolved when it is off."""

    @property
    def holder(self) -> str:
        return str(self.container.pod["metadata"]["uid"]) if self.container else ""


class Hypervisor:
    """Guests of a parent cluster, and their power. Guests in the namespace of the nested cluster's
    machines are these machines.
    """

    def __init__(self, machines: Machines, namespace: str) -> None:
        self.namespace = namespace
        self._machines = machines
        self._guests: dict[Ref, Guest] = {}
        self._switches: dict[str, bool] = {}
        self._listeners: list[Callable[[Ref], None]] = []

    def on_change(self, listener: Callable[[Ref], None]) -> None:
        """Call the listener with each guest whose state or switch has changed."""
        self._listeners.append(listener)

    def guest(self, ref: Ref) -> Guest:
        if ref not in self._guests:
            self._guests[ref] = Guest(ref)
        return self._guests[ref]

    def machine(self, ref: Ref) -> Machine | None:
        """Return the nested cluster's machine that this guest is, or None for other guests."""
        if ref.namespace != self.namespace or ref.name not in self._machines:
            return None
        machine = self._machines[ref.name]
        return None if machine.labels.get(ROLE_LABEL) == PARENT_ROLE else machine

    def assign(self, guest: Guest, container: ContainerContext) -> None:
        """Assign the guest to this launcher, and stop a launcher that held it before.

        A machine with power that no launcher held was on before the simulation started.
        """
        before, guest.container = guest.container, container
        if before:
            before.terminate()
        machine = self.machine(guest.ref)
        if machine and machine.powered:
            guest.state = UP
        self._changed(guest)

    def set_state(self, guest: Guest, state: str) -> None:
        guest.state = state
        machine = self.machine(guest.ref)
        if machine and state == UP:
            self._machines.power_on(machine.name)
        elif machine and state in (OFF, STARTING, BOOTING):
            self._machines.power_off(machine.name)
        for waiter in guest.off_waiters if state == OFF else ():
            _wake(waiter)
        self._changed(guest)

    async def wait_until_off(self, guest: Guest, *, within: float) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        guest.off_waiters.append(waiter)
        timeout = loop.call_later(within, _wake, waiter)
        try:
            await waiter
        finally:
            guest.off_waiters.remove(waiter)
            timeout.cancel()

    def release(self, guest: Guest, container: ContainerContext) -> None:
        """Take the guest from a launcher that has ended. A guest that still ran in it is off
        then.
        """
        if guest.container is container:
            guest.container = None
            self.set_state(guest, OFF)

    def cut_power(self, ref: Ref) -> None:
        guest = self.guest(ref)
        if guest.state != OFF:
            self.set_state(guest, OFF)

    def set_switch(self, vm: Obj, *, on: bool) -> None:
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


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


# Durations around a guest, in seconds of cluster time.
DOMAIN_START = 10.0  # the launcher creates a domain and starts it
GUEST_BOOT = (60.0, 75.0)  # firmware, kernel and services, until the guest's kubelet is ready
GUEST_SHUTDOWN = (8.0, 20.0)  # the guest stops its services one by one
DISKS_LOCKED = 1.0  # interval of checks for disks that another launcher holds
DOMAIN_TEARDOWN_TIME = 5.0  # the launcher releases the resources of an ended domain
RECEIVER_PREPARE = 3.0  # the receiving launcher prepares for a running guest
MEMORY_TRANSFER = (15.0, 40.0)  # the memory is copied while the guest runs


class Launcher:
    """Behaviour of a virt-launcher's container: it starts its guest, or receives a running one.

    The end of the container ends the guest: SIGTERM by a shutdown, a kill by loss of power.
    """

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
                # a running guest shuts down; a booting one, or one without power, ends at once
                if guest.container is not container:
                    container.write("the guest has gone\n")
                else:
                    if guest.state == UP:
                        self._hypervisor.set_state(guest, STOPPING)
                        await self._hypervisor.wait_until_off(
                            guest, within=chance.between(*GUEST_SHUTDOWN)
                        )
                    if guest.state != OFF:
                        self._hypervisor.set_state(guest, OFF)
                    container.write("the guest is off\n")
                    await container.sleep(DOMAIN_TEARDOWN_TIME)
        finally:
            self._hypervisor.release(guest, container)
        return 0 if ran else 1

    async def _start(self, guest: Guest, container: ContainerContext, chance: Stream) -> bool:
        """Start the guest. Return True when it is up, or when the container shall stop before
        that.
        """
        while guest.container:  # another launcher has not released its disks yet
            if await container.stopping(within=DISKS_LOCKED):
                return True
        self._hypervisor.assign(guest, container)
        if guest.state == UP:
            container.write("the guest runs already\n")
            return True
        for state, duration in ((STARTING, DOMAIN_START), (BOOTING, chance.between(*GUEST_BOOT))):
            self._hypervisor.set_state(guest, state)
            container.write(f"the guest is {state.lower()}\n")
            if await container.stopping(within=duration):
                return True
        self._hypervisor.set_state(guest, UP)
        container.write("the guest is up\n")
        return True

    async def _receive(self, guest: Guest, container: ContainerContext, chance: Stream) -> bool:
        """Receive a running guest. Return False if either end was stopped on the way."""
        source = guest.container
        for duration in (RECEIVER_PREPARE, chance.between(*MEMORY_TRANSFER)):
            if (
                await container.stopping(within=duration)
                or guest.state != UP
                or guest.container is not source
            ):
                container.write("the guest has not come\n")
                return False
        self._hypervisor.assign(guest, container)
        container.write("the guest has come\n")
        return True
