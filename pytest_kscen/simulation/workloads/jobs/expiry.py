"""Finished jobs with a time to live: deleted, with their pods, when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import JOBS
from pytest_kscen.simulation.bench import follow
from pytest_kscen.simulation.workloads.jobs.verdict import COMPLETE, FAILED

if TYPE_CHECKING:
    from pytest_kscen.kube.informer import Ref
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench


class FinishedJobs:
    """The controller."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._jobs = bench.informers.of(JOBS)
        self._controller = bench.controller(self._reconcile, self._jobs)
        follow(self._controller, self._jobs)

    async def run(self) -> None:
        await self._controller.run()

    async def _reconcile(self, ref: Ref) -> float | None:
        job = self._jobs.objects.get(ref)
        expires = expires_at(job) if job else None
        if job is None or expires is None or job["metadata"].get("deletionTimestamp"):
            return None
        left = round(expires - self._bench.now(), 6)
        if left > 0:
            return left
        uid = job["metadata"]["uid"]
        try:
            await self._bench.api.delete(JOBS, ref.name, ref.namespace, propagation="Foreground", precondition_uid=uid)
        except NotFound:
            return None
        return None


def expires_at(job: Obj) -> float | None:
    """When a finished job has outlived its time, if it has one."""
    ended = next(
        (found for outcome in (COMPLETE, FAILED) if (found := condition(job, outcome)) and found["status"] == "True"), None
    )
    lives = job["spec"].get("ttlSecondsAfterFinished")
    return epoch_of(ended["lastTransitionTime"]) + lives if ended and lives is not None else None
