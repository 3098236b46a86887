"""One look at a job: its pods sorted by what they are to it, and the sums over those counted before and those not yet. Pure.

A pod that has finished is first written down by uid (`uncountedTerminatedPods`), then loses its finalizer, then is one more
in the sum: whatever breaks off in between, none is lost and none is counted twice. Indexes need no uid to be counted once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.simulation.workloads.jobs import indexes
from pytest_kscen.simulation.workloads.jobs.failures import FAIL_INDEX, finished_at, has_failed, ruling
from pytest_kscen.simulation.workloads.jobs.tracking import is_tracked
from pytest_kscen.simulation.workloads.podstate import is_active, is_ready, is_terminating, phase

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


@dataclass(slots=True)
class Tally:
    """The look."""

    job: Obj
    pods: list[Obj]
    active: list[Obj] = field(init=False)
    terminating: int = field(init=False)
    uncounted: dict[str, list[str]] = field(init=False)
    succeeded_indexes: list[int] = field(init=False)
    failed_indexes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        status = self.job.get("status") or {}
        listed = status.get("uncountedTerminatedPods") or {}
        self.active = [pod for pod in self.pods if is_active(pod)]
        self.terminating = sum(map(is_terminating, self.pods))
        self.uncounted = {outcome: list(listed.get(outcome) or ()) for outcome in ("succeeded", "failed")}
        self.succeeded_indexes = self._with_succeeded(indexes.parse(status.get("completedIndexes")))
        self.failed_indexes = self._with_failed(indexes.parse(status.get("failedIndexes")))

    # --- what the job wants ---

    @property
    def indexed(self) -> bool:
        return bool(self.job["spec"].get("completionMode") == "Indexed")

    @property
    def limited_per_index(self) -> bool:
        return "backoffLimitPerIndex" in self.job["spec"]

    @property
    def completions(self) -> int | None:
        wanted: int | None = self.job["spec"].get("completions")
        return wanted

    @property
    def suspended(self) -> bool:
        return bool(self.job["spec"].get("suspend"))

    # --- what there is ---

    def ready(self) -> int:
        return sum(map(is_ready, self.active))

    def new_succeeded(self) -> list[Obj]:
        """Pods that have succeeded and were not written down yet."""
        known = self.uncounted["succeeded"]
        return [pod for pod in self.pods if is_tracked(pod) and phase(pod) == "Succeeded" and pod["metadata"]["uid"] not in known]

    def new_failed(self) -> list[Obj]:
        """Pods that have failed, in a way that counts, and were not written down yet."""
        known = self.uncounted["failed"]
        failed = (pod for pod in self.pods if is_tracked(pod) and has_failed(pod, self.job))
        return [pod for pod in failed if pod["metadata"]["uid"] not in known and ruling(self.job, pod).counts]

    @property
    def succeeded(self) -> int:
        if self.indexed:
            return len(self.succeeded_indexes)
        return self._counted("succeeded") + len(self.new_succeeded()) + len(self.uncounted["succeeded"])

    @property
    def failed(self) -> int:
        return self._counted("failed") + len(self.new_failed()) + len(self.uncounted["failed"])

    def _counted(self, outcome: str) -> int:
        counted: int = (self.job.get("status") or {}).get(outcome, 0)
        return counted

    # --- indexes ---

    def _with_succeeded(self, known: list[int]) -> list[int]:
        if not self.indexed:
            return []
        new = [indexes.index_of(pod, self.job) for pod in self.pods if is_tracked(pod) and phase(pod) == "Succeeded"]
        return sorted({*known, *(index for index in new if index is not None)})

    def _with_failed(self, known: list[int]) -> list[int]:
        """Indexes that have failed too often, or in a way that the policy does not forgive."""
        if not self.limited_per_index:
            return []
        limit, found = self.job["spec"]["backoffLimitPerIndex"], {*known}
        for pod in self.pods:
            index = indexes.index_of(pod, self.job)
            if index is None or not is_tracked(pod) or not has_failed(pod, self.job):
                continue
            judged = ruling(self.job, pod)
            if judged.action == FAIL_INDEX or (judged.counts and indexes.failures_of(pod) >= limit):
                found.add(index)
        return sorted(found)

    def missing_indexes(self) -> list[int]:
        """Those that have neither ended nor a pod."""
        there = [pod for pod in self.pods if is_active(pod) or (is_terminating(pod) and not has_failed(pod, self.job))]
        taken = {*self.succeeded_indexes, *self.failed_indexes, *(indexes.index_of(pod, self.job) for pod in there)}
        return [index for index in range(self.completions or 0) if index not in taken]

    def held_back(self) -> dict[int, Obj]:
        """The last failed pod of each index that is to be tried again: it keeps count until its successor is there."""
        if not self.limited_per_index:
            return {}
        missing = set(self.missing_indexes())
        held: dict[int, Obj] = {}
        for pod in self.pods:
            index = indexes.index_of(pod, self.job)
            if index is not None and index in missing and is_tracked(pod) and has_failed(pod, self.job):
                last = held.get(index)
                if last is None or (attempts_of(last), finished_at(last)) <= (attempts_of(pod), finished_at(pod)):
                    held[index] = pod
        return held


def attempts_of(pod: Obj) -> int:
    return indexes.failures_of(pod) + indexes.ignored_failures_of(pod)
