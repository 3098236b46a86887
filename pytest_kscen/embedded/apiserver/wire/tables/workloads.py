"""Printer columns of pods and of the controllers that create them.

Read by `table`. A pod's status follows kubectl's rules for init containers and restarts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.apiserver.wire.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    age,
    boolean,
    condition,
    containers,
    count,
    duration,
    integer,
    labels,
    number,
    object_cell,
    selector,
    since,
    text,
    wide,
)
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj


JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _ready(obj: Obj) -> str:
    return f"{field_at(obj, 'status.readyReplicas') or 0}/{field_at(obj, 'spec.replicas') or 0}"


def _job_status(job: Obj) -> str:
    """Return the first of a Job's states that holds; its deletion ranks among the conditions."""
    for type_, state in JOB_STATES:
        holds = (
            condition(job, type_).get("status") == "True"
            if type_
            else job["metadata"].get("deletionTimestamp")
        )
        if holds:
            return state
    return "Running"


def _completions(job: Obj) -> str:
    spec = job.get("spec") or {}
    done = field_at(job, "status.succeeded") or 0
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Obj, now: float) -> str:
    began, ended = field_at(job, "status.startTime"), field_at(job, "status.completionTime")
    if not began:
        return ""
    return duration((epoch_of(ended) if ended else now) - epoch_of(began))


def _controller(revision: Obj) -> str:
    owners = revision["metadata"].get("ownerReferences") or ()
    owner = next((owner for owner in owners if owner.get("controller")), None)
    if owner is None:
        return NONE
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind']}.{group}/".lower().replace("./", "/") + str(owner["name"])


REPLICAS = (
    NAME,
    integer("Desired", number("spec.replicas")),
    integer("Current", number("status.replicas")),
    integer("Ready", number("status.readyReplicas")),
    AGE,
    *containers(),
)

WORKLOAD_TABLES = {
    ("apps", "replicasets"): (*REPLICAS, wide("Selector", selector())),
    ("", "replicationcontrollers"): (*REPLICAS, wide("Selector", labels("spec.selector"))),
    ("apps", "deployments"): (
        NAME,
        Column("Ready", object_cell(_ready)),
        Column("Up-to-date", number("status.updatedReplicas")),
        Column("Available", number("status.availableReplicas")),
        AGE,
        *containers(),
        wide("Selector", selector(default="")),
    ),
    ("apps", "statefulsets"): (NAME, Column("Ready", object_cell(_ready)), AGE, *containers()),
    ("apps", "daemonsets"): (
        NAME,
        integer("Desired", number("status.desiredNumberScheduled")),
        integer("Current", number("status.currentNumberScheduled")),
        integer("Ready", number("status.numberReady")),
        integer("Up-to-date", number("status.updatedNumberScheduled")),
        integer("Available", number("status.numberAvailable")),
        Column("Node Selector", labels("spec.template.spec.nodeSelector")),
        AGE,
        *containers(),
        wide("Selector", selector()),
    ),
    ("apps", "controllerrevisions"): (
        NAME,
        Column("Controller", object_cell(_controller)),
        Column("Revision", number("revision")),
        AGE,
    ),
    ("batch", "jobs"): (
        NAME,
        Column("Status", object_cell(_job_status)),
        Column("Completions", object_cell(_completions)),
        Column("Duration", _job_duration),
        AGE,
        *containers(),
        wide("Selector", selector()),
    ),
    ("batch", "cronjobs"): (
        NAME,
        Column("Schedule", text("spec.schedule")),
        Column("Timezone", text("spec.timeZone", NONE)),
        boolean(
            "Suspend",
            object_cell(
                lambda cron_job: (
                    UNSET
                    if (suspended := field_at(cron_job, "spec.suspend")) is None
                    else str(suspended)
                )
            ),
        ),
        integer("Active", count("status.active")),
        Column("Last Schedule", since("status.lastScheduleTime", NONE)),
        AGE,
        *containers("spec.jobTemplate.spec.template.spec.containers"),
        wide("Selector", selector("spec.jobTemplate.spec.selector")),
    ),
    ("", "podtemplates"): (
        NAME,
        *(Column(column.name, column.cell) for column in containers("template.spec.containers")),
        Column("Pod Labels", labels("template.metadata.labels")),
    ),
}


FINISHED = ("Succeeded", "Failed")


@dataclass(slots=True)
class PodSummary:
    """Sum of a pod's container states.

    `reason` is the Status column; sidecars count as containers.
    """

    reason: str
    total: int = 0
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""
    sidecar_restarts: int = 0
    sidecar_last_restart: str = ""
    errors: list[str] = field(default_factory=list)
    running: bool = False

    def restart_text(self, now: float) -> str:
        """Return the number of restarts, and how long ago the last one was."""
        if not (self.restarts and self.last_restart):
            return str(self.restarts)
        return f"{self.restarts} ({age(self.last_restart, now)} ago)"


