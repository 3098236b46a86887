"""The life of a job: tally its pods, judge whether it is over, bring pods up or down, and book what has finished.

Changes of pods are looked at once a second, so that many of them make one entry in the books.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import is_true, set_condition
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import JOBS, PODS
from pytest_kscen.simulation.bench import follow
from pytest_kscen.simulation.workloads.claims import Claims
from pytest_kscen.simulation.workloads.jobs import verdict
from pytest_kscen.simulation.workloads.jobs.backoff import Record
from pytest_kscen.simulation.workloads.jobs.books import Books
from pytest_kscen.simulation.workloads.jobs.crew import Crew
from pytest_kscen.simulation.workloads.jobs.tally import Tally
from pytest_kscen.simulation.workloads.jobs.tracking import FINALIZER
from pytest_kscen.simulation.workloads.owners import Dependents
from pytest_kscen.simulation.workloads.pods import in_terminating_namespace

if TYPE_CHECKING:
    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench

BATCH = 1.0  # seconds that changes of pods are gathered
OURS = "kubernetes.io/job-controller"

SUSPENDED = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
RESUMED = {"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"}


class Jobs:
    """The controller."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._jobs = bench.informers.of(JOBS)
        pods = bench.informers.of(PODS)
        self._claims = Claims(bench, JOBS, PODS, finalizers=(FINALIZER,))
        self._crew = Crew(bench)
        self._books = Books(bench)
        self._backoffs: dict[str, Record] = {}
        self._controller = bench.controller(self._reconcile, self._jobs, pods)
        follow(self._controller, self._jobs)
        self._jobs.on_change(self._forget)
        Dependents(lambda ref: self._controller.enqueue_after(ref, BATCH), self._jobs, pods)

    async def run(self) -> None:
        await self._controller.run()

    def _forget(self, new: Obj | None, old: Obj | None) -> None:
        if new is None and old:
            self._backoffs.pop(old["metadata"]["uid"], None)

    async def _reconcile(self, ref: Ref) -> float | None:
        job = self._jobs.objects.get(ref)
        if job is None or verdict.is_finished(job) or job["spec"].get("managedBy", OURS) != OURS:
            return None
        tally = Tally(self._started(job), await self._claims.of(job))
        record = self._record(tally)
        failure, wait = None, None
        judged = verdict.judge(tally, self._bench.now())
        try:
            if judged:
                await self._crew.dismiss(tally)
            elif not job["metadata"].get("deletionTimestamp"):
                wait = await self._crew.fill(tally, record)
                judged = verdict.completed(tally, len(tally.active))
        except ApiError as error:
            failure = None if in_terminating_namespace(error) else error
        page = await self._books.write_down(tally, job, judged, self._with_suspension(tally))
        self._backoffs[job["metadata"]["uid"]] = record
        more = await self._books.settle(page)
        if failure:
            raise failure
        overdue = None if judged else verdict.overdue_in(tally, self._bench.now())
        return 0.0 if more else min((seconds for seconds in (wait, overdue) if seconds is not None), default=None)

    def _started(self, job: Obj) -> Obj:
        """The job with the time at which it started, or started again; none while it is suspended."""
        status = job.get("status") or {}
        suspended, was_suspended = bool(job["spec"].get("suspend")), is_true(job, "Suspended")
        if suspended:
            status = {name: value for name, value in status.items() if name != "startTime"}
        elif was_suspended or not status.get("startTime"):
            status = {**status, "startTime": self._bench.timestamp()}
        return {**job, "status": status}

    def _with_suspension(self, tally: Tally) -> list[Obj]:
        """The job's conditions, with a note of being suspended or resumed if that has changed."""
        conditions: list[Obj] = list(tally.job["status"].get("conditions") or ())
        was_suspended = is_true(tally.job, "Suspended")
        if tally.suspended == was_suspended:
            return conditions
        now = self._bench.timestamp()
        words = SUSPENDED if tally.suspended else RESUMED
        self._bench.recorder.normal(tally.job, "Suspended" if tally.suspended else "Resumed", words["message"])
        return set_condition(conditions, {**words, "lastProbeTime": now}, now)

    def _record(self, tally: Tally) -> Record:
        before = self._backoffs.get(tally.job["metadata"]["uid"], Record())
        return before.after([*tally.new_succeeded(), *tally.new_failed()])
