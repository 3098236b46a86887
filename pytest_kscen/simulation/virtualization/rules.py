"""What operations may be done to which machine, and which of two operations on one machine gives way: tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.simulation.virtualization.status import DEFAULT_POLICY, policy_of

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

WORKS = ("Running", "Degraded", "Starting", "Pause")


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of operation: what it is called while it is done, and of which machines it may be asked."""

    reason: str
    phases: tuple[str, ...]
    policies: tuple[str, ...]


KINDS = {
    "Start": Kind("StartInProgress", ("Stopped", "Stopping"), ("Manual", DEFAULT_POLICY)),
    "Stop": Kind("StopInProgress", (*WORKS, "Pending", "Migrating"), ("Manual", DEFAULT_POLICY)),
    "Restart": Kind("RestartInProgress", WORKS, ("Manual", DEFAULT_POLICY, "AlwaysOn")),
    "Migrate": Kind("MigrationRunning", ("Running",), ("Manual", DEFAULT_POLICY, "AlwaysOn")),
    "Evict": Kind("MigrationRunning", ("Running",), ("Manual", DEFAULT_POLICY, "AlwaysOn")),
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
    """Whether the newer operation takes the older one's place; if not, it fails."""
    kind, older = new["spec"]["type"], old["spec"]["type"]
    if kind == older == "Stop":
        return is_forced(new) and not is_forced(old)
    return kind in SUPERSEDED_BY.get(older, ())


def refusal(operation: Obj, vm: Obj | None, *, takes_over: bool = False) -> tuple[str, str] | None:
    """Why this cannot be done to this machine: a reason and a message. It may take over from another that was begun."""
    name = operation["spec"]["type"]
    if vm is None:
        return "VirtualMachineNotFound", f"There is no VirtualMachine {operation['spec']['virtualMachineName']}."
    kind = KINDS.get(name)
    if kind is None:
        return "OperationFailed", f"{name} needs snapshots, and simulated machines have none."
    if policy_of(vm) not in kind.policies:
        return "NotApplicableForRunPolicy", f"{name} is not for a virtual machine with the run policy {policy_of(vm)}."
    phase = (vm.get("status") or {}).get("phase", "Pending")
    stops_what_is_stopping = name == "Stop" and phase == "Stopping" and (is_forced(operation) or takes_over)
    if phase not in kind.phases and not stops_what_is_stopping:
        return "NotApplicableForVMPhase", f"{name} is not for a virtual machine that is {phase}."
    return None
