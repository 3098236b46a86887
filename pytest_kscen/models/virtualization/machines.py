"""Controller of virtual machines: each machine that shall run has a launcher pod, and reports its
state.

A pod that ends, for whatever reason, is replaced while the machine shall run. The status is
computed by pure functions from the spec, the pods and the guest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler, follow
from pytest_kscen.embedded.controllers.ownership import controller_index, controller_of
from pytest_kscen.embedded.controllers.pod_control import PodControl
from pytest_kscen.kube.cache import Ref
from pytest_kscen.models.virtualization.hypervisor import OFF, RUNNING_STATES, UP
from pytest_kscen.models.virtualization.objects import RECEIVER_ANNOTATION, launcher
from pytest_kscen.objects.conditions import set_condition
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Never

    from pytest_kscen.chance import Stream
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.models.virtualization.hypervisor import Guest, Hypervisor
    from pytest_kscen.objects.resources import Obj


DEFAULT_POLICY = "AlwaysOnUnlessStoppedManually"
RUNS_BY_DEFAULT = {"AlwaysOn": True, "AlwaysOff": False, "Manual": False, DEFAULT_POLICY: True}
MANUAL_POLICIES = ("Manual", DEFAULT_POLICY)
MAX_TRANSITIONS = 5
GUEST_OS = {
    "id": "kscen",
    "name": "pytest-kscen",
    "prettyName": "pytest-kscen",
    "kernelRelease": "6.12.0-kscen",
    "machine": "x86_64",
}


def policy_of(vm: Obj) -> str:
    return str(vm["spec"].get("runPolicy", DEFAULT_POLICY))


def should_run(vm: Obj, *, switched: bool | None) -> bool:
    """Return True if the machine has to run, by its run policy and by manual operations."""
    policy = policy_of(vm)
    return (
        switched if switched is not None and policy in MANUAL_POLICIES else RUNS_BY_DEFAULT[policy]
    )


def is_ending(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def has_ended(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def receives(pod: Obj) -> bool:
    return RECEIVER_ANNOTATION in (pod["metadata"].get("annotations") or {})


def active_pod(guest: Guest, pods: Sequence[Obj]) -> Obj | None:
    return next((pod for pod in pods if pod["metadata"]["uid"] == guest.holder), None)


def phase_of(vm: Obj, pods: Sequence[Obj], guest: Guest, *, wanted: bool) -> str:
    holder = active_pod(guest, pods)
    living = [pod for pod in pods if not is_ending(pod) and not has_ended(pod)]
    if vm["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if not pods:
        return "Pending" if wanted else "Stopped"
    if (holder and (is_ending(holder) or guest.state == OFF)) or not living:
        return "Stopping"
    if holder and guest.state in RUNNING_STATES:
        return (
            "Migrating" if any(pod is not holder and receives(pod) for pod in living) else "Running"
        )
    return "Starting" if any(pod["spec"].get("nodeName") for pod in living) else "Pending"


def status_of(
    vm: Obj, pods: Sequence[Obj], guest: Guest, *, wanted: bool, address: str, now: str
) -> Obj:
    """Return the whole status. Conditions and phases that do not change keep their times."""
    old = vm.get("status") or {}
    holder = active_pod(guest, pods)
    phase = phase_of(vm, pods, guest, wanted=wanted)
    is_running = holder is not None and guest.state in RUNNING_STATES
    stats = old.get("stats") or {}
    transitions = stats.get("phasesTransitions") or []
    last = transitions[-1]["phase"] if transitions else ""
    if last != phase:
        added = [*transitions, {"phase": phase, "timestamp": now}]
        stats = {**stats, "phasesTransitions": added[-MAX_TRANSITIONS:]}
        if phase == "Running" and last != "Migrating":  # running after a migration is no start
            stats["lastStartTime"] = now
    status = {
        **{key: value for key, value in old.items() if key not in ("nodeName", "guestOSInfo")},
        "phase": phase,
        "observedGeneration": vm["metadata"].get("generation", 1),
        "ipAddress": address
        or (holder or {}).get("status", {}).get("podIP")
        or old.get("ipAddress", ""),
        "virtualMachinePods": [
            {"name": pod["metadata"]["name"], "active": pod is holder} for pod in pods
        ],
        "resources": {
            "cpu": {"cores": vm["spec"]["cpu"]["cores"]},
            "memory": {"size": vm["spec"]["memory"]["size"]},
        },
        "conditions": _conditions(
            old.get("conditions"), phase, guest, is_running=is_running, now=now
        ),
        "stats": stats,
    }
    if holder and guest.state != OFF:
        status["nodeName"] = holder["spec"]["nodeName"]
    if is_running and guest.state == UP:
        status["guestOSInfo"] = {**GUEST_OS, "hostname": vm["metadata"]["name"]}
    return status


def _conditions(
    old: list[Obj] | None, phase: str, guest: Guest, *, is_running: bool, now: str
) -> list[Obj]:
    is_up = is_running and guest.state == UP
    conditions = old
    for type_, holds, reason, why in (
        (
            "Running",
            is_running,
            "Running" if is_running else "NotRunning",
            "" if is_running else f"The virtual machine is {phase}.",
        ),
        (
            "AgentReady",
            is_up,
            "AgentReady" if is_up else "AgentNotReady",
            "" if is_up else "The guest's agent does not answer.",
        ),
        (
            "Migratable",
            is_up,
            "Migratable" if is_up else "NotMigratable",
            "" if is_up else "The guest is not up.",
        ),
    ):
        condition = {
            "type": type_,
            "status": "True" if holds else "False",
            "reason": reason,
            "message": why,
        }
        conditions = set_condition(conditions, condition, now)
    return conditions or []


FINALIZER = "virtualization.deckhouse.io/vm-cleanup"


class VirtualMachines(Reconciler):
    """Controller of VirtualMachines. It creates and deletes launcher pods, and holds each machine
    by a finalizer until its last pod is gone.
    """

    def __init__(self, context: ControllerContext, hypervisor: Hypervisor, chance: Stream) -> None:
        self._hypervisor = hypervisor
        self._chance = chance
        self._pod_control = PodControl(context)
        self._vms = context.informers.of(VIRTUAL_MACHINES)
        self._pods = context.informers.of(PODS)
        self._pods_of = controller_index(self._pods)
        super().__init__(context, self._vms, self._pods)

    async def run(self) -> Never:
        follow(self._controller, self._vms)

        def pod_changed(new: Obj | None, old: Obj | None) -> None:
            pod = new or old
            owner = controller_of(pod)
            if pod and owner and owner["kind"] == VIRTUAL_MACHINES.kind:
                self._controller.enqueue(Ref(pod["metadata"]["namespace"], owner["name"]))

        self._pods.on_change(pod_changed)
        self._hypervisor.on_change(self._controller.enqueue)
        await self._controller.run()

    async def _reconcile(self, ref: Ref) -> None:
        vm = self._vms.objects.get(ref)
        if vm is None:
            return
        pods = self._pods_of.of(vm["metadata"]["uid"])
        if vm["metadata"].get("deletionTimestamp") and not pods:
            self._hypervisor.forget(vm)
            finalizers = [one for one in vm["metadata"].get("finalizers") or () if one != FINALIZER]
            await self._context.api.update(
                VIRTUAL_MACHINES, {**vm, "metadata": {**vm["metadata"], "finalizers": finalizers}}
            )
            return
        if FINALIZER not in (vm["metadata"].get("finalizers") or ()):
            metadata = {
                **vm["metadata"],
                "finalizers": [*(vm["metadata"].get("finalizers") or ()), FINALIZER],
            }
            vm = await self._context.api.update(VIRTUAL_MACHINES, {**vm, "metadata": metadata})
        wanted = should_run(vm, switched=self._hypervisor.switched(vm)) and not vm["metadata"].get(
            "deletionTimestamp"
        )
        for pod in pods:
            if not is_ending(pod) and (not wanted or has_ended(pod)):
                await self._pod_control.delete(vm, pod)
        if wanted and not pods:
            await self._pod_control.create(vm, launcher(vm, self._chance.suffix()))
        machine = self._hypervisor.machine(ref)
        status = status_of(
            vm,
            pods,
            self._hypervisor.guest(ref),
            wanted=wanted,
            address=machine.address if machine else "",
            now=self._context.timestamp(),
        )
        if status != vm.get("status"):
            await self._context.write_status(VIRTUAL_MACHINES, vm, status)
