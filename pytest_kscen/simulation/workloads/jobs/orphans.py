"""Pods whose job is gone while it still held them: nobody will count them any more, so they are let go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import JOBS, PODS
from pytest_kscen.simulation.workloads.jobs.tracking import is_tracked, untrack
from pytest_kscen.simulation.workloads.owners import controlled, controller_of

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench


class OrphanedPods:
    """The controller."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._jobs, self._pods = bench.informers.of(JOBS), bench.informers.of(PODS)
        self._pods_of = controlled(self._pods)
        self._controller = bench.controller(self._reconcile, self._jobs, self._pods)
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
        if pod is None or not is_tracked(pod) or self._has_job(pod) or await self._has_living_job(pod):
            return
        await untrack(self._bench.api, pod)

    async def _has_living_job(self, pod: Obj) -> bool:
        """Asked of the API itself: the picture of jobs may be behind that of pods."""
        reference = controller_of(pod)
        if reference is None or reference["kind"] != JOBS.kind:
            return False
        try:
            job = await self._bench.api.get(JOBS, reference["name"], pod["metadata"]["namespace"])
        except NotFound:
            return False
        return bool(job["metadata"]["uid"] == reference["uid"])
