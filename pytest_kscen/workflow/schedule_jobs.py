"""Objects that a Schedule creates (chaos or a workflow): how each is built, and how far it is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.objects.arguments import nearest, seconds_of_text
from pytest_kscen.objects.chaos_mesh import (
    ACCOMPLISHED,
    ALL_INJECTED,
    ALL_RECOVERED,
    CRON_WORKFLOWS,
    KINDS,
    MANAGED_BY,
    PAUSE,
    SELECTED,
    is_over,
)
from pytest_kscen.objects.conditions import condition, is_true

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj, Resource

WORKFLOW, KEY_OF_WORKFLOW = "Workflow", "workflow"
ONE_SHOT = ("pod-kill", "container-kill")
SCHEDULED_AT = "workflow.kscen.io/scheduled-at"
"""The annotation that says for which time it was spawned."""
LONGEST_STEM = 52
"""Of a name, so that it may be a label's value with the time behind it."""
DIGEST = 6
"""Characters that tell names apart."""


class ScheduleError(ValueError):
    """The Schedule does not say what it spawns."""


def type_of(schedule: Obj) -> str:
    """What it spawns; a CronWorkflow need not say."""
    return str(schedule["spec"].get("type") or WORKFLOW)


def body_of(schedule: Obj) -> Obj:
    """The spec of what is spawned."""
    type_ = type_of(schedule)
    if type_ != WORKFLOW and type_ not in KINDS:
        raise ScheduleError(f"unknown type: {type_}{nearest(type_, (WORKFLOW, *KINDS))}")
    key = KEY_OF_WORKFLOW if type_ == WORKFLOW else KINDS[type_].key
    body: Obj | None = schedule["spec"].get(key)
    if not body:
        raise ScheduleError(f"its type is {type_}, so its spec needs {key!r}")
    return body


def name_at(schedule: Obj, due: float) -> str:
    """No time gets two, and no two Schedules get the same."""
    return f"{_stem(schedule)}-{int(due)}"


def _stem(schedule: Obj) -> str:
    """Its name, or as much of it as there is room for beside what makes it another than anybody
    else's.
    """
    name = schedule["metadata"]["name"]
    if len(name) <= LONGEST_STEM and schedule.get("kind") != CRON_WORKFLOWS.kind:
        return str(name)
    digest = hashlib.sha256(f"{schedule.get('kind')}/{name}".encode()).hexdigest()[:DIGEST]
    return f"{name[: LONGEST_STEM - DIGEST - 1].rstrip('-.')}-{digest}"


def build(schedule: Obj, resource: Resource, due: float, labels: dict[str, str], owner: Obj) -> Obj:
    metadata = schedule["metadata"]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name_at(schedule, due),
            "namespace": metadata["namespace"],
            "labels": {**labels, MANAGED_BY: metadata["name"]},
            "annotations": {SCHEDULED_AT: timestamp_of(due)},
            "ownerReferences": [owner],
        },
        "spec": body_of(schedule),
    }


def is_chaos(job: Obj) -> bool:
    return job["kind"] in KINDS


def is_finished(job: Obj, now: float) -> bool:
    """A workflow is over; chaos has had its time and is undone, or it is done once and nothing
    is left to do it to.
    """
    if not is_chaos(job):
        return is_over(job) or is_true(job, ACCOMPLISHED)
    if job["spec"].get("action") in ONE_SHOT:
        return is_true(job, ALL_INJECTED) or (
            condition(job, SELECTED) is not None and not is_true(job, SELECTED)
        )
    end = ends_at(job)
    return end is not None and end <= now and is_true(job, ALL_RECOVERED)


def ends_at(job: Obj) -> float | None:
    """When the duration of chaos is over, if it has one."""
    duration = job["spec"].get("duration") if is_chaos(job) else None
    try:
        return (
            epoch_of(job["metadata"]["creationTimestamp"]) + seconds_of_text(duration)
            if duration
            else None
        )
    except ValueError:
        return None


def is_paused(obj: Obj) -> bool:
    return bool((obj["metadata"].get("annotations") or {}).get(PAUSE) == "true")


def age(job: Obj) -> tuple[str, str]:
    return job["metadata"]["creationTimestamp"], job["metadata"]["name"]
