"""Whether a job is over, and why. Pure: the first reason that holds, in Kubernetes' order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.conditions import condition, is_true
from pytest_kscen.simulation.workloads.jobs import indexes
from pytest_kscen.simulation.workloads.jobs.failures import FAIL_JOB, container_restarts, has_failed, ruling
from pytest_kscen.simulation.workloads.jobs.tracking import is_tracked

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.workloads.jobs.tally import Tally

COMPLETE, FAILED = "Complete", "Failed"
FORETOLD = {COMPLETE: "SuccessCriteriaMet", FAILED: "FailureTarget"}
"""The condition that announces the end while pods are still being brought down."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a job ends."""

    outcome: str
    reason: str
    message: str

    @property
    def condition(self) -> Obj:
        return {"type": self.outcome, "status": "True", "reason": self.reason, "message": self.message}

    @property
    def announcement(self) -> Obj:
        return {**self.condition, "type": FORETOLD[self.outcome]}


def is_finished(job: Obj) -> bool:
    return is_true(job, COMPLETE) or is_true(job, FAILED)


def judge(tally: Tally, now: float) -> Verdict | None:
    for reason_to_end in _REASONS:
        if verdict := reason_to_end(tally, now):
            return verdict
    return None


def completed(tally: Tally, active: int) -> Verdict | None:
    """Whether enough pods have succeeded; a job that names no number waits for the rest to end."""
    enough = tally.succeeded > 0 if tally.completions is None else tally.succeeded >= tally.completions
    if not enough or active:
        return None
    return Verdict(COMPLETE, "CompletionsReached", "Reached expected number of succeeded pods")


def overdue_in(tally: Tally, now: float) -> float | None:
    """The seconds until the job has been active for too long."""
    started, limit = (tally.job.get("status") or {}).get("startTime"), tally.job["spec"].get("activeDeadlineSeconds")
    if not started or limit is None or tally.suspended:
        return None
    deadline: float = epoch_of(started) + limit
    return max(0.0, round(deadline - now, 6))


def _announced(tally: Tally, _: float) -> Verdict | None:
    for outcome, announcement in FORETOLD.items():
        found = condition(tally.job, announcement)
        if found and found["status"] == "True":
            return Verdict(outcome, found["reason"], found["message"])
    return None


def _refused_by_policy(tally: Tally, _: float) -> Verdict | None:
    for pod in tally.pods:
        if is_tracked(pod) and has_failed(pod, tally.job):
            judged = ruling(tally.job, pod)
            if judged.action == FAIL_JOB:
                return Verdict(FAILED, "PodFailurePolicy", judged.message)
    return None


def _failed_too_often(tally: Tally, _: float) -> Verdict | None:
    spec = tally.job["spec"]
    limit = spec.get("backoffLimit", 2**31 - 1 if tally.limited_per_index else 6)
    in_place = 0
    if spec["template"]["spec"].get("restartPolicy") == "OnFailure":
        in_place = container_restarts(tally.active)
    if tally.failed > limit or (in_place and in_place >= limit):
        return Verdict(FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    return None


def _overdue(tally: Tally, now: float) -> Verdict | None:
    if overdue_in(tally, now) == 0:
        return Verdict(FAILED, "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _indexes_failed(tally: Tally, _: float) -> Verdict | None:
    failed, most = len(tally.failed_indexes), tally.job["spec"].get("maxFailedIndexes")
    if most is not None and failed > most:
        return Verdict(FAILED, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
    if failed and failed + len(tally.succeeded_indexes) >= (tally.completions or 0):
        return Verdict(FAILED, "FailedIndexes", "Job has failed indexes")
    return None


def _succeeded_by_policy(tally: Tally, _: float) -> Verdict | None:
    for place, rule in enumerate((tally.job["spec"].get("successPolicy") or {}).get("rules") or ()):
        wanted = indexes.parse(rule["succeededIndexes"]) if rule.get("succeededIndexes") else range(tally.completions or 0)
        met = sum(index in wanted for index in tally.succeeded_indexes)
        if met >= rule.get("succeededCount", len(wanted)):
            return Verdict(COMPLETE, "SuccessPolicy", f"Matched rules at index {place}")
    return None


_REASONS: tuple[Callable[[Tally, float], Verdict | None], ...] = (
    _announced,
    _refused_by_policy,
    _failed_too_often,
    _overdue,
    _indexes_failed,
    _succeeded_by_policy,
)
