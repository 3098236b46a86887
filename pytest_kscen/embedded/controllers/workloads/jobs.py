"""Jobs: pods that run until enough of them have succeeded, or too many have failed.

No container is run here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.controller import follow
from pytest_kscen.embedded.controllers.ownership import (
    ControllerRefManager,
    OwnerEnqueuer,
    controller_index,
    controller_of,
)
from pytest_kscen.embedded.controllers.pod_control import in_terminating_namespace
from pytest_kscen.embedded.controllers.workloads import job_completion
from pytest_kscen.embedded.controllers.workloads.job_completion import (
    COMPLETE,
    FAILED,
    JobStatusWriter,
)
from pytest_kscen.embedded.controllers.workloads.job_pods import BackoffRecord, JobPodWriter
from pytest_kscen.embedded.controllers.workloads.job_state import (
    FINALIZER,
    JobState,
    is_tracked,
    untrack,
)
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.conditions import condition, is_true, set_condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import JOBS, PODS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj


BATCH = 1.0  # seconds that changes of pods are gathered
JOB_CONTROLLER = "kubernetes.io/job-controller"

SUSPENDED = {
    "type": "Suspended",
    "status": "True",
    "reason": "JobSuspended",
    "message": "Job suspended",
}
RESUMED = {"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"}


class Jobs:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._jobs = context.informers.of(JOBS)
        pods = context.informers.of(PODS)
        self._claims = ControllerRefManager(context, JOBS, PODS, finalizers=(FINALIZER,))
        self._crew = JobPodWriter(context)
        self._books = JobStatusWriter(context)
        self._backoffs: dict[str, BackoffRecord] = {}
        self._controller = context.controller(self._reconcile, self._jobs, pods)
        follow(self._controller, self._jobs)
        self._jobs.on_change(self._forget)
        OwnerEnqueuer(lambda ref: self._controller.enqueue_after(ref, BATCH), self._jobs, pods)

    async def run(self) -> None:
        await self._controller.run()

    def _forget(self, new: Obj | None, old: Obj | None) -> None:
        if new is None and old:
            self._backoffs.pop(old["metadata"]["uid"], None)

    async def _reconcile(self, ref: Ref) -> float | None:
        job = self._jobs.objects.get(ref)
        if (
            job is None
            or job_completion.is_finished(job)
            or job["spec"].get("managedBy", JOB_CONTROLLER) != JOB_CONTROLLER
        ):
            return None
        # The job with the time at which it started, or started again; none while it is
        # suspended.
        status = job.get("status") or {}
        suspended, was_suspended = bool(job["spec"].get("suspend")), is_true(job, "Suspended")
        if suspended:
            status = {name: value for name, value in status.items() if name != "startTime"}
        elif was_suspended or not status.get("startTime"):
            status = {**status, "startTime": self._context.timestamp()}
        tally = JobState({**job, "status": status}, await self._claims.of(job))
        before = self._backoffs.get(tally.job["metadata"]["uid"], BackoffRecord())
        record = before.after([*tally.new_succeeded(), *tally.new_failed()])
        failure, wait = None, None
        judged = job_completion.find_outcome(tally, self._context.now())
        try:
            if judged:
                await self._crew.dismiss(tally)
            elif not job["metadata"].get("deletionTimestamp"):
                wait = await self._crew.fill(tally, record)
                judged = job_completion.completion_outcome(tally, len(tally.active))
        except ApiError as error:
            failure = None if in_terminating_namespace(error) else error
        page = await self._books.write_down(tally, job, judged, self._with_suspension(tally))
        self._backoffs[job["metadata"]["uid"]] = record
        more = await self._books.settle(page)
        if failure:
            raise failure
        overdue = (
            None if judged else job_completion.seconds_until_deadline(tally, self._context.now())
        )
        return (
            0.0
            if more
            else min((seconds for seconds in (wait, overdue) if seconds is not None), default=None)
        )

    def _with_suspension(self, tally: JobState) -> list[Obj]:
        """The job's conditions, with a note of being suspended or resumed if that has changed."""
        conditions: list[Obj] = list(tally.job["status"].get("conditions") or ())
        was_suspended = is_true(tally.job, "Suspended")
        if tally.suspended == was_suspended:
            return conditions
        now = self._context.timestamp()
        words = SUSPENDED if tally.suspended else RESUMED
        self._context.recorder.normal(
            tally.job, "Suspended" if tally.suspended else "Resumed", words["message"]
        )
        return set_condition(conditions, {**words, "lastProbeTime": now}, now)


class OrphanedPods:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._jobs, self._pods = context.informers.of(JOBS), context.informers.of(PODS)
        self._pods_of = controller_index(self._pods)
        self._controller = context.controller(self._reconcile, self._jobs, self._pods)
        self._pods.on_change(self._pod_changed)
        self._jobs.on_change(self._job_changed)

    async def run(self) -> None:
        await self._controller.run()

    def _pod_changed(self, new: Obj | None, _: Obj | None) -> None:
        if new and is_tracked(new) and not self._has_job(new):
            self._controller.enqueue(Ref.of(new))

    def _job_changed(self, new: Obj | None, old: Obj | None) -> None:
        if new is None and old:
            for pod in self._pods_of.of(old["metadata"]["uid"]):
                self._controller.enqueue(Ref.of(pod))

    def _has_job(self, pod: Obj) -> bool:
        reference = controller_of(pod)
        if reference is None or reference["kind"] != JOBS.kind:
            return False
        job = self._jobs.get(reference["name"], pod["metadata"]["namespace"])
        return job is not None and bool(job["metadata"]["uid"] == reference["uid"])

    async def _reconcile(self, ref: Ref) -> None:
        pod = self._pods.objects.get(ref)
        if (
            pod is None
            or not is_tracked(pod)
            or self._has_job(pod)
            or await self._has_living_job(pod)
        ):
            return
        await untrack(self._context.api, pod)

    async def _has_living_job(self, pod: Obj) -> bool:
        """Asked of the API itself: the picture of jobs may be behind that of pods."""
        reference = controller_of(pod)
        if reference is None or reference["kind"] != JOBS.kind:
            return False
        try:
            job = await self._context.api.get(JOBS, reference["name"], pod["metadata"]["namespace"])
        except NotFound:
            return False
        return bool(job["metadata"]["uid"] == reference["uid"])


class FinishedJobs:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._jobs = context.informers.of(JOBS)
        self._controller = context.controller(self._reconcile, self._jobs)
        follow(self._controller, self._jobs)

    async def run(self) -> None:
        await self._controller.run()

    async def _reconcile(self, ref: Ref) -> float | None:
        job = self._jobs.objects.get(ref)
        expires = expires_at(job) if job else None
        if job is None or expires is None or job["metadata"].get("deletionTimestamp"):
            return None
        left = round(expires - self._context.now(), 6)
        if left > 0:
            return left
        uid = job["metadata"]["uid"]
        try:
            await self._context.api.delete(
                JOBS, ref.name, ref.namespace, propagation="Foreground", precondition_uid=uid
            )
        except NotFound:
            return None
        return None


def expires_at(job: Obj) -> float | None:
    """When a finished job has outlived its time, if it has one."""
    ended = next(
        (
            found
            for outcome in (COMPLETE, FAILED)
            if (found := condition(job, outcome)) and found["status"] == "True"
        ),
        None,
    )
    lives = job["spec"].get("ttlSecondsAfterFinished")
    return epoch_of(ended["lastTransitionTime"]) + lives if ended and lives is not None else None
