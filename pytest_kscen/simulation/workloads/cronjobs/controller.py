"""The life of a CronJob: look after the jobs it has made, and make the next one when its time has come.

Of several times that were missed only the last counts. It goes to sleep until the next appointed time.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import CRON_JOBS, JOBS
from pytest_kscen.simulation.bench import follow
from pytest_kscen.simulation.workloads import owners
from pytest_kscen.simulation.workloads.cronjobs import history
from pytest_kscen.simulation.workloads.cronjobs.building import build_job
from pytest_kscen.simulation.workloads.cronjobs.schedule import Schedule
from pytest_kscen.simulation.workloads.pods import in_terminating_namespace

if TYPE_CHECKING:
    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench

MANY = 100  # missed times of which the user is warned


@dataclass(slots=True)
class Look:
    """One look at a CronJob; `status` is what it should come to."""

    cron_job: Obj
    schedule: Schedule
    status: Obj

    @property
    def due(self) -> float:
        """From when on times may have been missed."""
        status, metadata = self.cron_job.get("status") or {}, self.cron_job["metadata"]
        return epoch_of(status.get("lastScheduleTime") or metadata["creationTimestamp"])


class CronJobs:
    """The controller."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._cron_jobs, self._jobs = bench.informers.of(CRON_JOBS), bench.informers.of(JOBS)
        self._jobs_of = owners.controlled(self._jobs)
        self._controller = bench.controller(self._reconcile, self._cron_jobs, self._jobs)
        follow(self._controller, self._cron_jobs)
        owners.Dependents(self._controller.enqueue, self._cron_jobs, self._jobs)

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
                await self._bench.write_status(CRON_JOBS, cron_job, status)
        return wait

    # --- the jobs that were made ---

    async def _look_after(self, cron_job: Obj) -> Obj:
        """Forget old jobs, tell what has become of the active ones; the status after that."""
        jobs = self._jobs_of.of(cron_job["metadata"]["uid"])
        for job in history.expired(cron_job, jobs):
            await self._delete(cron_job, job["metadata"]["name"])
        found, recorder = history.review(cron_job, jobs), self._bench.recorder
        for job in found.unexpected:
            name = job["metadata"]["name"]
            recorder.warning(cron_job, "UnexpectedJob", f"Saw a job that the controller did not create or forgot: {name}")
        for job in found.completed:
            message = f"Saw completed job: {job['metadata']['name']}, condition: {history.outcome_of(job)}"
            recorder.normal(cron_job, "SawCompletedJob", message)
        for reference in found.missing:
            recorder.normal(cron_job, "MissingJob", f"Active job went missing: {reference['name']}")
        status = {name: value for name, value in (cron_job.get("status") or {}).items() if name != "active"}
        active = {"active": found.active} if found.active else {}
        return {**active, **status, **({"lastSuccessfulTime": found.last_success} if found.last_success else {})}

    async def _delete(self, cron_job: Obj, name: str) -> None:
        try:
            await self._bench.api.delete(JOBS, name, cron_job["metadata"]["namespace"], propagation="Background")
        except NotFound:
            return
        except ApiError as error:
            self._bench.recorder.warning(cron_job, "FailedDelete", f"Deleted job: {error.message}")
            raise
        self._bench.recorder.normal(cron_job, "SuccessfulDelete", f"Deleted job {name}")

    # --- the next one ---

    async def _keep_appointment(self, cron_job: Obj, status: Obj) -> tuple[float | None, Obj]:
        """Make the job that is due, if any; the seconds until the next one and the status after that."""
        if cron_job["metadata"].get("deletionTimestamp") or cron_job["spec"].get("suspend"):
            return None, status
        try:
            look = Look(cron_job, Schedule.of(cron_job), status)
        except ValueError as error:
            reason = "UnknownTimeZone" if "timeZone" in str(error) else "UnparseableCronJobSchedule"
            self._bench.recorder.warning(cron_job, reason, str(error))
            return None, status
        scheduled = self._missed(look)
        if scheduled is not None and scheduled != look.due and not self._is_too_late(look, scheduled) and self._may_start(look):
            await self._start(look, scheduled)
        return self._until_next(look), look.status

    def _missed(self, look: Look) -> float | None:
        now, since = self._bench.now(), look.due
        deadline = look.cron_job["spec"].get("startingDeadlineSeconds")
        if deadline is not None:
            since = max(since, now - deadline)
        last, count = look.schedule.missed(since, now)
        if count > MANY:
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._bench.recorder.warning(look.cron_job, "TooManyMissedTimes", message)
        return last

    def _until_next(self, look: Look) -> float | None:
        now = self._bench.now()
        last, _ = look.schedule.missed(look.due, now)
        upcoming = look.schedule.next(last or look.due)
        return None if upcoming is None else round(upcoming - now, 6)

    def _is_too_late(self, look: Look, scheduled: float) -> bool:
        deadline = look.cron_job["spec"].get("startingDeadlineSeconds")
        if deadline is None or scheduled + deadline >= self._bench.now():
            return False
        moment = datetime.datetime.fromtimestamp(scheduled, look.schedule.zone)
        message = f"Missed scheduled time to start a job: {moment:%a, %d %b %Y %H:%M:%S %z}"
        self._bench.recorder.warning(look.cron_job, "MissSchedule", message)
        return True

    def _may_start(self, look: Look) -> bool:
        if look.cron_job["spec"].get("concurrencyPolicy") != "Forbid" or not look.status.get("active"):
            return True
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        self._bench.recorder.normal(look.cron_job, "JobAlreadyActive", message)
        return False

    async def _start(self, look: Look, scheduled: float) -> None:
        cron_job = look.cron_job
        if cron_job["spec"].get("concurrencyPolicy") == "Replace":
            for reference in look.status.pop("active", ()):
                await self._delete(cron_job, reference["name"])
        job = build_job(cron_job, look.schedule, scheduled)
        try:
            made = await self._bench.api.create(JOBS, job, cron_job["metadata"]["namespace"])
        except AlreadyExists:
            made = await self._claim_namesake(cron_job, job)
        except ApiError as error:
            if not in_terminating_namespace(error):
                self._bench.recorder.warning(cron_job, "FailedCreate", f"Error creating job: {error.message}")
            raise
        else:
            self._bench.recorder.normal(cron_job, "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        active = [*look.status.get("active", ()), history.reference_to(made)]
        look.status = {**look.status, "active": active, "lastScheduleTime": timestamp_of(scheduled)}

    async def _claim_namesake(self, cron_job: Obj, job: Obj) -> Obj:
        """A job of this name is there: ours, made before the status could be written, or somebody else's."""
        found = await self._bench.api.get(JOBS, job["metadata"]["name"], cron_job["metadata"]["namespace"])
        if not owners.is_controlled_by(found, cron_job):
            message = f"Error creating job: job object {found['metadata']['name']} already exists"
            self._bench.recorder.warning(cron_job, "FailedCreate", message)
            raise AlreadyExists(message)
        return found
