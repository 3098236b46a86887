"""Columns of what makes pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.machinery.wire.tables.ages import duration
from pytest_kscen.machinery.wire.tables.cells import condition, containers, labels, selector
from pytest_kscen.machinery.wire.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    boolean,
    count,
    integer,
    number,
    since,
    text,
    whole,
    wide,
)
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

JOB_STATES = (("Complete", "Complete"), ("Failed", "Failed"), ("", "Terminating"), ("Suspended", "Suspended"),
              ("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet"))  # fmt: skip


def _ready(obj: Obj) -> str:
    return f"{field_at(obj, 'status.readyReplicas') or 0}/{field_at(obj, 'spec.replicas') or 0}"


def _job_status(job: Obj) -> str:
    """The first of its states that holds; the deletion mark stands among the conditions."""
    for type_, state in JOB_STATES:
        holds = condition(job, type_).get("status") == "True" if type_ else job["metadata"].get("deletionTimestamp")
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


def _suspended(cron_job: Obj) -> str:
    found = field_at(cron_job, "spec.suspend")
    return UNSET if found is None else str(found)


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

TABLES = {
    ("apps", "replicasets"): (*REPLICAS, wide("Selector", selector())),
    ("", "replicationcontrollers"): (*REPLICAS, wide("Selector", labels("spec.selector"))),
    ("apps", "deployments"): (
        NAME,
        Column("Ready", whole(_ready)),
        Column("Up-to-date", number("status.updatedReplicas")),
        Column("Available", number("status.availableReplicas")),
        AGE,
        *containers(),
        wide("Selector", selector(default="")),
    ),
    ("apps", "statefulsets"): (NAME, Column("Ready", whole(_ready)), AGE, *containers()),
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
        Column("Controller", whole(_controller)),
        Column("Revision", number("revision")),
        AGE,
    ),
    ("batch", "jobs"): (
        NAME,
        Column("Status", whole(_job_status)),
        Column("Completions", whole(_completions)),
        Column("Duration", _job_duration),
        AGE,
        *containers(),
        wide("Selector", selector()),
    ),
    ("batch", "cronjobs"): (
        NAME,
        Column("Schedule", text("spec.schedule")),
        Column("Timezone", text("spec.timeZone", NONE)),
        boolean("Suspend", whole(_suspended)),
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
