"""Create a Job at each scheduled time of a CronJob, and delete finished Jobs beyond its history.

Started by `actors`. Of several missed times only the last counts. The Job itself is run by `jobs`.
"""

from __future__ import annotations

import datetime
import zoneinfo
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.embedded.controller import Reconciler, follow
from pytest_kscen.embedded.controllers import ownership
from pytest_kscen.embedded.controllers.pod_control import in_terminating_namespace
from pytest_kscen.embedded.controllers.workloads.job_completion import COMPLETE, FAILED
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.cron import Cron, CronError
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import CRON_JOBS, JOBS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.objects.resources import Obj


def outcome_of(job: Obj) -> str:
    """Return the type of the condition that ended the Job, Complete or Failed, or "" while it
    runs.
    """
    return next((outcome for outcome in (COMPLETE, FAILED) if is_true(job, outcome)), "")


def job_reference(job: Obj) -> Obj:
    """Return the entry for a Job in the CronJob's `status.active`. It identifies the Job by uid
    and records its resource version.
    """
    metadata = job["metadata"]
    named = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": job["apiVersion"], "kind": job["kind"], **named}


def beyond_history_limits(cron_job: Obj, jobs: list[Obj]) -> list[Obj]:
    """Return the finished Jobs to delete. Of each outcome, these are the ones that started
    first, beyond its history limit.
    """
    changes = []
    for outcome, limit in (
        (COMPLETE, "successfulJobsHistoryLimit"),
        (FAILED, "failedJobsHistoryLimit"),
    ):
        kept = cron_job["spec"].get(limit)
        ended = sorted(
            (job for job in jobs if outcome_of(job) == outcome),
            key=lambda job: (
                (job.get("status") or {}).get("startTime") or "",
                job["metadata"]["name"],
            ),
        )
        changes += ended[: max(0, len(ended) - kept)] if kept is not None else []
    return changes


@dataclass(slots=True)
class JobChanges:
    """Differences between the Jobs that a CronJob's status lists and the Jobs that exist.

    Computed once per reconciliation; the controller turns them into Events and the new status.
    """

    active: list[Obj]
    completed: list[Obj]
    unexpected: list[Obj]
    missing: list[Obj]
    """References to Jobs that no longer exist."""
    last_success: str | None


def compare_jobs(cron_job: Obj, jobs: list[Obj]) -> JobChanges:
    status = cron_job.get("status") or {}
    listed = {reference["uid"]: reference for reference in status.get("active") or ()}
    existing = {job["metadata"]["uid"]: job for job in jobs}
    changes = JobChanges([], [], [], [], status.get("lastSuccessfulTime"))
    for uid, reference in listed.items():
        if uid not in existing:
            changes.missing.append(reference)
        elif outcome_of(existing[uid]):
            changes.completed.append(existing[uid])
        else:
            changes.active.append(reference)
    for uid, job in existing.items():
        ended = (job.get("status") or {}).get("completionTime") if is_true(job, COMPLETE) else None
        if uid not in listed and not outcome_of(job):
            changes.unexpected.append(job)
        if ended and (
            changes.last_success is None or epoch_of(ended) > epoch_of(changes.last_success)
        ):
            changes.last_success = ended
    return changes


SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MINUTE = 60


