"""The jobs that a CronJob has made: which still run, which have ended since it last looked, and which it may forget. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.simulation.workloads.jobs.verdict import COMPLETE, FAILED

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


def outcome_of(job: Obj) -> str:
    """Complete, Failed, or "" while it runs."""
    return next((outcome for outcome in (COMPLETE, FAILED) if is_true(job, outcome)), "")


def reference_to(job: Obj) -> Obj:
    """How status.active names it."""
    metadata = job["metadata"]
    named = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": job["apiVersion"], "kind": job["kind"], **named}


def expired(cron_job: Obj, jobs: list[Obj]) -> list[Obj]:
    """Finished jobs beyond the history that is kept, of each outcome the ones that started first."""
    found = []
    for outcome, limit in ((COMPLETE, "successfulJobsHistoryLimit"), (FAILED, "failedJobsHistoryLimit")):
        kept = cron_job["spec"].get(limit)
        ended = sorted((job for job in jobs if outcome_of(job) == outcome), key=_started)
        found += ended[: max(0, len(ended) - kept)] if kept is not None else []
    return found


def _started(job: Obj) -> tuple[str, str]:
    return (job.get("status") or {}).get("startTime") or "", job["metadata"]["name"]


@dataclass(slots=True)
class Review:
    """What has changed among the jobs since the last look."""

    active: list[Obj]
    completed: list[Obj]
    unexpected: list[Obj]
    missing: list[Obj]
    """References to jobs that are gone."""
    last_success: str | None


def review(cron_job: Obj, jobs: list[Obj]) -> Review:
    status = cron_job.get("status") or {}
    listed = {reference["uid"]: reference for reference in status.get("active") or ()}
    there = {job["metadata"]["uid"]: job for job in jobs}
    found = Review([], [], [], [], status.get("lastSuccessfulTime"))
    for uid, reference in listed.items():
        if uid not in there:
            found.missing.append(reference)
        elif outcome_of(there[uid]):
            found.completed.append(there[uid])
        else:
            found.active.append(reference)
    for uid, job in there.items():
        ended = (job.get("status") or {}).get("completionTime") if is_true(job, COMPLETE) else None
        if uid not in listed and not outcome_of(job):
            found.unexpected.append(job)
        if ended and (found.last_success is None or epoch_of(ended) > epoch_of(found.last_success)):
            found.last_success = ended
    return found
