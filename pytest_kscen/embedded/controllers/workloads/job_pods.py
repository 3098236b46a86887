"""Create and delete a Job's pods: as many as parallelism and missing completions allow, none after
its end.

Called by `jobs` once per reconciliation; counting finished pods is `job_completion`'s work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controllers.pod_control import MAX_GENERATE_NAME, PodControl, pod_of
from pytest_kscen.embedded.controllers.pod_state import by_deletion_rank, phase
from pytest_kscen.embedded.controllers.workloads import job_state
from pytest_kscen.embedded.controllers.workloads.job_state import (
    FAILURES,
    FINALIZER,
    IGNORED_FAILURES,
    INDEX,
    JobState,
    attempts_of,
    finished_at,
    match_failure_policy,
    replaces_failed_only,
    untrack,
)
from pytest_kscen.objects.resources import JOBS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj


INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}


def build_pod(job: Obj, index: int | None = None, failures: tuple[int, int] | None = None) -> Obj:
    """Return a pod of the Job with the tracking finalizer.

    With an index, it is also in the name, a label and the environment. `failures` are the counted
    and the ignored failures of the index, if they are limited.
    """
    pod, name = pod_of(job["spec"]["template"], job, JOBS), job["metadata"]["name"]
    metadata = pod["metadata"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
    text = name if index is None else f"{name}-{index}"
    metadata["generateName"] = f"{text}-"[:MAX_GENERATE_NAME]
    if index is None:
        return pod
    counted = {FAILURES: str(failures[0])} if failures else {}
    ignored = {IGNORED_FAILURES: str(failures[1])} if failures and failures[1] else {}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        INDEX: str(index),
        **counted,
        **ignored,
    }
    metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: str(index)}
    containers: dict[str, list[Obj]] = {}
    for kind in ("initContainers", "containers"):
        for container in pod["spec"].get(kind) or ():
            own = container.get("env") or []
            is_set = any(variable["name"] == INDEX_VARIABLE["name"] for variable in own)
            env = own if is_set else [*own, INDEX_VARIABLE]
            containers.setdefault(kind, []).append({**container, "env": env})
    return {
        **pod,
        "spec": {**pod["spec"], "hostname": f"{name}-{index}", **containers},
    }


FIRST_BACKOFF, MAX_BACKOFF = 10.0, 600.0


@dataclass(frozen=True, slots=True)
class BackoffRecord:
    """Failures of a Job's pods since the last success, and the time of the last one (epoch
    seconds). Delays the next pod.
    """

    failures: int = 0
    last: float = 0.0

    def after(self, finished: Iterable[Obj]) -> BackoffRecord:
        """Return the record after these pods, which have finished since; they are processed in
        the order in which they finished.
        """
        record = self
        for pod in sorted(finished, key=finished_at):
            record = (
                BackoffRecord()
                if phase(pod) == "Succeeded"
                else BackoffRecord(record.failures + 1, max(record.last, finished_at(pod)))
            )
        return record

    def wait(self, now: float) -> float:
        """Return the seconds until another pod may be created. It waits 10 s after the first
        failure, twice as long after each further one, at most 10 minutes.
        """
        return remaining_backoff(self.failures, self.last, now)


def remaining_backoff(failures: int, last: float, now: float) -> float:
    if not failures:
        return 0.0
    delay: float = min(FIRST_BACKOFF * 2 ** (failures - 1), MAX_BACKOFF)
    return max(0.0, round(last + delay - now, 6))


BURST = 500  # pods created or deleted per reconciliation, at most


class JobPodWriter:
    """Create and delete the pods of Jobs. Every change is stored in the state as well, so that
    the status counts it.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._pods = PodControl(context)

    async def delete_active(self, state: JobState) -> None:
        """Delete all active pods of a Job that is over; they are counted when they have
        terminated.
        """
        for pod in list(state.active):
            await self._delete(state, pod)

    async def manage(self, state: JobState, record: BackoffRecord) -> float | None:
        """Bring the number of active pods to the wanted size, at most `BURST` pods at a time.

        Return the seconds until a back-off allows further pods, or None.
        """
        size = self._size(state)
        misplaced: list[Obj] = []
        rest = state.active
        if state.indexed:
            chosen: dict[int, Obj] = {}
            for pod in sorted(state.active, key=lambda pod: pod["metadata"]["creationTimestamp"]):
                index = job_state.index_of(pod, state.job)
                if index is None or index in chosen or index in state.succeeded_indexes:
                    misplaced.append(pod)
                else:
                    chosen[index] = pod
            rest = list(chosen.values())
        excess = max(0, len(rest) - size)
        if surplus := [*misplaced, *by_deletion_rank(rest, {}, self._context.now())[:excess]]:
            for pod in surplus[:BURST]:
                await self._delete(state, await untrack(self._context.api, pod))
            return None
        current = len(state.active) + (state.terminating if replaces_failed_only(state.job) else 0)
        if current >= size:
            return None
        if not state.limited_per_index and (wait := record.wait(self._context.now())):
            return wait
        count = min(size - current, BURST)
        if state.indexed:
            return await self._add_indexes(state, count)
        pod = build_pod(state.job)
        for _ in range(count):
            await self._create(state, pod)
        return None

    @staticmethod
    def _size(state: JobState) -> int:
        parallelism: int = state.job["spec"].get("parallelism", 1)
        if state.suspended:
            return 0
        if state.completions is None:
            return len(state.active) if state.succeeded else parallelism
        return max(
            0, min(parallelism, state.completions - state.succeeded - len(state.failed_indexes))
        )

    async def _add_indexes(self, state: JobState, count: int) -> float | None:
        """Create pods for missing indexes, the lowest first; an index that has failed waits for its
        own back-off.

        Return the seconds until the first of these ends, or None.
        """
        held, waits = state.held_back(), []
        for index in state.missing_indexes():
            if not count:
                break
            last = held.get(index)
            if last and (
                wait := remaining_backoff(
                    attempts_of(last) + 1, finished_at(last), self._context.now()
                )
            ):
                waits.append(wait)
                continue
            failures = None
            if state.limited_per_index:
                # The pod inherits the failures of the last failed pod of its index.
                counted = ignored = 0
                if last:
                    counts = match_failure_policy(state.job, last).counts
                    counted = job_state.failures_of(last) + counts
                    ignored = job_state.ignored_failures_of(last) + (not counts)
                failures = counted, ignored
            await self._create(state, build_pod(state.job, index, failures))
            count -= 1
        return min(waits, default=None)

    async def _create(self, state: JobState, pod: Obj) -> None:
        made = await self._pods.create(state.job, pod)
        state.active.append(made)
        state.pods.append(made)

    async def _delete(self, state: JobState, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        await self._pods.delete(state.job, pod)
        gone = {
            **pod,
            "metadata": {**pod["metadata"], "deletionTimestamp": self._context.timestamp()},
        }
        state.active = [other for other in state.active if other["metadata"]["uid"] != uid]
        state.pods = [gone if other["metadata"]["uid"] == uid else other for other in state.pods]
        state.terminating += 1
