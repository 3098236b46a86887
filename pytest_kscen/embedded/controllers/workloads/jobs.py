"""Run Jobs: start pods until enough have succeeded or too many have failed, and clean up
afterwards.

Three controllers, started by `actors`: Jobs, pods whose Job is gone, and finished Jobs with a time
to live.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.controller import Reconciler, follow
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


BATCH = 1.0  # seconds for which changes of pods are gathered
JOB_CONTROLLER = "kubernetes.io/job-controller"

SUSPENDED = {
    "type": "Suspended",
    "status": "True",
    "reason": "JobSuspended",
    "message": "Job suspended",
}
RESUMED = {"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"}


class Jobs(Reconciler):
    """Reconcile each Job: count its pods, check if it is finished, create or delete pods, and
    write the status.

    Changes of pods are gathered for `BATCH` seconds, so that many of them cause one status write.
    Jobs managed by another controller are ignored.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._jobs = context.informers.of(JOBS)
        pods = context.informers.of(PODS)
        self._ref_manager = ControllerRefManager(context, JOBS, PODS, finalizers=(FINALIZER,))
        self._pod_writer = JobPodWriter(context)
        self._status_writer = JobStatusWriter(context)
        self._backoffs: dict[str, BackoffRecord] = {}
        super().__init__(context, self._jobs, pods)
        follow(self._controller, self._jobs)

        def forget(new: Obj | None, old: Obj | None) -> None:
            if new is None and old:
                self._backoffs.pop(old["metadata"]["uid"], None)

        self._jobs.on_change(forget)
        OwnerEnqueuer(lambda ref: self._controller.enqueue_after(ref, BATCH), self._jobs, pods)

    async def _reconcile(self, ref: Ref) -> float | None:
        job = self._jobs.objects.get(ref)
        if (
            job is None
            or job_completion.is_finished(job)
            or job["spec"].get("managedBy", JOB_CONTROLLER) != JOB_CONTROLLER
        ):
            return None
        # The start time restarts after a suspension, and is absent during one.
        status = job.get("status") or {}
        suspended, was_suspended = bool(job["spec"].get("suspend")), is_true(job, "Suspended")
        if suspended:
            status = {name: value for name, value in status.items() if name != "startTime"}
        elif was_suspended or not status.get("startTime"):
            status = {**status, "startTime": self._context.timestamp()}
        state = JobState({**job, "status": status}, await self._ref_manager.claim(job))
        before = self._backoffs.get(state.job["metadata"]["uid"], BackoffRecord())
        record = before.after([*state.new_succeeded(), *state.new_failed()])
        failure, wait = None, None
        job_outcome = job_completion.find_outcome(state, self._context.now())
        try:
            if job_outcome:
                await self._pod_writer.delete_active(state)
            elif not job["metadata"].get("deletionTimestamp"):
                wait = await self._pod_writer.manage(state, record)
                job_outcome = job_completion.completion_outcome(state, len(state.active))
        except ApiError as error:
            failure = None if in_terminating_namespace(error) else error
        status_update = await self._status_writer.record_finished(
            state, job, job_outcome, self._with_suspension(state)
        )
        self._backoffs[job["metadata"]["uid"]] = record
        more = await self._status_writer.flush(status_update)
        if failure:
            raise failure
        overdue = (
            None
            if job_outcome
            else job_completion.seconds_until_deadline(state, self._context.now())
        )
        return (
            0.0
            if more
            else min((seconds for seconds in (wait, overdue) if seconds is not None), default=None)
        )

    def _with_suspension(self, state: JobState) -> list[Obj]:
        """Return the Job's conditions with Suspended brought up to date, and record an Event if
        it has changed.
        """
        conditions: list[Obj] = list(state.job["status"].get("conditions") or ())
        was_suspended = is_true(state.job, "Suspended")
        if state.suspended == was_suspended:
            return conditions
        now = self._context.timestamp()
        fields = SUSPENDED if state.suspended else RESUMED
        self._context.recorder.normal(
            state.job, "Suspended" if state.suspended else "Resumed", fields["message"]
        )
        return set_condition(conditions, {**fields, "lastProbeTime": now}, now)


class OrphanedPods(Reconciler):
    """Remove the tracking finalizer from pods whose Job no longer exists. Nothing will count
    these pods, and the finalizer would keep them for ever.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._jobs, self._pods = context.informers.of(JOBS), context.informers.of(PODS)
        self._pods_of = controller_index(self._pods)
        super().__init__(context, self._jobs, self._pods)

        def pod_changed(new: Obj | None, _: Obj | None) -> None:
            if new and is_tracked(new) and not self._has_job(new):
                self._controller.enqueue(Ref.of(new))

        def job_changed(new: Obj | None, old: Obj | None) -> None:
            if new is None and old:
                for pod in self._pods_of.of(old["metadata"]["uid"]):
                    self._controller.enqueue(Ref.of(pod))

        self._pods.on_change(pod_changed)
        self._jobs.on_change(job_changed)

    def _has_job(self, pod: Obj) -> bool:
        reference = controller_of(pod)
        if reference is None or reference["kind"] != JOBS.kind:
            return False
        job = self._jobs.get(reference["name"], pod["metadata"]["namespace"])
        return job is not None and bool(job["metadata"]["uid"] == reference["uid"])

    async def _reconcile(self, ref: Ref) -> None:
        pod = self._pods.objects.get(ref)
        if pod is None or not is_tracked(pod) or self._has_job(pod):
            return
        # The cache of Jobs may be behind the cache of pods, so the API confirms the absence.
        reference = controller_of(pod)
        if reference and reference["kind"] == JOBS.kind:
            with contextlib.suppress(NotFound):
                job = await self._context.api.get(JOBS, reference["name"], ref.namespace)
                if job["metadata"]["uid"] == reference["uid"]:
                    return
        await untrack(self._context.api, pod)


class FinishedJobs(Reconciler):
    """Delete finished Jobs, with their pods, when `ttlSecondsAfterFinished` has passed.
    Foreground deletion keeps the Job until its pods are gone.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._jobs = context.informers.of(JOBS)
        super().__init__(context, self._jobs)
        follow(self._controller, self._jobs)

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
    """Return the epoch seconds at which a finished Job may be deleted. None means that it runs
    or has no time to live.
    """
    ended = next(
        (
            found
            for outcome in (COMPLETE, FAILED)
            if (found := condition(job, outcome)) and found["status"] == "True"
        ),
        None,
    )
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    return epoch_of(ended["lastTransitionTime"]) + ttl if ended and ttl is not None else None