def build_job(cron_job: Obj, schedule: CronSchedule, scheduled: float) -> Obj:
    """Return the Job of one scheduled time.

    Its name contains the minute of that time, so a second attempt at the same time fails with
    AlreadyExists instead of creating a second Job.
    """
    template, metadata = cron_job["spec"]["jobTemplate"], cron_job["metadata"]
    about = template.get("metadata") or {}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": f"{metadata['name']}-{int(scheduled) // MINUTE}",
            "namespace": metadata["namespace"],
            **({"labels": about["labels"]} if about.get("labels") else {}),
            "annotations": {
                **(about.get("annotations") or {}),
                SCHEDULED: schedule.timestamp(scheduled),
            },
            "ownerReferences": [ownership.reference_to(cron_job, CRON_JOBS)],
        },
        "spec": template["spec"],
    }


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """Schedule of a CronJob in its time zone. Instants are epoch seconds; parsing happens once
    per reconciliation, with a cache in `Cron`.
    """

    cron: Cron

    @classmethod
    def of(cls, cron_job: Obj) -> CronSchedule:
        """Parse the CronJob's schedule and time zone. Raise ValueError with Kubernetes' message
        if one of them is invalid or never due.
        """
        text, name = cron_job["spec"]["schedule"], cron_job["spec"].get("timeZone")
        try:
            zone = zoneinfo.ZoneInfo(name) if name else datetime.UTC
        except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f'invalid timeZone: "{name}": unknown time zone {name}') from error
        try:
            cron = Cron.of(text, zone, seconds=False)
        except CronError as error:
            raise ValueError(f"unparseable schedule: {error}") from None
        if cron.next_after(0) is None:
            raise ValueError(f"unparseable schedule: {text}: there is no such time")
        return cls(cron)

    @property
    def zone(self) -> datetime.tzinfo:
        return self.cron.zone

    def next(self, instant: float) -> float | None:
        return self.cron.next_after(instant)

    def missed(self, since: float, now: float) -> tuple[float | None, int]:
        return self.cron.missed(since, now)

    def timestamp(self, instant: float) -> str:
        """Return the instant as RFC 3339 text in the schedule's own zone, as the Job's
        annotation shows it.
        """
        return (
            datetime.datetime.fromtimestamp(instant, self.zone)
            .isoformat(timespec="seconds")
            .replace("+00:00", "Z")
        )


MAX_MISSED_TIMES = 100  # more missed times than this cause a warning Event


@dataclass(slots=True)
class CronJobSync:
    """State of one reconciliation of a CronJob. `status` is the status to write at its end,
    replaced as Jobs are started or deleted.
    """

    cron_job: Obj
    schedule: CronSchedule
    status: Obj

    @property
    def due(self) -> float:
        """Return the time from which on scheduled times may have been missed: the last
        scheduled time, or the creation.
        """
        status, metadata = self.cron_job.get("status") or {}, self.cron_job["metadata"]
        return epoch_of(status.get("lastScheduleTime") or metadata["creationTimestamp"])


