"""Whether a job is over, and why. Pure: the first reason that holds, in Kubernetes' order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.controllers.pod_state import phase
from pytest_kscen.embedded.controllers.workloads import job_state
from pytest_kscen.embedded.controllers.workloads.job_state import (
    FAIL_JOB,
    container_restarts,
    has_failed,
    is_tracked,
    match_failure_policy,
    untrack,
)
from pytest_kscen.objects.conditions import condition, is_true, set_condition
from pytest_kscen.objects.resources import JOBS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.controllers.workloads.job_state import JobState
    from pytest_kscen.objects.resources import Obj


COMPLETE, FAILED = "Complete", "Failed"
INTERIM_CONDITIONS = {COMPLETE: "SuccessCriteriaMet", FAILED: "FailureTarget"}
"""The condition that announces the end while pods are still being brought down."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How a job ends."""

    outcome: str
    reason: str
    message: str

    @property
    def condition(self) -> Obj:
        return {
            "type": self.outcome,
            "status": "True",
            "reason": self.reason,
            "message": self.message,
        }

    @property
    def announcement(self) -> Obj:
        return {**self.condition, "type": INTERIM_CONDITIONS[self.outcome]}


def is_finished(job: Obj) -> bool:
    return is_true(job, COMPLETE) or is_true(job, FAILED)


def find_outcome(tally: JobState, now: float) -> JobOutcome | None:
    for reason_to_end in _OUTCOME_RULES:
        if verdict := reason_to_end(tally, now):
            return verdict
    return None


def completion_outcome(tally: JobState, active: int) -> JobOutcome | None:
    """Whether enough pods have succeeded; a job that names no number waits for the rest to end."""
    enough = (
        tally.succeeded > 0 if tally.completions is None else tally.succeeded >= tally.completions
    )
    if not enough or active:
        return None
    return JobOutcome(COMPLETE, "CompletionsReached", "Reached expected number of succeeded pods")


def seconds_until_deadline(tally: JobState, now: float) -> float | None:
    """The seconds until the job has been active for too long."""
    started, limit = (
        (tally.job.get("status") or {}).get("startTime"),
        tally.job["spec"].get("activeDeadlineSeconds"),
    )
    if not started or limit is None or tally.suspended:
        return None
    deadline: float = epoch_of(started) + limit
    return max(0.0, round(deadline - now, 6))


def _interim_outcome(tally: JobState, _: float) -> JobOutcome | None:
    for outcome, announcement in INTERIM_CONDITIONS.items():
        found = condition(tally.job, announcement)
        if found and found["status"] == "True":
            return JobOutcome(outcome, found["reason"], found["message"])
    return None


def _failed_by_policy(tally: JobState, _: float) -> JobOutcome | None:
    for pod in tally.pods:
        if is_tracked(pod) and has_failed(pod, tally.job):
            judged = match_failure_policy(tally.job, pod)
            if judged.action == FAIL_JOB:
                return JobOutcome(FAILED, "PodFailurePolicy", judged.message)
    return None


def _failed_too_often(tally: JobState, _: float) -> JobOutcome | None:
    spec = tally.job["spec"]
    limit = spec.get("backoffLimit", 2**31 - 1 if tally.limited_per_index else 6)
    in_place = 0
    if spec["template"]["spec"].get("restartPolicy") == "OnFailure":
        in_place = container_restarts(tally.active)
    if tally.failed > limit or (in_place and in_place >= limit):
        return JobOutcome(
            FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        )
    return None


def _deadline_exceeded(tally: JobState, now: float) -> JobOutcome | None:
    if seconds_until_deadline(tally, now) == 0:
        return JobOutcome(
            FAILED, "DeadlineExceeded", "Job was active longer than specified deadline"
        )
    return None


def _indexes_failed(tally: JobState, _: float) -> JobOutcome | None:
    failed, most = len(tally.failed_indexes), tally.job["spec"].get("maxFailedIndexes")
    if most is not None and failed > most:
        return JobOutcome(
            FAILED,
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        )
    if failed and failed + len(tally.succeeded_indexes) >= (tally.completions or 0):
        return JobOutcome(FAILED, "FailedIndexes", "Job has failed indexes")
    return None


def _succeeded_by_policy(tally: JobState, _: float) -> JobOutcome | None:
    for place, rule in enumerate((tally.job["spec"].get("successPolicy") or {}).get("rules") or ()):
        wanted = (
            job_state.parse_indexes(rule["succeededIndexes"])
            if rule.get("succeededIndexes")
            else range(tally.completions or 0)
        )
        met = sum(index in wanted for index in tally.succeeded_indexes)
        if met >= rule.get("succeededCount", len(wanted)):
            return JobOutcome(COMPLETE, "SuccessPolicy", f"Matched rules at index {place}")
    return None


_OUTCOME_RULES: tuple[Callable[[JobState, float], JobOutcome | None], ...] = (
    _interim_outcome,
    _failed_by_policy,
    _failed_too_often,
    _deadline_exceeded,
    _indexes_failed,
    _succeeded_by_policy,
)


MOST_UNCOUNTED = 500


@dataclass(slots=True)
class JobStatusUpdate:
    """What one look books."""

    tally: JobState
    verdict: JobOutcome | None
    job: Obj
    """As it was last written."""
    status: Obj
    """As it should be."""
    leaving: list[Obj]
    more: bool


