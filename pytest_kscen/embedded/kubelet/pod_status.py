"""Compute a pod's status from its containers: phase, conditions and container statuses.

Pure functions with the rules and words of the real kubelet, called by the pod's worker for each
status write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.kubelet.container_status import ContainerRecord
    from pytest_kscen.objects.resources import Obj

KUBELET_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
NOT_SIMULATED = "NotSimulated"
TERMINAL = ("Succeeded", "Failed")
LOST_CONTAINER = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
}


class PodFailureReason(NamedTuple):
    reason: str
    message: str


@dataclass(slots=True)
class PodFacts:
    """Facts from which a pod's status is computed; the pod's worker keeps them up to date."""

    records: list[ContainerRecord]
    host_ip: str
    start_time: str
    pod_ip: str = ""
    has_sandbox: bool = False
    over: bool = False
    """True when no container of the pod will run again."""
    failure: PodFailureReason | None = None


class _ConditionState(NamedTuple):
    status: bool
    reason: str = ""
    message: str = ""


def status_of(pod: Obj, facts: PodFacts, now: str) -> Obj:
    """Return the complete status of a pod. Fields of other writers are kept."""
    old = pod.get("status") or {}
    phase = phase_of(pod, facts)
    status: Obj = {
        "phase": phase,
        **{
            name: old[name]
            for name in ("nominatedNodeName", "qosClass", "resize", "resourceClaimStatuses")
            if name in old
        },
        **_reason_and_message(old, phase, facts),
        "observedGeneration": pod["metadata"].get("generation", 1),
        "startTime": facts.start_time,
        "hostIP": facts.host_ip,
        "hostIPs": [{"ip": facts.host_ip}],
        "conditions": _conditions(pod, phase, facts, now),
    }
    if facts.pod_ip:
        status["podIP"] = facts.pod_ip
        status["podIPs"] = [{"ip": facts.pod_ip}]
    if inits := [record.status() for record in facts.records if record.is_init]:
        status["initContainerStatuses"] = inits
    status["containerStatuses"] = [
        record.status() for record in facts.records if not record.is_init
    ]
    # At the end, containers without a recorded end count as failed if any container has run.
    if facts.over and any("containerID" in one for one in status["containerStatuses"]):
        for one in status["containerStatuses"]:
            if "terminated" not in one["state"]:
                one["state"] = {"terminated": LOST_CONTAINER}
    return status


def rejected_status(pod: Obj, failure: PodFailureReason) -> Obj:
    old = pod.get("status") or {}
    message = f"Pod was rejected: {failure.message}"
    return {**old, "phase": "Failed", "reason": failure.reason, "message": message}


def phase_of(pod: Obj, facts: PodFacts) -> str:
    old: str = (pod.get("status") or {}).get("phase", "Pending")
    if old in TERMINAL:
        return old
    mains = [record for record in facts.records if not record.is_init]
    begun = any(record.id for record in mains)
    if not begun and (waiting := _phase_of_init(pod, facts)):
        phase: str = waiting
    elif any(record.exit_code is None and not record.is_running for record in mains):
        phase = "Pending"
    elif any(
        record.is_running for record in facts.records if not record.is_init or record.is_sidecar
    ):
        phase = "Running"
    else:
        codes = [record.exit_code for record in mains]
        if not facts.over and any(may_restart(pod, record, record.exit_code) for record in mains):
            phase = "Running"
        else:
            phase = "Failed" if any(codes) else "Succeeded"
    return "Failed" if facts.over and (facts.failure or phase not in TERMINAL) else phase


def _phase_of_init(pod: Obj, facts: PodFacts) -> str:
    """Return the phase that the init containers determine, or "" when they are done."""
    pending = False
    for record in facts.records:
        if record.is_sidecar:
            pending = pending or not (record.started or record.exit_code is not None)
        elif record.is_init:
            if record.exit_code and not may_restart(pod, record, record.exit_code):
                return "Failed"
            pending = pending or record.exit_code is None or bool(record.exit_code)
    return "Pending" if pending else ""


def may_restart(pod: Obj, record: ContainerRecord, code: int | None) -> bool:
    """Return True if another run is allowed after this exit code, by the container's rules and
    the pod's policy.
    """
    if record.must_restart or record.is_sidecar:
        return True
    for rule in record.spec.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (code in codes.get("values", ())) is (codes.get("operator") == "In"):
            return bool(rule.get("action") == "Restart")
    policy = record.spec.get("restartPolicy") or pod["spec"].get("restartPolicy", "Always")
    if policy == "Always":
        return not record.is_init or bool(code)
    return bool(policy == "OnFailure" and code != 0)


def _reason_and_message(old: Obj, phase: str, facts: PodFacts) -> Obj:
    if facts.failure and facts.over:
        return facts.failure._asdict()
    if remark := next(
        (record.remark for record in facts.records if record.is_running and record.remark), ""
    ):
        return {"reason": NOT_SIMULATED, "message": remark}
    return {
        name: old[name]
        for name in ("reason", "message")
        if name in old and old.get("phase") == phase
    }


def _conditions(pod: Obj, phase: str, facts: PodFacts, now: str) -> list[Obj]:
    old = (pod.get("status") or {}).get("conditions") or []
    if phase in TERMINAL:
        containers: _ConditionState = _ConditionState(
            False, "PodCompleted" if phase == "Succeeded" else "PodFailed"
        )
    else:
        unready = [
            record.name
            for record in facts.records
            if (record.is_sidecar or not record.is_init) and not record.ready
        ]
        if not unready:
            containers = _ConditionState(True)
        else:
            containers = _ConditionState(
                False, "ContainersNotReady", f"containers with unready status: {_go_list(unready)}"
            )
    findings = {
        "PodReadyToStartContainers": _ConditionState(facts.has_sandbox and not facts.over),
        "Initialized": _initialized_state(facts, phase),
        "Ready": (_failed_readiness_gate(pod, old) or containers)
        if containers.status
        else containers,
        "ContainersReady": containers,
        "PodScheduled": _ConditionState(True),
    }
    generation = pod["metadata"].get("generation", 1)
    before = {one["type"]: one for one in old}
    kept = [other for other in old if other["type"] not in KUBELET_CONDITIONS]
    return kept + [
        _condition(type_, finding, before.get(type_), generation, now)
        for type_, finding in findings.items()
    ]


def _condition(
    type_: str, finding: _ConditionState, old: Obj | None, generation: int, now: str
) -> Obj:
    status = "True" if finding.status else "False"
    if (
        old
        and "lastProbeTime" in old
        and (old["status"], old.get("observedGeneration")) == (status, generation)
        and (old.get("reason", ""), old.get("message", "")) == (finding.reason, finding.message)
    ):
        return old  # the same object, which makes comparison cheap
    texts = {"reason": finding.reason, "message": finding.message}
    return {
        "type": type_,
        "observedGeneration": generation,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": old["lastTransitionTime"] if old and old["status"] == status else now,
        **{name: text for name, text in texts.items() if text},
    }


def _initialized_state(facts: PodFacts, phase: str) -> _ConditionState:
    if phase == "Succeeded":
        return _ConditionState(True, "PodCompleted")
    if any(record.id for record in facts.records if not record.is_init):
        return _ConditionState(True)
    missing = [
        record.name
        for record in facts.records
        if record.is_init and not (record.started if record.is_sidecar else record.ready)
    ]
    if not missing:
        return _ConditionState(True)
    return _ConditionState(
        False, "ContainersNotInitialized", f"containers with incomplete status: {_go_list(missing)}"
    )


def _failed_readiness_gate(pod: Obj, conditions: Iterable[Obj]) -> _ConditionState | None:
    """Return the state of the Ready condition if a readiness gate is not fulfilled, otherwise
    None.
    """
    gates = pod["spec"].get("readinessGates")
    if not gates:
        return None
    states = {other["type"]: other["status"] for other in conditions}
    texts = []
    for gate in (gate["conditionType"] for gate in gates):
        if gate not in states:
            texts.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif states[gate] != "True":
            texts.append(
                f'the status of pod readiness gate "{gate}" is not "True", but {states[gate]}'
            )
    return _ConditionState(False, "ReadinessGatesNotReady", ", ".join(texts)) if texts else None


def _go_list(names: list[str]) -> str:
    return f"[{' '.join(names)}]"
