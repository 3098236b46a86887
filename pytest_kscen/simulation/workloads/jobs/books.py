"""How finished pods are booked: written down by uid in the job's status, released from their finalizer, then counted.

The job's end is announced with the first of these writes, and told when all its pods are gone and every one is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import condition, set_condition
from pytest_kscen.objects.resources import JOBS
from pytest_kscen.simulation.workloads.jobs import indexes
from pytest_kscen.simulation.workloads.jobs.failures import has_failed, ruling
from pytest_kscen.simulation.workloads.jobs.tracking import is_tracked, untrack
from pytest_kscen.simulation.workloads.jobs.verdict import COMPLETE, FAILED, Verdict
from pytest_kscen.simulation.workloads.podstate import phase

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.workloads.jobs.tally import Tally

MOST_UNCOUNTED = 500


@dataclass(slots=True)
class Page:
    """What one look books."""

    tally: Tally
    verdict: Verdict | None
    job: Obj
    """As it was last written."""
    status: Obj
    """As it should be."""
    leaving: list[Obj]
    more: bool


class Books:
    """Hands for a job's status and its pods' finalizers."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def write_down(self, tally: Tally, before: Obj, verdict: Verdict | None, conditions: list[Obj]) -> Page:
        """Note what has finished since the last look; written at once if there is anything."""
        leaving = _leaving(tally, verdict)
        page = Page(tally, verdict, before, {}, leaving[:MOST_UNCOUNTED], len(leaving) > MOST_UNCOUNTED)
        noted = {outcome: list(uids) for outcome, uids in tally.uncounted.items()}
        for pod in page.leaving:
            uid, outcome = pod["metadata"]["uid"], _outcome(tally, verdict, pod)
            if outcome and uid not in noted[outcome]:
                noted[outcome].append(uid)
        if verdict:
            now = self._bench.timestamp()
            if not condition({"status": {"conditions": conditions}}, verdict.announcement["type"]):
                conditions = set_condition(conditions, {**verdict.announcement, "lastProbeTime": now}, now)
        page.status = _status(tally, conditions, noted)
        old = before.get("status") or {}
        if noted != tally.uncounted or any(
            page.status.get(name) != old.get(name) for name in ("completedIndexes", "failedIndexes")
        ):
            await self._write(page)
        return page

    async def settle(self, page: Page) -> bool:
        """Release the pods, count them, and close the books if the job is over; whether there is more to book."""
        for pod in page.leaving:
            await untrack(self._bench.api, pod)
        tracked = {pod["metadata"]["uid"] for pod in page.tally.pods if is_tracked(pod)}
        self._count(page, tracked - {pod["metadata"]["uid"] for pod in page.leaving})
        tally, uncounted = page.tally, page.status["uncountedTerminatedPods"]
        if page.verdict and not (tally.active or tally.terminating or uncounted or page.more):
            self._close(page, page.verdict)
        if page.status != (page.job.get("status") or {}):
            await self._write(page)
        return page.more

    @staticmethod
    def _count(page: Page, still: set[str]) -> None:
        """Move the pods that were written down and are released into the sums."""
        noted = page.status.get("uncountedTerminatedPods") or {}
        for outcome in ("succeeded", "failed"):
            uids = noted.get(outcome) or []
            if done := sum(uid not in still for uid in uids):
                page.status[outcome] = page.status.get(outcome, 0) + done
        kept = {outcome: [uid for uid in uids if uid in still] for outcome, uids in noted.items()}
        page.status["uncountedTerminatedPods"] = {outcome: uids for outcome, uids in kept.items() if uids}

    def _close(self, page: Page, verdict: Verdict) -> None:
        now = self._bench.timestamp()
        conditions = set_condition(page.status.get("conditions"), {**verdict.condition, "lastProbeTime": now}, now)
        page.status["conditions"] = conditions
        if verdict.outcome == COMPLETE:
            page.status["completionTime"] = now
            self._bench.recorder.normal(page.job, "Completed", "Job completed")
        else:
            self._bench.recorder.warning(page.job, verdict.reason, verdict.message)

    async def _write(self, page: Page) -> None:
        page.job = await self._bench.api.update(JOBS, {**page.job, "status": page.status}, subresource="status")
        page.status = dict(page.job["status"])


def _leaving(tally: Tally, verdict: Verdict | None) -> list[Obj]:
    """The pods that the job need not hold any longer."""
    held = [] if verdict else [pod["metadata"]["uid"] for pod in tally.held_back().values()]
    over = verdict is not None or bool(tally.job["metadata"].get("deletionTimestamp"))
    tracked = (pod for pod in tally.pods if is_tracked(pod) and pod["metadata"]["uid"] not in held)
    return [pod for pod in tracked if over or phase(pod) == "Succeeded" or has_failed(pod, tally.job)]


def _outcome(tally: Tally, verdict: Verdict | None, pod: Obj) -> str:
    """How a pod is counted by its uid; "" if it is not: indexes count for themselves, and so does what a success cuts off."""
    if phase(pod) == "Succeeded":
        return "" if tally.indexed else "succeeded"
    if verdict and verdict.outcome == COMPLETE and phase(pod) != "Failed":
        return ""
    failed = has_failed(pod, tally.job) or (verdict is not None and verdict.outcome == FAILED)
    counts = failed and ruling(tally.job, pod).counts
    return "failed" if counts and (not tally.indexed or indexes.index_of(pod, tally.job) is not None) else ""


def _status(tally: Tally, conditions: list[Obj], noted: dict[str, list[str]]) -> Obj:
    kept = {name: value for name, value in tally.job["status"].items() if name not in {"active", "conditions", "succeeded"}}
    succeeded = len(tally.succeeded_indexes) if tally.indexed else tally.job["status"].get("succeeded", 0)
    return {
        **kept,
        **({"conditions": conditions} if conditions else {}),
        **({"active": len(tally.active)} if tally.active else {}),
        "ready": tally.ready(),
        "terminating": tally.terminating,
        **({"succeeded": succeeded} if succeeded else {}),
        **({"completedIndexes": indexes.written(tally.succeeded_indexes)} if tally.succeeded_indexes else {}),
        **({"failedIndexes": indexes.written(tally.failed_indexes)} if tally.limited_per_index else {}),
        "uncountedTerminatedPods": {outcome: uids for outcome, uids in noted.items() if uids},
    }
