"""What a virtual machine says of itself: pure functions from its spec, its pods and its guest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import set_condition
from pytest_kscen.simulation.virtualization.bodies import RECEIVES
from pytest_kscen.simulation.virtualization.hypervisor import OFF, RUNS, UP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.virtualization.hypervisor import Guest

DEFAULT_POLICY = "AlwaysOnUnlessStoppedManually"
WANTED_ON = {"AlwaysOn": True, "AlwaysOff": False, "Manual": False, DEFAULT_POLICY: True}
HEEDS_SWITCH = ("Manual", DEFAULT_POLICY)
KEPT_TRANSITIONS = 5
GUEST_OS = {
    "id": "kscen",
    "name": "pytest-kscen",
    "prettyName": "pytest-kscen",
    "kernelRelease": "6.12.0-kscen",
    "machine": "x86_64",
}


def policy_of(vm: Obj) -> str:
    return str(vm["spec"].get("runPolicy", DEFAULT_POLICY))


def wanted_on(vm: Obj, *, switched: bool | None) -> bool:
    """Whether the machine shall run, by its policy and by what was done by hand."""
    policy = policy_of(vm)
    return switched if switched is not None and policy in HEEDS_SWITCH else WANTED_ON[policy]


def is_ending(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def has_ended(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def receives(pod: Obj) -> bool:
    return RECEIVES in (pod["metadata"].get("annotations") or {})


def holder_of(guest: Guest, pods: Sequence[Obj]) -> Obj | None:
    return next((pod for pod in pods if pod["metadata"]["uid"] == guest.holder), None)


def phase_of(vm: Obj, pods: Sequence[Obj], guest: Guest, *, wanted: bool) -> str:
    holder = holder_of(guest, pods)
    living = [pod for pod in pods if not is_ending(pod) and not has_ended(pod)]
    if vm["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if not pods:
        return "Pending" if wanted else "Stopped"
    if (holder and (is_ending(holder) or guest.state == OFF)) or not living:
        return "Stopping"
    if holder and guest.state in RUNS:
        return "Migrating" if any(pod is not holder and receives(pod) for pod in living) else "Running"
    return "Starting" if any(pod["spec"].get("nodeName") for pod in living) else "Pending"


def status_of(vm: Obj, pods: Sequence[Obj], guest: Guest, *, wanted: bool, address: str, now: str) -> Obj:
    """The whole status; what does not change keeps its times."""
    old = vm.get("status") or {}
    holder = holder_of(guest, pods)
    phase = phase_of(vm, pods, guest, wanted=wanted)
    runs = holder is not None and guest.state in RUNS
    status = {
        **{key: value for key, value in old.items() if key not in ("nodeName", "guestOSInfo")},
        "phase": phase,
        "observedGeneration": vm["metadata"].get("generation", 1),
        "ipAddress": address or (holder or {}).get("status", {}).get("podIP") or old.get("ipAddress", ""),
        "virtualMachinePods": [{"name": pod["metadata"]["name"], "active": pod is holder} for pod in pods],
        "resources": {"cpu": {"cores": vm["spec"]["cpu"]["cores"]}, "memory": {"size": vm["spec"]["memory"]["size"]}},
        "conditions": _conditions(old.get("conditions"), phase, guest, runs=runs, now=now),
        "stats": _stats(old.get("stats") or {}, phase, now),
    }
    if holder and guest.state != OFF:
        status["nodeName"] = holder["spec"]["nodeName"]
    if runs and guest.state == UP:
        status["guestOSInfo"] = {**GUEST_OS, "hostname": vm["metadata"]["name"]}
    return status


def _conditions(old: list[Obj] | None, phase: str, guest: Guest, *, runs: bool, now: str) -> list[Obj]:
    is_up = runs and guest.state == UP
    conditions = old
    for type_, holds, reason, why in (
        ("Running", runs, "Running" if runs else "NotRunning", "" if runs else f"The virtual machine is {phase}."),
        ("AgentReady", is_up, "AgentReady" if is_up else "AgentNotReady", "" if is_up else "The guest's agent does not answer."),
        ("Migratable", is_up, "Migratable" if is_up else "NotMigratable", "" if is_up else "The guest is not up."),
    ):
        condition = {"type": type_, "status": "True" if holds else "False", "reason": reason, "message": why}
        conditions = set_condition(conditions, condition, now)
    return conditions or []


def _stats(old: Obj, phase: str, now: str) -> Obj:
    transitions = old.get("phasesTransitions") or []
    if transitions and transitions[-1]["phase"] == phase:
        return old
    stats = {**old, "phasesTransitions": [*transitions, {"phase": phase, "timestamp": now}][-KEPT_TRANSITIONS:]}
    return {**stats, "lastStartTime": now} if phase == "Running" and _has_started(transitions) else stats


def _has_started(transitions: list[Obj]) -> bool:
    """Whether Running is a start, and not the end of a migration."""
    return not transitions or transitions[-1]["phase"] != "Migrating"
