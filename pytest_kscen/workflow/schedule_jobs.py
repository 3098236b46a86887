"""Objects that a Schedule spawns (chaos or a workflow): their content and their progress.

Called by `schedules` and `engine.actors`. Functions only; no calls to a cluster.
"""

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
"""Annotation with the time for which an object was spawned."""
LONGEST_STEM = 52
"""Longest name of a Schedule that fits into a label's value together with the time."""
DIGEST = 6
"""Characters of the digest in shortened names."""


class ScheduleError(ValueError):
    """Report a Schedule that does not define the object it spawns."""


def type_of(schedule: Obj) -> str:
    """Return the kind of the spawned object; a CronWorkflow may leave it out."""
    return str(schedule["spec"].get("type") or WORKFLOW)


def body_of(schedule: Obj) -> Obj:
    """Return the spec of the spawned object; raise ScheduleError if it is missing."""
    type_ = type_of(schedule)
    if type_ != WORKFLOW and type_ not in KINDS:
        raise ScheduleError(f"unknown type: {type_}{nearest(type_, (WORKFLOW, *KINDS))}")
    key = KEY_OF_WORKFLOW if type_ == WORKFLOW else KINDS[type_].key
    body: Obj | None = schedule["spec"].get(key)
    if not body:
        raise ScheduleError(f"its type is {type_}, so its spec needs {key!r}")
    return body


def name_at(schedule: Obj, due: float) -> str:
    """Return the name of the object spawned for this time: unique per Schedule and second.

    A name that is too long, or that another kind of schedule may have, is shortened with a digest.
    """
    name = str(schedule["metadata"]["name"])
    if len(name) > LONGEST_STEM or schedule.get("kind") == CRON_WORKFLOWS.kind:
        digest = hashlib.sha256(f"{schedule.get('kind')}/{name}".encode()).hexdigest()[:DIGEST]
        name = f"{name[: LONGEST_STEM - DIGEST - 1].rstrip('-.')}-{digest}"
    return f"{name}-{int(due)}"


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
    """Return True if a workflow is over, or if chaos has ended and recovered.

    A kill is finished when it is done, or when its selector matches nothing.
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
    """Return the instant at which the duration of chaos is over; None without a duration."""
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