class CronJobs(Reconciler):
    """Reconcile each CronJob on changes of its Jobs and at its next scheduled time.

    The status is written at the end even if starting the Job failed, so that no Job that was
    started is forgotten.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._cron_jobs, self._jobs = context.informers.of(CRON_JOBS), context.informers.of(JOBS)
        self._jobs_of = ownership.controller_index(self._jobs)
        super().__init__(context, self._cron_jobs, self._jobs)
        follow(self._controller, self._cron_jobs)
        ownership.OwnerEnqueuer(self._controller.enqueue, self._cron_jobs, self._jobs)

    async def _reconcile(self, ref: Ref) -> float | None:
        cron_job = self._cron_jobs.objects.get(ref)
        if cron_job is None:
            return None
        status = await self._sync_jobs(cron_job)
        try:
            wait, status = await self._sync_schedule(cron_job, status)
        finally:
            if status != (cron_job.get("status") or {}):
                await self._context.write_status(CRON_JOBS, cron_job, status)
        return wait

    async def _sync_jobs(self, cron_job: Obj) -> Obj:
        """Delete old Jobs, record Events for Jobs that changed unexpectedly, and return the
        status that follows.
        """
        jobs = self._jobs_of.of(cron_job["metadata"]["uid"])
        for job in beyond_history_limits(cron_job, jobs):
            await self._delete(cron_job, job["metadata"]["name"])
        changes, recorder = compare_jobs(cron_job, jobs), self._context.recorder
        for job in changes.unexpected:
            name = job["metadata"]["name"]
            recorder.warning(
                cron_job,
                "UnexpectedJob",
                f"Saw a job that the controller did not create or forgot: {name}",
            )
        for job in changes.completed:
            message = f"Saw completed job: {job['metadata']['name']}, condition: {outcome_of(job)}"
            recorder.normal(cron_job, "SawCompletedJob", message)
        for reference in changes.missing:
            recorder.normal(cron_job, "MissingJob", f"Active job went missing: {reference['name']}")
        status = {
            name: value
            for name, value in (cron_job.get("status") or {}).items()
            if name != "active"
        }
        active = {"active": changes.active} if changes.active else {}
        return {
            **active,
            **status,
            **({"lastSuccessfulTime": changes.last_success} if changes.last_success else {}),
        }

    async def _delete(self, cron_job: Obj, name: str) -> None:
        try:
            await self._context.api.delete(
                JOBS, name, cron_job["metadata"]["namespace"], propagation="Background"
            )
        except NotFound:
            return
        except ApiError as error:
            self._context.recorder.warning(
                cron_job, "FailedDelete", f"Deleted job: {error.message}"
            )
            raise
        self._context.recorder.normal(cron_job, "SuccessfulDelete", f"Deleted job {name}")

    async def _sync_schedule(self, cron_job: Obj, status: Obj) -> tuple[float | None, Obj]:
        """Start the Job that is due, if there is one.

        Return the seconds until the next scheduled time (None without one, or if the CronJob is
        suspended), and the new status.
        """
        if cron_job["metadata"].get("deletionTimestamp") or cron_job["spec"].get("suspend"):
            return None, status
        try:
            sync = CronJobSync(cron_job, CronSchedule.of(cron_job), status)
        except ValueError as error:
            reason = "UnknownTimeZone" if "timeZone" in str(error) else "UnparseableCronJobSchedule"
            self._context.recorder.warning(cron_job, reason, str(error))
            return None, status
        now, since = self._context.now(), sync.due
        deadline = sync.cron_job["spec"].get("startingDeadlineSeconds")
        if deadline is not None:
            since = max(since, now - deadline)
        scheduled, count = sync.schedule.missed(since, now)
        if count > MAX_MISSED_TIMES:
            message = (
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds "
                "or check clock skew"
            )
            self._context.recorder.warning(sync.cron_job, "TooManyMissedTimes", message)
        if scheduled is not None and scheduled != sync.due:
            if deadline is not None and scheduled + deadline < now:
                moment = datetime.datetime.fromtimestamp(scheduled, sync.schedule.zone)
                message = f"Missed scheduled time to start a job: {moment:%a, %d %b %Y %H:%M:%S %z}"
                self._context.recorder.warning(cron_job, "MissSchedule", message)
            elif cron_job["spec"].get("concurrencyPolicy") == "Forbid" and status.get("active"):
                message = (
                    "Not starting job because prior execution is running and concurrency policy "
                    "is Forbid"
                )
                self._context.recorder.normal(cron_job, "JobAlreadyActive", message)
            else:
                await self._start(sync, scheduled)
        now = self._context.now()
        last, _ = sync.schedule.missed(sync.due, now)
        upcoming = sync.schedule.next(last or sync.due)
        return None if upcoming is None else round(upcoming - now, 6), sync.status

    async def _start(self, sync: CronJobSync, scheduled: float) -> None:
        cron_job = sync.cron_job
        if cron_job["spec"].get("concurrencyPolicy") == "Replace":
            for reference in sync.status.pop("active", ()):
                await self._delete(cron_job, reference["name"])
        job = build_job(cron_job, sync.schedule, scheduled)
        try:
            made = await self._context.api.create(JOBS, job, cron_job["metadata"]["namespace"])
        except AlreadyExists:
            # Created by an earlier attempt that failed before its status write, or foreign.
            changes = await self._context.api.get(
                JOBS, job["metadata"]["name"], cron_job["metadata"]["namespace"]
            )
            if not ownership.is_controlled_by(changes, cron_job):
                message = (
                    f"Error creating job: job object {changes['metadata']['name']} already exists"
                )
                self._context.recorder.warning(cron_job, "FailedCreate", message)
                raise AlreadyExists(message) from None
            made = changes
        except ApiError as error:
            if not in_terminating_namespace(error):
                self._context.recorder.warning(
                    cron_job, "FailedCreate", f"Error creating job: {error.message}"
                )
            raise
        else:
            self._context.recorder.normal(
                cron_job, "SuccessfulCreate", f"Created job {made['metadata']['name']}"
            )
        active = [*sync.status.get("active", ()), job_reference(made)]
        sync.status = {**sync.status, "active": active, "lastScheduleTime": timestamp_of(scheduled)}
