"""CronJobs: a job at each appointed time. What the job then does is not decided here."""

from __future__ import annotations

import datetime
import zoneinfo
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.embedded.controller import follow
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
    """Complete, Failed, or "" while it runs."""
    return next((outcome for outcome in (COMPLETE, FAILED) if is_true(job, outcome)), "")


def job_reference(job: Obj) -> Obj:
    """How status.active names it."""
    metadata = job["metadata"]
    named = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": job["apiVersion"], "kind": job["kind"], **named}


def beyond_history_limits(cron_job: Obj, jobs: list[Obj]) -> list[Obj]:
    """Finished jobs beyond the history that is kept, of each outcome the ones that started
    first.
    """
    found = []
    for outcome, limit in (
        (COMPLETE, "successfulJobsHistoryLimit"),
        (FAILED, "failedJobsHistoryLimit"),
    ):
        kept = cron_job["spec"].get(limit)
        ended = sorted((job for job in jobs if outcome_of(job) == outcome), key=_start_key)
        found += ended[: max(0, len(ended) - kept)] if kept is not None else []
    return found


def _start_key(job: Obj) -> tuple[str, str]:
    return (job.get("status") or {}).get("startTime") or "", job["metadata"]["name"]


@dataclass(slots=True)
class JobChanges:
    """What has changed among the jobs since the last look."""

    active: list[Obj]
    completed: list[Obj]
    unexpected: list[Obj]
    missing: list[Obj]
    """References to jobs that are gone."""
    last_success: str | None


def compare_jobs(cron_job: Obj, jobs: list[Obj]) -> JobChanges:
    status = cron_job.get("status") or {}
    listed = {reference["uid"]: reference for reference in status.get("active") or ()}
    there = {job["metadata"]["uid"]: job for job in jobs}
    found = JobChanges([], [], [], [], status.get("lastSuccessfulTime"))
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


SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MINUTE = 60


def build_job(cron_job: Obj, schedule: CronSchedule, scheduled: float) -> Obj:
    """The job of one appointed time, named after its minute, so that no time gets two."""
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
    """When a CronJob is due."""

    cron: Cron

    @classmethod
    def of(cls, cron_job: Obj) -> CronSchedule:
        """A ValueError says what cannot be read."""
        text, zone = cron_job["spec"]["schedule"], _zone(cron_job["spec"].get("timeZone"))
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
        """The instant as a clock in the schedule's zone shows it."""
        return (
            datetime.datetime.fromtimestamp(instant, self.zone)
            .isoformat(timespec="seconds")
            .replace("+00:00", "Z")
        )


def _zone(name: str | None) -> datetime.tzinfo:
    if not name:
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f'invalid timeZone: "{name}": unknown time zone {name}') from error


MAX_MISSED_TIMES = 100  # missed times of which the user is warned


@dataclass(slots=True)
class CronJobSync:
    """One look at a CronJob; `status` is what it should come to."""

    cron_job: Obj
    schedule: CronSchedule
    status: Obj

    @property
    def due(self) -> float:
        """From when on times may have been missed."""
        status, metadata = self.cron_job.get("status") or {}, self.cron_job["metadata"]
        return epoch_of(status.get("lastScheduleTime") or metadata["creationTimestamp"])


