"""A pod's status from what its containers do: the phase and the conditions, as the kubelet
computes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.kubelet.container_status import Record
    from pytest_kscen.objects.resources import Obj

OWNED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
NOT_SIMULATED = "NotSimulated"
TERMINAL = ("Succeeded", "Failed")
NEVER_FOUND = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
}


class Verdict(NamedTuple):
    """Why a pod has failed that its containers do not say."""

    reason: str
    message: str


@dataclass(slots=True)
class Facts:
    """What the status is computed from."""

    records: list[Record]
    host_ip: str
    start_time: str
    pod_ip: str = ""
    has_sandbox: bool = False
    over: bool = False
    """No container of the pod will ever run again."""
    verdict: Verdict | None = None


class _Finding(NamedTuple):
    """A condition before it is known since when it holds."""

    status: bool
    reason: str = ""
    message: str = ""


def status_of(pod: Obj, facts: Facts, now: str) -> Obj:
    """The whole status. What others have written into it stays."""
    old = pod.get("status") or {}
    phase = phase_of(pod, facts)
    status: Obj = {
        "phase": phase,
        **{
            name: old[name]
            for name in ("nominatedNodeName", "qosClass", "resize", "resourceClaimStatuses")
            if name in old
        },
        **_reason(old, phase, facts),
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
    # Once a container has run, those of which nothing is known when all is over count as failed.
    if facts.over and any("containerID" in one for one in status["containerStatuses"]):
        for one in status["containerStatuses"]:
            if "terminated" not in one["state"]:
                one["state"] = {"terminated": NEVER_FOUND}
    return status


def rejected(pod: Obj, verdict: Verdict) -> Obj:
    """The status of a pod that the kubelet does not take."""
    old = pod.get("status") or {}
    message = f"Pod was rejected: {verdict.message}"
    return {**old, "phase": "Failed", "reason": verdict.reason, "message": message}


def phase_of(pod: Obj, facts: Facts) -> str:
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
    return "Failed" if facts.over and (facts.verdict or phase not in TERMINAL) else phase


def _phase_of_init(pod: Obj, facts: Facts) -> str:
    """The phase that the init containers decide; nothing if they are done."""
    pending = False
    for record in facts.records:
        if record.is_sidecar:
            pending = pending or not (record.started or record.exit_code is not None)
        elif record.is_init:
            if record.exit_code and not may_restart(pod, record, record.exit_code):
                return "Failed"
            pending = pending or record.exit_code is None or bool(record.exit_code)
    return "Pending" if pending else ""


def may_restart(pod: Obj, record: Record, code: int | None) -> bool:
    """Whether the policies of the container and of the pod let it run once more."""
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


def _reason(old: Obj, phase: str, facts: Facts) -> Obj:
    if facts.verdict and facts.over:
        return facts.verdict._asdict()
    if remark := next(
        (record.remark for record in facts.records if record.is_running and record.remark), ""
    ):
        return {"reason": NOT_SIMULATED, "message": remark}
    return {
        name: old[name]
        for name in ("reason", "message")
        if name in old and old.get("phase") == phase
    }


def _conditions(pod: Obj, phase: str, facts: Facts, now: str) -> list[Obj]:
    old = (pod.get("status") or {}).get("conditions") or []
    if phase in TERMINAL:
        containers: _Finding = _Finding(
            False, "PodCompleted" if phase == "Succeeded" else "PodFailed"
        )
    else:
        unready = [
            record.name
            for record in facts.records
            if (record.is_sidecar or not record.is_init) and not record.ready
        ]
        if not unready:
            containers = _Finding(True)
        else:
            containers = _Finding(
                False, "ContainersNotReady", f"containers with unready status: {_listed(unready)}"
            )
    findings = {
        "PodReadyToStartContainers": _Finding(facts.has_sandbox and not facts.over),
        "Initialized": _initialized(facts, phase),
        "Ready": (_gates(pod, old) or containers) if containers.status else containers,
        "ContainersReady": containers,
        "PodScheduled": _Finding(True),
    }
    generation = pod["metadata"].get("generation", 1)
    before = {one["type"]: one for one in old}
    kept = [other for other in old if other["type"] not in OWNED]
    return kept + [
        _condition(type_, finding, before.get(type_), generation, now)
        for type_, finding in findings.items()
    ]


def _condition(type_: str, finding: _Finding, old: Obj | None, generation: int, now: str) -> Obj:
    status = "True" if finding.status else "False"
    if old and old["status"] == status and _says(old, generation, finding):
        return old
    words = {"reason": finding.reason, "message": finding.message}
    return {
        "type": type_,
        "observedGeneration": generation,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": old["lastTransitionTime"] if old and old["status"] == status else now,
        **{name: text for name, text in words.items() if text},
    }


def _says(old: Obj, generation: int, finding: _Finding) -> bool:
    """Whether all the rest is as it was: then it stays the same object, which everybody sees at
    a glance.
    """
    said = old.get("observedGeneration"), old.get("reason", ""), old.get("message", "")
    return said == (generation, finding.reason, finding.message) and "lastProbeTime" in old


def _initialized(facts: Facts, phase: str) -> _Finding:
    if phase == "Succeeded":
        return _Finding(True, "PodCompleted")
    if any(record.id for record in facts.records if not record.is_init):
        return _Finding(True)
    missing = [record.name for record in facts.records if record.is_init and not _is_done(record)]
    if not missing:
        return _Finding(True)
    return _Finding(
        False, "ContainersNotInitialized", f"containers with incomplete status: {_listed(missing)}"
    )


def _is_done(record: Record) -> bool:
    return record.started if record.is_sidecar else record.ready


def _gates(pod: Obj, conditions: Iterable[Obj]) -> _Finding | None:
    """What the readiness gates say if they are not all open."""
    gates = pod["spec"].get("readinessGates")
    if not gates:
        return None
    states = {other["type"]: other["status"] for other in conditions}
    words = []
    for gate in (gate["conditionType"] for gate in gates):
        if gate not in states:
            words.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif states[gate] != "True":
            words.append(
                f'the status of pod readiness gate "{gate}" is not "True", but {states[gate]}'
            )
    return _Finding(False, "ReadinessGatesNotReady", ", ".join(words)) if words else None


def _listed(names: list[str]) -> str:
    return f"[{' '.join(names)}]"