def summary_of(pod: Obj) -> PodSummary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    inits = spec.get("initContainers") or ()
    sidecars = [
        container["name"] for container in inits if container.get("restartPolicy") == "Always"
    ]
    summary = PodSummary(
        (
            "SchedulingGated"
            if condition(pod, "PodScheduled").get("reason") == "SchedulingGated"
            else str(status.get("reason") or status.get("phase") or "")
        ),
        total=len(spec.get("containers") or ()) + len(sidecars),
    )
    initializing = _add_init_containers(
        summary, status.get("initContainerStatuses") or (), sidecars, len(inits)
    )
    if not initializing or condition(pod, "Initialized").get("status") == "True":
        _add_containers(summary, status.get("containerStatuses") or ())
        if summary.reason == "Completed":
            # One container has completed; the others decide.
            is_ready = condition(pod, "Ready").get("status") == "True"
            if summary.running and is_ready:
                summary.reason = "Running"
            elif summary.errors:
                summary.reason = summary.errors[-1]
            else:
                summary.reason = "NotReady" if summary.running else "Completed"
    if pod["metadata"].get("deletionTimestamp"):
        reason = summary.reason
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        else:
            summary.reason = reason if status.get("phase") in FINISHED else "Terminating"
    return summary


def _add_init_containers(
    summary: PodSummary, statuses: Iterable[Obj], sidecars: list[str], count: int
) -> bool:
    """Add init containers; return True if the pod is still initializing or failed to."""
    for position, status in enumerate(statuses):
        is_sidecar = status["name"] in sidecars
        _count_restarts(summary, status, is_sidecar=is_sidecar)
        state = status.get("state") or {}
        ended, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason", "")
        if ended is not None and not ended.get("exitCode"):
            continue
        if is_sidecar and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        if ended is not None:
            summary.reason = f"Init:{_end_reason(ended)}"
        elif waiting and waiting != "PodInitializing":
            summary.reason = f"Init:{waiting}"
        else:
            summary.reason = f"Init:{position}/{count}"
        return True
    return False


def _add_containers(summary: PodSummary, statuses: Any) -> None:
    summary.restarts, summary.last_restart = summary.sidecar_restarts, summary.sidecar_last_restart
    for status in reversed(statuses):
        _count_restarts(summary, status, is_sidecar=False)
        state = status.get("state") or {}
        waiting, ended = (state.get("waiting") or {}).get("reason"), state.get("terminated")
        if waiting:
            summary.reason = waiting
        elif ended is not None:
            summary.reason = _end_reason(ended)
            summary.errors = [summary.reason] if ended.get("exitCode") else summary.errors
        elif status.get("ready") and "running" in state:
            summary.running = True
            summary.ready += 1


def _count_restarts(summary: PodSummary, status: Obj, *, is_sidecar: bool) -> None:
    count = status.get("restartCount") or 0
    when = field_at(status, "lastState.terminated.finishedAt") or ""
    summary.restarts += count
    summary.last_restart = max(summary.last_restart, when)
    if is_sidecar:
        summary.sidecar_restarts += count
        summary.sidecar_last_restart = max(summary.sidecar_last_restart, when)


def _end_reason(ended: Obj) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return (
        f"Signal:{ended['signal']}"
        if ended.get("signal")
        else f"ExitCode:{ended.get('exitCode', 0)}"
    )


def _readiness_gates(pod: Obj) -> str:
    gates = field_at(pod, "spec.readinessGates") or ()
    passed = [
        gate for gate in gates if condition(pod, gate["conditionType"]).get("status") == "True"
    ]
    return f"{len(passed)}/{len(gates)}" if gates else NONE


POD_COLUMNS = (
    NAME,
    Column("Ready", object_cell(lambda pod: "{0.ready}/{0.total}".format(summary_of(pod)))),
    Column("Status", object_cell(lambda pod: summary_of(pod).reason)),
    Column("Restarts", lambda pod, now: summary_of(pod).restart_text(now)),
    AGE,
    wide(
        "IP",
        object_cell(
            lambda pod: (
                next((entry.get("ip") for entry in field_at(pod, "status.podIPs") or ()), "")
                or NONE
            )
        ),
    ),
    wide("Node", text("spec.nodeName", NONE)),
    wide("Nominated Node", text("status.nominatedNodeName", NONE)),
    wide("Readiness Gates", object_cell(_readiness_gates)),
)

POD_ROW_CONDITIONS = {
    "Succeeded": {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
    "Failed": {
        "type": "Completed",
        "status": "True",
        "reason": "Failed",
        "message": "The pod failed.",
    },
}


def pod_row_conditions(pod: Obj) -> list[Obj]:
    phase = field_at(pod, "status.phase")
    return [POD_ROW_CONDITIONS[phase]] if phase in POD_ROW_CONDITIONS else []
