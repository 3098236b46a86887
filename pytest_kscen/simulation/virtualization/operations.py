"""The controller of operations: one is Pending, then InProgress while its machine changes, and over for good.

An operation that comes while another on the same machine is not over takes its place, or fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.conditions import set_condition
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.virtualization import FINISHED, VIRTUAL_MACHINE_OPERATIONS, VIRTUAL_MACHINES
from pytest_kscen.simulation.virtualization.deeds import Deeds
from pytest_kscen.simulation.virtualization.rules import KINDS, refusal, supersedes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Never

    from pytest_kscen.chance import Stream
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.virtualization.hypervisor import Hypervisor


class VirtualMachineOperations:
    """The controller."""

    def __init__(self, bench: Bench, hypervisor: Hypervisor, chance: Stream) -> None:
        self._bench = bench
        self._deeds = Deeds(bench, hypervisor, chance)
        self._operations = bench.informers.of(VIRTUAL_MACHINE_OPERATIONS)
        self._by_machine = self._operations.index("machine", lambda operation: [_machine(operation)])
        self._vms = bench.informers.of(VIRTUAL_MACHINES)
        self._controller = bench.controller(self._reconcile, self._operations, self._vms, bench.informers.of(PODS))

    async def run(self) -> Never:
        self._operations.on_change(self._operation_changed)
        self._vms.on_change(self._vm_changed)
        await self._controller.run()

    def _operation_changed(self, new: Obj | None, old: Obj | None) -> None:
        if new and not _is_over(new):
            self._controller.enqueue(Ref.of(new))
        elif operation := new or old:
            self._deeds.forget(operation)

    def _vm_changed(self, new: Obj | None, old: Obj | None) -> None:
        if vm := new or old:
            for operation in self._open_on(Ref.of(vm)):
                self._controller.enqueue(Ref.of(operation))

    def _open_on(self, machine: Ref) -> Iterator[Obj]:
        return (operation for operation in self._by_machine.of(machine) if not _is_over(operation))

    # --- one step ---

    async def _reconcile(self, ref: Ref) -> None:
        operation = self._operations.objects.get(ref)
        if operation is None or _is_over(operation) or operation["metadata"].get("deletionTimestamp"):
            return
        phase = (operation.get("status") or {}).get("phase", "")
        vm = self._vms.objects.get(_machine(operation))
        if not phase:
            await self._write(operation, "Pending", "Unknown", "Pending", "")
        elif phase == "Pending":
            await self._begin(operation, vm)
        elif vm is None:
            await self._fail(operation, "VirtualMachineNotFound", "The virtual machine was deleted.")
        else:
            await self._look(operation, vm)

    async def _begin(self, operation: Obj, vm: Obj | None) -> None:
        await self._bench.api.caught_up()  # what was begun a moment ago stands in the way
        older = [other for other in self._open_on(_machine(operation)) if _is_before(other, operation)]
        if blocking := next((other for other in older if not supersedes(operation, other)), None):
            words = f"{blocking['metadata']['name']} ({blocking['spec']['type']}) is not over yet."
            await self._fail(operation, "NotReadyToBeExecuted", words)
            return
        if why := refusal(operation, vm, takes_over=bool(older)):
            await self._fail(operation, *why)
            return
        if vm is None:
            return  # which was refused
        for other in older:
            await self._deeds.undo(other, vm)
            words = f"Superseded by {operation['metadata']['name']} ({operation['spec']['type']})."
            await self._write(other, "Superseded", "True", "Superseded", words)
        await self._deeds.begin(operation, vm)
        await self._write(operation, "InProgress", "False", KINDS[operation["spec"]["type"]].reason, "")

    async def _look(self, operation: Obj, vm: Obj) -> None:
        """Whether what was begun is done."""
        if why := self._deeds.failure(operation, vm):
            await self._fail(operation, "OperationFailed", why)
        elif self._deeds.is_done(operation, vm):
            self._bench.recorder.normal(operation, "VirtualMachineOperationSucceeded", "VirtualMachineOperation succeeded")
            await self._write(operation, "Completed", "True", "OperationCompleted", "")

    # --- writing ---

    async def _fail(self, operation: Obj, reason: str, message: str) -> None:
        self._bench.recorder.warning(operation, "VirtualMachineOperationFailed", message)
        await self._write(operation, "Failed", "False", reason, message)

    async def _write(self, operation: Obj, phase: str, completed: str, reason: str, message: str) -> None:
        old, now = operation.get("status") or {}, self._bench.timestamp()
        condition = {"type": "Completed", "status": completed, "reason": reason, "message": message}
        conditions = set_condition(old.get("conditions"), condition, now)
        if phase == "InProgress":
            sent = {"type": "SignalSent", "status": "True", "reason": "SignalSentSuccess", "message": ""}
            conditions = set_condition(conditions, sent, now)
        generation = operation["metadata"].get("generation", 1)
        status = {**old, "phase": phase, "conditions": conditions, "observedGeneration": generation}
        await self._bench.write_status(VIRTUAL_MACHINE_OPERATIONS, operation, status)


def _machine(operation: Obj) -> Ref:
    return Ref(operation["metadata"]["namespace"], operation["spec"]["virtualMachineName"])


def _is_over(operation: Obj) -> bool:
    return (operation.get("status") or {}).get("phase") in FINISHED


def _is_before(other: Obj, operation: Obj) -> bool:
    """Whether the other one was first; what has begun was, and of those that were made in one second the one that sorts first."""
    if other["metadata"]["uid"] == operation["metadata"]["uid"]:
        return False
    return (other.get("status") or {}).get("phase") == "InProgress" or _age(other) < _age(operation)


def _age(operation: Obj) -> tuple[str, str]:
    return operation["metadata"]["creationTimestamp"], operation["metadata"]["name"]
