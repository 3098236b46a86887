"""The pods at work for a job: as many as its parallelism and its missing completions allow,
fewer when it is over.
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
    """A pod; with an index, and how often pods of this index have failed and were ignored, if
    that is limited.
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
    return {
        **pod,
        "spec": {**pod["spec"], "hostname": f"{name}-{index}", **_with_index_variable(pod["spec"])},
    }


def _with_index_variable(spec: Obj) -> Obj:
    return {
        kind: [{**container, "env": _environment(container)} for container in spec[kind]]
        for kind in ("initContainers", "containers")
        if spec.get(kind)
    }


def _environment(container: Obj) -> list[Obj]:
    own = container.get("env") or []
    return (
        own
        if any(variable["name"] == INDEX_VARIABLE["name"] for variable in own)
        else [*own, INDEX_VARIABLE]
    )


FIRST_BACKOFF, MAX_BACKOFF = 10.0, 600.0


@dataclass(frozen=True, slots=True)
class BackoffRecord:
    """The failures since the last success."""

    failures: int = 0
    last: float = 0.0

    def after(self, finished: Iterable[Obj]) -> BackoffRecord:
        """With these pods, which have just finished."""
        record = self
        for pod in sorted(finished, key=finished_at):
            record = (
                BackoffRecord()
                if phase(pod) == "Succeeded"
                else BackoffRecord(record.failures + 1, max(record.last, finished_at(pod)))
            )
        return record

    def wait(self, now: float) -> float:
        """The seconds until another pod may be made."""
        return remaining_backoff(self.failures, self.last, now)


def remaining_backoff(failures: int, last: float, now: float) -> float:
    if not failures:
        return 0.0
    pause: float = min(FIRST_BACKOFF * 2 ** (failures - 1), MAX_BACKOFF)
    return max(0.0, round(last + pause - now, 6))


BURST = 500  # pods that one look makes or deletes at most


class JobPodWriter:
    """Hands for a job's pods. What they change they write into the tally as well."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._pods = PodControl(context)

    async def dismiss(self, tally: JobState) -> None:
        """The job is over: whoever still works is deleted, and will be booked as it ends."""
        for pod in list(tally.active):
            await self._delete(tally, pod)

    async def fill(self, tally: JobState, record: BackoffRecord) -> float | None:
        """Bring the crew to its size; the seconds until it may grow further."""
        size = self._size(tally)
        if surplus := self._surplus(tally, size):
            for pod in surplus[:BURST]:
                await self._delete(tally, await untrack(self._context.api, pod))
            return None
        standing = len(tally.active) + (tally.terminating if replaces_failed_only(tally.job) else 0)
        if standing >= size:
            return None
        if not tally.limited_per_index and (wait := record.wait(self._context.now())):
            return wait
        count = min(size - standing, BURST)
        return await (self._add_indexes(tally, count) if tally.indexed else self._add(tally, count))

    @staticmethod
    def _size(tally: JobState) -> int:
        parallelism: int = tally.job["spec"].get("parallelism", 1)
        if tally.suspended:
            return 0
        if tally.completions is None:
            return len(tally.active) if tally.succeeded else parallelism
        return max(
            0, min(parallelism, tally.completions - tally.succeeded - len(tally.failed_indexes))
        )

    def _surplus(self, tally: JobState, size: int) -> list[Obj]:
        """Pods without an index of the job, second pods of one index, and then whoever can best
        be spared.
        """
        misplaced, rest = self._misplaced(tally) if tally.indexed else ([], tally.active)
        spare = max(0, len(rest) - size)
        return [*misplaced, *by_deletion_rank(rest, {}, self._context.now())[:spare]]

    @staticmethod
    def _misplaced(tally: JobState) -> tuple[list[Obj], list[Obj]]:
        misplaced, chosen = [], {}
        for pod in sorted(tally.active, key=lambda pod: pod["metadata"]["creationTimestamp"]):
            index = job_state.index_of(pod, tally.job)
            if index is None or index in chosen or index in tally.succeeded_indexes:
                misplaced.append(pod)
            else:
                chosen[index] = pod
        return misplaced, list(chosen.values())

    async def _add(self, tally: JobState, count: int) -> None:
        pod = build_pod(tally.job)
        for _ in range(count):
            await self._create(tally, pod)

    async def _add_indexes(self, tally: JobState, count: int) -> float | None:
        """The lowest indexes first; one that has failed before waits its turn alone."""
        held, waits = tally.held_back(), []
        for index in tally.missing_indexes():
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
            failures = self._failures(tally, last) if tally.limited_per_index else None
            await self._create(tally, build_pod(tally.job, index, failures))
            count -= 1
        return min(waits, default=None)

    @staticmethod
    def _failures(tally: JobState, last: Obj | None) -> tuple[int, int]:
        """What a new pod carries on of its predecessor's count."""
        if last is None:
            return 0, 0
        counts = match_failure_policy(tally.job, last).counts
        return job_state.failures_of(last) + counts, job_state.ignored_failures_of(last) + (
            not counts
        )

    async def _create(self, tally: JobState, pod: Obj) -> None:
        made = await self._pods.create(tally.job, pod)
        tally.active.append(made)
        tally.pods.append(made)

    async def _delete(self, tally: JobState, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        await self._pods.delete(tally.job, pod)
        gone = {
            **pod,
            "metadata": {**pod["metadata"], "deletionTimestamp": self._context.timestamp()},
        }
        tally.active = [other for other in tally.active if other["metadata"]["uid"] != uid]
        tally.pods = [gone if other["metadata"]["uid"] == uid else other for other in tally.pods]
        tally.terminating += 1
