"""Faults of vm-reboot: operations in the parent that restart or stop a virtual machine."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_kscen.chaos.clients import (
    ClusterClients,
    FaultImpossible,
    delete_and_wait,
    replace_object,
)
from pytest_kscen.chaos.incidents import EXPECTED_ERRORS, cause_incident, end_incident, note_skipped
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.chaos.profiles import VmReboot
from pytest_kscen.chaos.troubles import LINK, MACHINE, NODE, VOLUME, ExplanatoryPower, Reach
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.virtualization import (
    FINISHED,
    RUNNING,
    STOPPED,
    VIRTUAL_MACHINE_OPERATIONS,
    VIRTUAL_MACHINES,
    phase_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Actor, RunContext
    from pytest_kscen.objects.resources import Obj, Resource


OPERATION_TIMEOUT = 300.0  # seconds within which an operation has to be finished
BOOT_TIMEOUT = 600.0  # seconds within which the machine has to run, and its node to be ready
COMPLETED = "Completed"
EVERYTHING = (LINK, VOLUME, NODE, MACHINE)


class OperationFailed(FaultImpossible):
    """Failure of an operation, as the hypervisor reports it."""


def operation(name: str, namespace: str, kind: str, vm: str, labels: Mapping[str, str]) -> Obj:
    """Return a VirtualMachineOperation, forced unless it is a start."""
    spec = {"type": kind, "virtualMachineName": vm}
    return {
        "apiVersion": VIRTUAL_MACHINE_OPERATIONS.api_version,
        "kind": VIRTUAL_MACHINE_OPERATIONS.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": spec if kind == "Start" else {**spec, "force": True},
    }


@dataclass(frozen=True, slots=True)
class MachineFault:
    """Fault that powers one machine off."""

    vm: str
    boot: str = dataclasses.field(default="", repr=False)
    """Boot id of the node before the fault."""

    @property
    def targets(self) -> dict[str, list[str]]:
        return {"nodes": [self.vm], "vms": [self.vm]}

    @property
    def reach(self) -> Reach:
        return Reach(EVERYTHING, (self.vm,), power=ExplanatoryPower.POWERS_OFF)


@dataclass(frozen=True, slots=True)
class MachineRestart(MachineFault):
    """Restart of a machine: hard off, then on."""

    profile: ClassVar[str] = VmReboot.name
    variant: ClassVar[str] = VmReboot.name
    passes: ClassVar[bool] = True

    async def aim(self, clients: ClusterClients) -> MachineRestart:
        await clients.must_run([self.vm])
        return dataclasses.replace(self, boot=_boot_of(await _node(clients, self.vm)))

    async def inject(self, incident: Incident) -> None:
        await incident.put(incident.clients.in_parent, *_operation_of(incident, "Restart", self.vm))

    async def heal(self, incident: Incident) -> None:
        """Wait until the machine runs again.

        Without a confirmed operation nothing is undone, unless the machine was observed to stop.
        """
        await _look_for(incident, "Restart")
        try:
            if await _complete_operation(incident, "Restart", self.vm):
                incident.was_done(f"{self.vm} was restarted")
        except OperationFailed as error:
            incident.note("incident-failed", error=str(error))
        if incident.had_effect:
            await _wait_until_back(incident, self.vm, self.boot)


@dataclass(frozen=True, slots=True)
class MachineStop(MachineFault):
    """Stop of a machine until the fault is undone."""

    profile: ClassVar[str] = "vm-stop"
    variant: ClassVar[str] = "vm-stop"
    passes: ClassVar[bool] = False

    async def aim(self, clients: ClusterClients) -> MachineStop:
        await clients.must_run([self.vm])
        return dataclasses.replace(self, boot=_boot_of(await _node(clients, self.vm)))

    async def inject(self, incident: Incident) -> None:
        await incident.put(incident.clients.in_parent, *_operation_of(incident, "Stop", self.vm))
        if await _complete_operation(incident, "Stop", self.vm):
            incident.was_done(f"{self.vm} was stopped")

    async def heal(self, incident: Incident) -> None:
        """Start the machine again. A waiting operation is deleted first, so that it does not stop
        the machine later; a completed one is kept until the machine runs.
        """
        actor, namespace, name = (
            incident.clients.in_parent,
            incident.clients.namespace,
            _name(incident, "Stop"),
        )
        await _look_for(incident, "Stop")
        if not incident.answers:
            return
        try:
            order = await actor.api.get(VIRTUAL_MACHINE_OPERATIONS, name, namespace)
        except NotFound:
            order = {}
        if phase_of(order) != COMPLETED:
            await delete_and_wait(actor, VIRTUAL_MACHINE_OPERATIONS, name, namespace)
        await _wait_until_back(incident, self.vm, self.boot)
        await delete_and_wait(actor, VIRTUAL_MACHINE_OPERATIONS, name, namespace)


def is_our_stop(operation: Obj) -> bool:
    return operation["spec"].get("type") == "Stop" and RUN_LABEL in (
        operation["metadata"].get("labels") or {}
    )


def is_over(operation: Obj) -> bool:
    """Return True if an operation has finished, or is a stop that its run has not undone."""
    return phase_of(operation) in FINISHED or is_our_stop(operation)


async def undo_stop(clients: ClusterClients, leftover: Obj) -> None:
    """Start a machine that an earlier run has stopped and not started again."""
    if (
        not is_our_stop(leftover)
        or leftover["spec"]["virtualMachineName"] not in await clients.machines()
    ):
        return
    actor, namespace, name, vm = (
        clients.in_parent,
        clients.namespace,
        leftover["metadata"]["name"],
        leftover["spec"]["virtualMachineName"],
    )
    with contextlib.suppress(
        TimeoutError
    ):  # an unfinished operation has no effect after its deletion
        await _finished(actor, name, namespace)
    if await _wait_for_phase(clients, vm, RUNNING, STOPPED) != STOPPED:
        return
    start = name.replace("-stop-", "-start-", 1)
    try:
        await replace_object(
            actor,
            VIRTUAL_MACHINE_OPERATIONS,
            operation(start, namespace, "Start", vm, actor.labels),
        )
        await _wait_for_phase(clients, vm, RUNNING)
    finally:
        await delete_and_wait(actor, VIRTUAL_MACHINE_OPERATIONS, start, namespace)


def _name(incident: Incident, kind: str) -> str:
    return f"chaos-{kind.lower()}-{incident.id}"


def _operation_of(incident: Incident, kind: str, vm: str) -> tuple[Resource, Obj]:
    named = operation(_name(incident, kind), incident.clients.namespace, kind, vm, incident.labels)
    return VIRTUAL_MACHINE_OPERATIONS, named


async def _look_for(incident: Incident, kind: str) -> None:
    clients = incident.clients
    await incident.look_for(
        clients.in_parent, VIRTUAL_MACHINE_OPERATIONS, _name(incident, kind), clients.namespace
    )


async def _complete_operation(incident: Incident, kind: str, vm: str) -> bool:
    """Wait until the operation is finished, and delete it unless it is a completed stop.

    Return False if the operation does not exist; raise OperationFailed if it failed.
    """
    actor, namespace, name = (
        incident.clients.in_parent,
        incident.clients.namespace,
        _name(incident, kind),
    )
    found = await _finished(actor, name, namespace)
    if found == "gone":
        return False
    if kind != "Stop" or phase_of(found) != COMPLETED:
        await delete_and_wait(actor, VIRTUAL_MACHINE_OPERATIONS, name, namespace)
    if phase_of(found) != COMPLETED:
        if kind != "Start" and not incident.had_effect:
            incident.answers.nothing()
        message = (condition(found, "Completed") or {}).get("message", "")
        raise OperationFailed(
            f"the operation {kind} of {vm} is {phase_of(found)}{message and ': '}{message}"
        )
    return True


async def _finished(actor: Actor, name: str, namespace: str) -> Any:
    """Return the operation once it has ended, or "gone"."""
    return await wait_for(
        *(actor.api, actor.clock, VIRTUAL_MACHINE_OPERATIONS, name, namespace),
        condition=lambda each: (
            "gone" if each is None else each if phase_of(each) in FINISHED else None
        ),
        timeout=OPERATION_TIMEOUT,
    )


async def _wait_until_back(incident: Incident, vm: str, boot: str) -> None:
    """Wait until the machine runs and its node is ready; start the machine if it is off. After a
    completed operation, the node must have a new boot id.
    """
    if await _wait_for_phase(incident.clients, vm, RUNNING, STOPPED) == STOPPED:
        await replace_object(incident.clients.in_parent, *_operation_of(incident, "Start", vm))
        await _complete_operation(incident, "Start", vm)
        await _wait_for_phase(incident.clients, vm, RUNNING)
    nested, before = incident.clients.nested, boot if incident.done else ""
    await wait_for(
        *(nested.api, nested.clock, NODES, vm),
        condition=lambda node: (
            node is None or (is_true(node, "Ready") and _boot_of(node) != before)
        ),
        timeout=BOOT_TIMEOUT,
    )


async def _wait_for_phase(clients: ClusterClients, vm: str, *phases: str) -> str:
    """Return the first of these phases that the machine has, or "gone"."""
    actor = clients.in_parent
    return await wait_for(
        *(actor.api, actor.clock, VIRTUAL_MACHINES, vm, clients.namespace),
        condition=lambda each: (
            "gone" if each is None else phase_of(each) if phase_of(each) in phases else ""
        ),
        timeout=BOOT_TIMEOUT,
    )


async def _node(clients: ClusterClients, name: str) -> Obj | None:
    try:
        return await clients.nested.api.get(NODES, name)
    except NotFound:
        return None


def _boot_of(node: Obj | None) -> str:
    status = (node or {}).get("status") or {}
    return str((status.get("nodeInfo") or {}).get("bootID") or "")


NAME = "chaos-vm-reboter"


async def reboot_machines(profile: VmReboot, context: RunContext, stop: Signal) -> None:
    """Restart random machines until `stop` is given, without waiting until they run again."""
    clients = ClusterClients.of(context, context.next_name(NAME))
    if profile.is_below_minimum:
        clients.nested.log(
            logging.WARNING,
            "restarts more often than every five minutes, as the period requires",
            period=profile.period,
        )
    async with Observer.of(context).held(), asyncio.TaskGroup() as returns:
        while not await stop.within(profile.pause(clients.nested.chance)):
            try:
                machines = clients.nested.chance.shuffled(list(await clients.machines()))
                if not machines:
                    raise FaultImpossible(
                        f"there is no virtual machine in the namespace {clients.namespace!r}"
                    )
                listing = await clients.in_parent.api.list(
                    VIRTUAL_MACHINE_OPERATIONS, clients.namespace
                )
                unfinished = [
                    each["metadata"]["name"]
                    for each in listing.items
                    if each["spec"].get("virtualMachineName") == machines[0]
                    and phase_of(each) not in FINISHED
                ]
                if unfinished:
                    raise FaultImpossible(
                        f"{machines[0]} has operations that are not finished: "
                        f"{', '.join(unfinished)}"
                    )
                incident = await cause_incident(
                    context, MachineRestart(machines[0]), by=clients.nested.name
                )
            except EXPECTED_ERRORS as error:
                note_skipped(clients.nested, profile.name, error)
            else:
                returns.create_task(end_incident(incident), name=f"return of {incident.id}")