class CronJobs:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._cron_jobs, self._jobs = context.informers.of(CRON_JOBS), context.informers.of(JOBS)
        self._jobs_of = ownership.controller_index(self._jobs)
        self._controller = context.controller(self._reconcile, self._cron_jobs, self._jobs)
        follow(self._controller, self._cron_jobs)
        ownership.OwnerEnqueuer(self._controller.enqueue, self._cron_jobs, self._jobs)

    async def run(self) -> None:
        await self._controller.run()

    async def _reconcile(self, ref: Ref) -> float | None:
        cron_job = self._cron_jobs.objects.get(ref)
        if cron_job is None:
            return None
        status = await self._look_after(cron_job)
        try:
            wait, status = await self._keep_appointment(cron_job, status)
        finally:
            if status != (cron_job.get("status") or {}):
                await self._context.write_status(CRON_JOBS, cron_job, status)
        return wait

    async def _look_after(self, cron_job: Obj) -> Obj:
        """Forget old jobs, tell what has become of the active ones; the status after that."""
        jobs = self._jobs_of.of(cron_job["metadata"]["uid"])
        for job in beyond_history_limits(cron_job, jobs):
            await self._delete(cron_job, job["metadata"]["name"])
        found, recorder = compare_jobs(cron_job, jobs), self._context.recorder
        for job in found.unexpected:
            name = job["metadata"]["name"]
            recorder.warning(
                cron_job,
                "UnexpectedJob",
                f"Saw a job that the controller did not create or forgot: {name}",
            )
        for job in found.completed:
            message = f"Saw completed job: {job['metadata']['name']}, condition: {outcome_of(job)}"
            recorder.normal(cron_job, "SawCompletedJob", message)
        for reference in found.missing:
            recorder.normal(cron_job, "MissingJob", f"Active job went missing: {reference['name']}")
        status = {
            name: value
            for name, value in (cron_job.get("status") or {}).items()
            if name != "active"
        }
        active = {"active": found.active} if found.active else {}
        return {
            **active,
            **status,
            **({"lastSuccessfulTime": found.last_success} if found.last_success else {}),
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

    async def _keep_appointment(self, cron_job: Obj, status: Obj) -> tuple[float | None, Obj]:
        """Make the job that is due, if any; the seconds until the next one and the status after
        that.
        """
        if cron_job["metadata"].get("deletionTimestamp") or cron_job["spec"].get("suspend"):
            return None, status
        try:
            look = CronJobSync(cron_job, CronSchedule.of(cron_job), status)
        except ValueError as error:
            reason = "UnknownTimeZone" if "timeZone" in str(error) else "UnparseableCronJobSchedule"
            self._context.recorder.warning(cron_job, reason, str(error))
            return None, status
        now, since = self._context.now(), look.due
        deadline = look.cron_job["spec"].get("startingDeadlineSeconds")
        if deadline is not None:
            since = max(since, now - deadline)
        scheduled, count = look.schedule.missed(since, now)
        if count > MAX_MISSED_TIMES:
            message = (
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds "
                "or check clock skew"
            )
            self._context.recorder.warning(look.cron_job, "TooManyMissedTimes", message)
        if (
            scheduled is not None
            and scheduled != look.due
            and not self._is_too_late(look, scheduled)
            and self._may_start(look)
        ):
            await self._start(look, scheduled)
        return self._until_next(look), look.status

    def _until_next(self, look: CronJobSync) -> float | None:
        now = self._context.now()
        last, _ = look.schedule.missed(look.due, now)
        upcoming = look.schedule.next(last or look.due)
        return None if upcoming is None else round(upcoming - now, 6)

    def _is_too_late(self, look: CronJobSync, scheduled: float) -> bool:
        deadline = look.cron_job["spec"].get("startingDeadlineSeconds")
        if deadline is None or scheduled + deadline >= self._context.now():
            return False
        moment = datetime.datetime.fromtimestamp(scheduled, look.schedule.zone)
        message = f"Missed scheduled time to start a job: {moment:%a, %d %b %Y %H:%M:%S %z}"
        self._context.recorder.warning(look.cron_job, "MissSchedule", message)
        return True

    def _may_start(self, look: CronJobSync) -> bool:
        if look.cron_job["spec"].get("concurrencyPolicy") != "Forbid" or not look.status.get(
            "active"
        ):
            return True
        message = (
            "Not starting job because prior execution is running and concurrency policy is Forbid"
        )
        self._context.recorder.normal(look.cron_job, "JobAlreadyActive", message)
        return False

    async def _start(self, look: CronJobSync, scheduled: float) -> None:
        cron_job = look.cron_job
        if cron_job["spec"].get("concurrencyPolicy") == "Replace":
            for reference in look.status.pop("active", ()):
                await self._delete(cron_job, reference["name"])
        job = build_job(cron_job, look.schedule, scheduled)
        try:
            made = await self._context.api.create(JOBS, job, cron_job["metadata"]["namespace"])
        except AlreadyExists:
            # A job of this name is there: ours, made before the status could be written, or
            # somebody else's.
            found = await self._context.api.get(
                JOBS, job["metadata"]["name"], cron_job["metadata"]["namespace"]
            )
            if not ownership.is_controlled_by(found, cron_job):
                message = (
                    f"Error creating job: job object {found['metadata']['name']} already exists"
                )
                self._context.recorder.warning(cron_job, "FailedCreate", message)
                raise AlreadyExists(message) from None
            made = found
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
        active = [*look.status.get("active", ()), job_reference(made)]
        look.status = {**look.status, "active": active, "lastScheduleTime": timestamp_of(scheduled)}
