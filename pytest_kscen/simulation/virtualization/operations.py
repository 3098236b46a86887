"""The controller of operations: one is Pending, then InProgress while its machine changes, and over for good.

An operation that comes while another on the same machine is not over takes its place, or fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.conditions import set_condition
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.virtualization import FINISHED, VIRTUAL_MACHINE_OPERATIONS, VIRTUAL_MACHINES
from pytest_kscen.simulation.virtualization.bodies import receiver
from pytest_kscen.simulation.virtualization.rules import KINDS, is_forced, refusal, supersedes
from pytest_kscen.simulation.virtualization.status import has_ended, holder_of, is_ending
from pytest_kscen.simulation.workloads.owners import controlled

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
        self._hypervisor = hypervisor
        self._chance = chance
        self._operations = bench.informers.of(VIRTUAL_MACHINE_OPERATIONS)
        self._by_machine = self._operations.index("machine", lambda operation: [_machine(operation)])
        self._vms = bench.informers.of(VIRTUAL_MACHINES)
        self._pods_of = controlled(bench.informers.of(PODS))
        self._controller = bench.controller(self._reconcile, self._operations, self._vms, bench.informers.of(PODS))
        self._pods_before: dict[str, list[str]] = {}
        """By operations that replace a machine's pod: the pods that there were when they began."""
        self._receivers: dict[str, str] = {}
        """By migrations: the pod that the guest shall move to."""

    async def run(self) -> Never:
        self._operations.on_change(self._operation_changed)
        self._vms.on_change(self._vm_changed)
        await self._controller.run()

    def _operation_changed(self, new: Obj | None, old: Obj | None) -> None:
        if new and not _is_over(new):
            self._controller.enqueue(Ref.of(new))
        elif operation := new or old:
            self._pods_before.pop(operation["metadata"]["uid"], None)
            self._receivers.pop(operation["metadata"]["uid"], None)

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
        older = [other for other in self._open_on(_machine(operation)) if _is_before(other, operation)]
        if blocking := next((other for other in older if not supersedes(operation, other)), None):
            words = f"{blocking['metadata']['name']} ({blocking['spec']['type']}) is not over yet."
            await self._fail(operation, "NotReadyToBeExecuted", words)
            return
        if why := refusal(operation, vm):
            await self._fail(operation, *why)
            return
        for other in older:
            await self._supersede(other, operation)
        if vm:
            await self._do(operation, vm)
            await self._write(operation, "InProgress", "False", KINDS[operation["spec"]["type"]].reason, "")

    async def _supersede(self, old: Obj, new: Obj) -> None:
        words = f"Superseded by {new['metadata']['name']} ({new['spec']['type']})."
        if receiving := self._receivers.get(old["metadata"]["uid"]):
            for pod in self._pods_of_machine(old):
                if pod["metadata"]["uid"] == receiving:
                    await self._delete(pod)
        await self._write(old, "Superseded", "True", "Superseded", words)

    async def _do(self, operation: Obj, vm: Obj) -> None:
        kind, uid = operation["spec"]["type"], operation["metadata"]["uid"]
        pods = self._pods_of.of(vm["metadata"]["uid"])
        if kind in ("Migrate", "Evict"):
            await self._migrate(operation, vm, pods)
            return
        self._pods_before[uid] = [pod["metadata"]["uid"] for pod in pods]
        self._hypervisor.switch(vm, on=kind != "Stop")
        if kind == "Start":
            return
        if is_forced(operation):
            self._hypervisor.unplug(Ref.of(vm))
        for pod in pods:
            if not is_ending(pod):
                await self._delete(pod)

    async def _migrate(self, operation: Obj, vm: Obj, pods: list[Obj]) -> None:
        source = holder_of(self._hypervisor.guest(Ref.of(vm)), pods)
        selector = (operation["spec"].get("migrate") or {}).get("nodeSelector") or {}
        node = source["spec"]["nodeName"] if source else ""
        pod = receiver(vm, self._chance.suffix(), other_than=node, selector=selector)
        made = await self._bench.api.create(PODS, pod, vm["metadata"]["namespace"])
        self._receivers[operation["metadata"]["uid"]] = made["metadata"]["uid"]

    async def _look(self, operation: Obj, vm: Obj) -> None:
        """Whether what was begun is done."""
        uid, phase = operation["metadata"]["uid"], (vm.get("status") or {}).get("phase")
        pods = self._pods_of.of(vm["metadata"]["uid"])
        holder = self._hypervisor.guest(Ref.of(vm)).holder
        kind = operation["spec"]["type"]
        if kind in ("Migrate", "Evict"):
            target = self._receivers.get(uid)
            if holder == target and phase == "Running":
                await self._complete(operation)
            elif not any(pod["metadata"]["uid"] == target and not has_ended(pod) and not is_ending(pod) for pod in pods):
                await self._fail(operation, "OperationFailed", "The guest has not moved: one of its two pods has ended.")
        elif kind == "Stop":
            if phase == "Stopped":
                await self._complete(operation)
        elif phase == "Running" and holder not in self._pods_before.get(uid, ()):
            await self._complete(operation)

    # --- writing ---

    def _pods_of_machine(self, operation: Obj) -> list[Obj]:
        vm = self._vms.objects.get(_machine(operation))
        return self._pods_of.of(vm["metadata"]["uid"]) if vm else []

    async def _delete(self, pod: Obj) -> None:
        metadata = pod["metadata"]
        try:
            await self._bench.api.delete(PODS, metadata["name"], metadata["namespace"], precondition_uid=metadata["uid"])
        except NotFound:
            return

    async def _complete(self, operation: Obj) -> None:
        self._bench.recorder.normal(operation, "VirtualMachineOperationSucceeded", "VirtualMachineOperation succeeded")
        await self._write(operation, "Completed", "True", "OperationCompleted", "")

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
