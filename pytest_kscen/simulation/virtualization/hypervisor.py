"""The guests behind virtual machines. A guest is off, or runs in the one launcher pod that holds it; its machine has power then.

Launchers move guests, controllers look at them and turn their switches; whoever asked hears of every change.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.virtualization import PARENT_ROLE, ROLE_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.images import ContainerContext
    from pytest_kscen.simulation.kubelet.machines import Machine, Machines

OFF, STARTING, BOOTING, UP, STOPPING = "Off", "Starting", "Booting", "Up", "Stopping"
RUNS = (BOOTING, UP, STOPPING)  # there is a domain


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
    """All guests of a parent cluster; those in the namespace of the nested cluster's machines are its machines."""

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
