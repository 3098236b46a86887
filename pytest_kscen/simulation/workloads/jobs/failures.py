"""What the failure of a pod means for its job: whether it failed at all, when, and what the pod failure policy says. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.conditions import condition
from pytest_kscen.simulation.workloads.podstate import phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

FAIL_JOB, FAIL_INDEX, IGNORE, COUNT = "FailJob", "FailIndex", "Ignore", "Count"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the policy decides about one pod."""

    action: str = COUNT
    message: str = ""

    @property
    def counts(self) -> bool:
        return self.action != IGNORE


def replaces_failed_only(job: Obj) -> bool:
    """Whether a pod that is being deleted is not yet gone: it is replaced when it has ended."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def has_failed(pod: Obj, job: Obj) -> bool:
    """A pod that is being deleted counts as failed, for it may never get to say so."""
    if phase(pod) == "Failed":
        return True
    return not replaces_failed_only(job) and bool(pod["metadata"].get("deletionTimestamp")) and phase(pod) != "Succeeded"


def ruling(job: Obj, pod: Obj) -> Ruling:
    """The first rule that matches a failed pod."""
    for place, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        if message := _matches(rule, pod):
            return Ruling(rule["action"], f"{message} matching {rule['action']} rule at index {place}")
    return Ruling()


def _matches(rule: Obj, pod: Obj) -> str:
    name = f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"
    if codes := rule.get("onExitCodes"):
        for container, code in _exit_codes(pod, codes.get("containerName")):
            if code and (code in codes["values"]) is (codes["operator"] == "In"):
                return f"Container {container} for pod {name} failed with exit code {code}"
    for pattern in rule.get("onPodConditions") or ():
        found = condition(pod, pattern["type"])
        if found and found["status"] == pattern.get("status", "True"):
            return f"Pod {name} has condition {pattern['type']}"
    return ""


def _exit_codes(pod: Obj, container: str | None) -> Iterable[tuple[str, int]]:
    for status in _container_statuses(pod):
        terminated = (status.get("state") or {}).get("terminated")
        if terminated and container in {None, status["name"]}:
            yield status["name"], terminated.get("exitCode", 0)


def _container_statuses(pod: Obj) -> list[Obj]:
    status = pod.get("status") or {}
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def finished_at(pod: Obj) -> float:
    """When its last container ended; if nobody knows, when it became unready, was deleted, or was made."""
    states = [
        (status.get("state") or {}).get("terminated") or {} for status in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    if states and all(state.get("finishedAt") for state in states):
        return max(epoch_of(state["finishedAt"]) for state in states)
    metadata, ready = pod["metadata"], condition(pod, "Ready")
    if ready and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return epoch_of(ready["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        return epoch_of(metadata["deletionTimestamp"]) - (metadata.get("deletionGracePeriodSeconds") or 0)
    return epoch_of(metadata["creationTimestamp"])


def container_restarts(pods: Iterable[Obj]) -> int:
    """How often containers were restarted in place, over all these pods."""
    return sum(
        status.get("restartCount", 0) for pod in pods if phase(pod) in {"Pending", "Running"} for status in _container_statuses(pod)
    )
