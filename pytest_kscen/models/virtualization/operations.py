"""Controller of operations: Pending, then InProgress while the machine changes, then finished.

An operation that is created before another one of the same machine has finished supersedes it, or
fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler
from pytest_kscen.embedded.controllers.ownership import controller_index
from pytest_kscen.embedded.controllers.pod_control import PodControl
from pytest_kscen.kube.cache import Ref
from pytest_kscen.models.virtualization.machines import (
    DEFAULT_POLICY,
    active_pod,
    has_ended,
    is_ending,
    policy_of,
)
from pytest_kscen.models.virtualization.objects import receiver
from pytest_kscen.objects.conditions import set_condition
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.virtualization import (
    FINISHED,
    VIRTUAL_MACHINE_OPERATIONS,
    VIRTUAL_MACHINES,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Never

    from pytest_kscen.chance import Stream
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.models.virtualization.hypervisor import Hypervisor
    from pytest_kscen.objects.resources import Obj


ACTIVE_PHASES = ("Running", "Degraded", "Starting", "Pause")


@dataclass(frozen=True, slots=True)
class OperationRule:
    """Rule for one type of operation: its reason while in progress, and the phases and run policies
    of machines for which it is allowed.
    """

    reason: str
    phases: tuple[str, ...]
    policies: tuple[str, ...]


OPERATION_RULES = {
    "Start": OperationRule("StartInProgress", ("Stopped", "Stopping"), ("Manual", DEFAULT_POLICY)),
    "Stop": OperationRule(
        "StopInProgress", (*ACTIVE_PHASES, "Pending", "Migrating"), ("Manual", DEFAULT_POLICY)
    ),
    "Restart": OperationRule(
        "RestartInProgress", ACTIVE_PHASES, ("Manual", DEFAULT_POLICY, "AlwaysOn")
    ),
    "Migrate": OperationRule(
        "MigrationRunning", ("Running",), ("Manual", DEFAULT_POLICY, "AlwaysOn")
    ),
    "Evict": OperationRule(
        "MigrationRunning", ("Running",), ("Manual", DEFAULT_POLICY, "AlwaysOn")
    ),
}
SUPERSEDED_BY = {
    "Start": ("Stop", "Restart"),
    "Restart": ("Stop",),
    "Migrate": ("Stop",),
    "Evict": ("Stop",),
}


def is_forced(operation: Obj) -> bool:
    return bool(operation["spec"].get("force"))


def supersedes(new: Obj, old: Obj) -> bool:
    """Return True if a newer operation replaces an unfinished older one; otherwise the newer one
    fails.
    """
    kind, older = new["spec"]["type"], old["spec"]["type"]
    if kind == older == "Stop":
        return is_forced(new) and not is_forced(old)
    return kind in SUPERSEDED_BY.get(older, ())


def operation_refusal(
    operation: Obj, vm: Obj | None, *, takes_over: bool = False
) -> tuple[str, str] | None:
    """Return reason and message if the operation is not allowed for this machine now.

    `takes_over` is True if it supersedes an operation that has begun.
    """
    name = operation["spec"]["type"]
    if vm is None:
        return (
            "VirtualMachineNotFound",
            f"There is no VirtualMachine {operation['spec']['virtualMachineName']}.",
        )
    kind = OPERATION_RULES.get(name)
    if kind is None:
        return "OperationFailed", f"{name} needs snapshots, and simulated machines have none."
    if policy_of(vm) not in kind.policies:
        return (
            "NotApplicableForRunPolicy",
            f"{name} is not for a virtual machine with the run policy {policy_of(vm)}.",
        )
    phase = (vm.get("status") or {}).get("phase", "Pending")
    repeats_stop = name == "Stop" and phase == "Stopping" and (is_forced(operation) or takes_over)
    if phase not in kind.phases and not repeats_stop:
        return "NotApplicableForVMPhase", f"{name} is not for a virtual machine that is {phase}."
    return None


MIGRATIONS = ("Migrate", "Evict")


class OperationActions:
    """Actions of operations on their machines, and the memory that unfinished ones need."""

    def __init__(self, context: ControllerContext, hypervisor: Hypervisor, chance: Stream) -> None:
        self._hypervisor = hypervisor
        self._chance = chance
        self._pod_control = PodControl(context)
        self._pods_of = controller_index(context.informers.of(PODS))
        self._replaced: dict[str, list[str]] = {}
        """Pods that the machine had before, by operation."""
        self._receivers: dict[str, str] = {}
        """Pod that the guest shall move to, by operation."""

    async def begin(self, operation: Obj, vm: Obj) -> None:
        """Execute the operation, once: the write of its status may have to be repeated."""
        uid = operation["metadata"]["uid"]
        if uid in self._replaced or uid in self._receivers:
            return
        kind, pods = operation["spec"]["type"], self._pods_of.of(vm["metadata"]["uid"])
        if kind in MIGRATIONS:
            source = active_pod(self._hypervisor.guest(Ref.of(vm)), pods)
            selector = (operation["spec"].get("migrate") or {}).get("nodeSelector") or {}
            node = source["spec"]["nodeName"] if source else ""
            made = await self._pod_control.create(
                vm, receiver(vm, self._chance.suffix(), other_than=node, selector=selector)
            )
            self._receivers[operation["metadata"]["uid"]] = made["metadata"]["uid"]
            return
        self._hypervisor.set_switch(vm, on=kind != "Stop")
        if is_forced(operation):
            self._hypervisor.cut_power(Ref.of(vm))
        for pod in pods:
            if kind != "Start" and not is_ending(pod):
                await self._pod_control.delete(vm, pod)
        self._replaced[uid] = [pod["metadata"]["uid"] for pod in pods]

    async def undo(self, operation: Obj, vm: Obj) -> None:
        """Delete the target pod of a superseded migration, so that it does not wait for a guest
        forever.
        """
        for pod in self._pods_of.of(vm["metadata"]["uid"]):
            if pod["metadata"]["uid"] == self._receivers.get(operation["metadata"]["uid"]):
                await self._pod_control.delete(vm, pod)

    def is_done(self, operation: Obj, vm: Obj) -> bool:
        kind, uid = operation["spec"]["type"], operation["metadata"]["uid"]
        phase = (vm.get("status") or {}).get("phase")
        if kind == "Stop":
            return bool(phase == "Stopped")
        holder = self._hypervisor.guest(Ref.of(vm)).holder
        if kind in MIGRATIONS:
            return bool(phase == "Running" and holder == self._receivers.get(uid))
        return bool(phase == "Running" and holder not in self._replaced.get(uid, ()))

    def failure(self, operation: Obj, vm: Obj) -> str:
        """Return the reason for which the operation can never complete, or an empty string."""
        if operation["spec"]["type"] not in MIGRATIONS:
            return ""
        target = self._receivers.get(operation["metadata"]["uid"])
        pods = [
            pod
            for pod in self._pods_of.of(vm["metadata"]["uid"])
            if pod["metadata"]["uid"] == target
        ]
        is_running = any(not has_ended(pod) and not is_ending(pod) for pod in pods)
        return "" if is_running else "The guest has not moved: one of its two pods has ended."

    def forget(self, operation: Obj) -> None:
        self._replaced.pop(operation["metadata"]["uid"], None)
        self._receivers.pop(operation["metadata"]["uid"], None)


class VirtualMachineOperations(Reconciler):
    """Controller of VirtualMachineOperations. It never repeats an action: an operation in progress
    is only observed until it is done or has failed.
    """

    def __init__(self, context: ControllerContext, hypervisor: Hypervisor, chance: Stream) -> None:
        self._actions = OperationActions(context, hypervisor, chance)
        self._operations = context.informers.of(VIRTUAL_MACHINE_OPERATIONS)
        self._by_machine = self._operations.index(
            "machine", lambda operation: [_machine(operation)]
        )
        self._vms = context.informers.of(VIRTUAL_MACHINES)
        super().__init__(context, self._operations, self._vms, context.informers.of(PODS))

    async def run(self) -> Never:
        def operation_changed(new: Obj | None, old: Obj | None) -> None:
            if new and not _is_finished(new):
                self._controller.enqueue(Ref.of(new))
            elif operation := new or old:
                self._actions.forget(operation)

        self._operations.on_change(operation_changed)

        def vm_changed(new: Obj | None, old: Obj | None) -> None:
            if vm := new or old:
                for operation in self._unfinished_on(Ref.of(vm)):
                    self._controller.enqueue(Ref.of(operation))

        self._vms.on_change(vm_changed)
        await self._controller.run()

    def _unfinished_on(self, machine: Ref) -> Iterator[Obj]:
        return (
            operation for operation in self._by_machine.of(machine) if not _is_finished(operation)
        )

    async def _reconcile(self, ref: Ref) -> None:
        operation = self._operations.objects.get(ref)
        if (
            operation is None
            or _is_finished(operation)
            or operation["metadata"].get("deletionTimestamp")
        ):
            return
        phase = (operation.get("status") or {}).get("phase", "")
        vm = self._vms.objects.get(_machine(operation))
        if not phase:
            await self._write(operation, "Pending", "Unknown", "Pending", "")
        elif phase == "Pending":
            await self._begin(operation, vm)
        elif vm is None:
            await self._fail(
                operation, "VirtualMachineNotFound", "The virtual machine was deleted."
            )
        elif reason := self._actions.failure(operation, vm):
            await self._fail(operation, "OperationFailed", reason)
        elif self._actions.is_done(operation, vm):
            self._context.recorder.normal(
                operation, "VirtualMachineOperationSucceeded", "VirtualMachineOperation succeeded"
            )
            await self._write(operation, "Completed", "True", "OperationCompleted", "")

    async def _begin(self, operation: Obj, vm: Obj | None) -> None:
        await self._context.api.wait_until_visible()  # includes the operations that have just begun
        older = [
            other
            for other in self._unfinished_on(_machine(operation))
            if other["metadata"]["uid"] != operation["metadata"]["uid"]
            and (
                (other.get("status") or {}).get("phase") == "InProgress"
                or _age(other) < _age(operation)
            )
        ]
        if blocking := next((other for other in older if not supersedes(operation, other)), None):
            message = (
                f"{blocking['metadata']['name']} ({blocking['spec']['type']}) is not over yet."
            )
            await self._fail(operation, "NotReadyToBeExecuted", message)
            return
        if why := operation_refusal(operation, vm, takes_over=bool(older)):
            await self._fail(operation, *why)
            return
        if vm is None:
            return  # refused above
        for other in older:
            await self._actions.undo(other, vm)
            message = (
                f"Superseded by {operation['metadata']['name']} ({operation['spec']['type']})."
            )
            await self._write(other, "Superseded", "True", "Superseded", message)
        await self._actions.begin(operation, vm)
        await self._write(
            operation, "InProgress", "False", OPERATION_RULES[operation["spec"]["type"]].reason, ""
        )

    async def _fail(self, operation: Obj, reason: str, message: str) -> None:
        self._context.recorder.warning(operation, "VirtualMachineOperationFailed", message)
        await self._write(operation, "Failed", "False", reason, message)

    async def _write(
        self, operation: Obj, phase: str, completed: str, reason: str, message: str
    ) -> None:
        old, now = operation.get("status") or {}, self._context.timestamp()
        condition = {"type": "Completed", "status": completed, "reason": reason, "message": message}
        conditions = set_condition(old.get("conditions"), condition, now)
        if phase == "InProgress":
            sent = {
                "type": "SignalSent",
                "status": "True",
                "reason": "SignalSentSuccess",
                "message": "",
            }
            conditions = set_condition(conditions, sent, now)
        generation = operation["metadata"].get("generation", 1)
        status = {**old, "phase": phase, "conditions": conditions, "observedGeneration": generation}
        await self._context.write_status(VIRTUAL_MACHINE_OPERATIONS, operation, status)


def _machine(operation: Obj) -> Ref:
    return Ref(operation["metadata"]["namespace"], operation["spec"]["virtualMachineName"])


def _is_finished(operation: Obj) -> bool:
    return (operation.get("status") or {}).get("phase") in FINISHED


def _age(operation: Obj) -> tuple[str, str]:
    return operation["metadata"]["creationTimestamp"], operation["metadata"]["name"]