class JobStatusWriter:
    """Hands for a job's status and its pods' finalizers."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def write_down(
        self, tally: JobState, before: Obj, verdict: JobOutcome | None, conditions: list[Obj]
    ) -> JobStatusUpdate:
        """Note what has finished since the last look; written at once if there is anything."""
        # The pods that the job need not hold any longer.
        held = [] if verdict else [pod["metadata"]["uid"] for pod in tally.held_back().values()]
        over = verdict is not None or bool(tally.job["metadata"].get("deletionTimestamp"))
        tracked = (
            pod for pod in tally.pods if is_tracked(pod) and pod["metadata"]["uid"] not in held
        )
        leaving = [
            pod
            for pod in tracked
            if over or phase(pod) == "Succeeded" or has_failed(pod, tally.job)
        ]
        page = JobStatusUpdate(
            tally, verdict, before, {}, leaving[:MOST_UNCOUNTED], len(leaving) > MOST_UNCOUNTED
        )
        noted = {outcome: list(uids) for outcome, uids in tally.uncounted.items()}
        for pod in page.leaving:
            uid, outcome = pod["metadata"]["uid"], _counted_outcome(tally, verdict, pod)
            if outcome and uid not in noted[outcome]:
                noted[outcome].append(uid)
        if verdict:
            now = self._context.timestamp()
            if not condition({"status": {"conditions": conditions}}, verdict.announcement["type"]):
                conditions = set_condition(
                    conditions, {**verdict.announcement, "lastProbeTime": now}, now
                )
        page.status = _status(tally, conditions, noted)
        old = before.get("status") or {}
        if noted != tally.uncounted or any(
            page.status.get(name) != old.get(name) for name in ("completedIndexes", "failedIndexes")
        ):
            await self._write(page)
        return page

    async def settle(self, page: JobStatusUpdate) -> bool:
        """Release the pods, count them, and close the books if the job is over; whether there is
        more to book.
        """
        for pod in page.leaving:
            await untrack(self._context.api, pod)
        tracked = {pod["metadata"]["uid"] for pod in page.tally.pods if is_tracked(pod)}
        self._count(page, tracked - {pod["metadata"]["uid"] for pod in page.leaving})
        tally, uncounted = page.tally, page.status["uncountedTerminatedPods"]
        if page.verdict and not (tally.active or tally.terminating or uncounted or page.more):
            verdict = page.verdict
            now = self._context.timestamp()
            conditions = set_condition(
                page.status.get("conditions"), {**verdict.condition, "lastProbeTime": now}, now
            )
            page.status["conditions"] = conditions
            if verdict.outcome == COMPLETE:
                page.status["completionTime"] = now
                self._context.recorder.normal(page.job, "Completed", "Job completed")
            else:
                self._context.recorder.warning(page.job, verdict.reason, verdict.message)
        if page.status != (page.job.get("status") or {}):
            await self._write(page)
        return page.more

    @staticmethod
    def _count(page: JobStatusUpdate, still: set[str]) -> None:
        """Move the pods that were written down and are released into the sums."""
        noted = page.status.get("uncountedTerminatedPods") or {}
        for outcome in ("succeeded", "failed"):
            uids = noted.get(outcome) or []
            if done := sum(uid not in still for uid in uids):
                page.status[outcome] = page.status.get(outcome, 0) + done
        kept = {outcome: [uid for uid in uids if uid in still] for outcome, uids in noted.items()}
        page.status["uncountedTerminatedPods"] = {
            outcome: uids for outcome, uids in kept.items() if uids
        }

    async def _write(self, page: JobStatusUpdate) -> None:
        page.job = await self._context.api.update(
            JOBS, {**page.job, "status": page.status}, subresource="status"
        )
        page.status = dict(page.job["status"])


def _counted_outcome(tally: JobState, verdict: JobOutcome | None, pod: Obj) -> str:
    """How a pod is counted by its uid; "" if it is not: indexes count for themselves, and so
    does what a success cuts off.
    """
    if phase(pod) == "Succeeded":
        return "" if tally.indexed else "succeeded"
    if verdict and verdict.outcome == COMPLETE and phase(pod) != "Failed":
        return ""
    failed = has_failed(pod, tally.job) or (verdict is not None and verdict.outcome == FAILED)
    counts = failed and match_failure_policy(tally.job, pod).counts
    return (
        "failed"
        if counts and (not tally.indexed or job_state.index_of(pod, tally.job) is not None)
        else ""
    )


def _status(tally: JobState, conditions: list[Obj], noted: dict[str, list[str]]) -> Obj:
    kept = {
        name: value
        for name, value in tally.job["status"].items()
        if name not in {"active", "conditions", "succeeded"}
    }
    succeeded = (
        len(tally.succeeded_indexes) if tally.indexed else tally.job["status"].get("succeeded", 0)
    )
    return {
        **kept,
        **({"conditions": conditions} if conditions else {}),
        **({"active": len(tally.active)} if tally.active else {}),
        "ready": tally.ready(),
        "terminating": tally.terminating,
        **({"succeeded": succeeded} if succeeded else {}),
        **(
            {"completedIndexes": job_state.format_indexes(tally.succeeded_indexes)}
            if tally.succeeded_indexes
            else {}
        ),
        **(
            {"failedIndexes": job_state.format_indexes(tally.failed_indexes)}
            if tally.limited_per_index
            else {}
        ),
        "uncountedTerminatedPods": {outcome: uids for outcome, uids in noted.items() if uids},
    }
