"""Decide when and how a Job ends, and record its finished pods in the status.

Pure rules come first, in Kubernetes' order. `JobStatusWriter` then counts finished pods without
loss: their uids are written to the status, their finalizers removed, then the counts increased. The
end is announced by an interim condition and becomes final when all pods are gone and counted.
Called by `jobs`.
"""

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
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.controllers.workloads.job_state import JobState
    from pytest_kscen.objects.resources import Obj


COMPLETE, FAILED = "Complete", "Failed"
INTERIM_CONDITIONS = {COMPLETE: "SuccessCriteriaMet", FAILED: "FailureTarget"}
"""Condition that announces the outcome while pods are still being terminated."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """End of a Job: the type of its final condition, with Kubernetes' reason and message. Other
    conditions follow from it.
    """

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


def find_outcome(state: JobState, now: float) -> JobOutcome | None:
    for outcome, announcement in INTERIM_CONDITIONS.items():
        found = condition(state.job, announcement)
        if found and found["status"] == "True":
            return JobOutcome(outcome, found["reason"], found["message"])
    for pod in state.pods:
        if is_tracked(pod) and has_failed(pod, state.job):
            policy_match = match_failure_policy(state.job, pod)
            if policy_match.action == FAIL_JOB:
                return JobOutcome(FAILED, "PodFailurePolicy", policy_match.message)
    return _limit_exceeded(state, now) or _succeeded_by_policy(state)


def completion_outcome(state: JobState, active: int) -> JobOutcome | None:
    """Return the outcome Complete if enough pods have succeeded and none is active. A Job
    without `completions` needs one success.
    """
    enough = (
        state.succeeded > 0 if state.completions is None else state.succeeded >= state.completions
    )
    if not enough or active:
        return None
    return JobOutcome(COMPLETE, "CompletionsReached", "Reached expected number of succeeded pods")


def seconds_until_deadline(state: JobState, now: float) -> float | None:
    """Return the seconds until the Job exceeds `activeDeadlineSeconds`, or None without a
    deadline or while it is suspended.
    """
    started, limit = (
        (state.job.get("status") or {}).get("startTime"),
        state.job["spec"].get("activeDeadlineSeconds"),
    )
    if not started or limit is None or state.suspended:
        return None
    deadline: float = epoch_of(started) + limit
    return max(0.0, round(deadline - now, 6))


def _limit_exceeded(state: JobState, now: float) -> JobOutcome | None:
    spec = state.job["spec"]
    limit = spec.get("backoffLimit", 2**31 - 1 if state.limited_per_index else 6)
    in_place = 0
    if spec["template"]["spec"].get("restartPolicy") == "OnFailure":
        in_place = container_restarts(state.active)
    if state.failed > limit or (in_place and in_place >= limit):
        return JobOutcome(
            FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        )
    if seconds_until_deadline(state, now) == 0:
        return JobOutcome(
            FAILED, "DeadlineExceeded", "Job was active longer than specified deadline"
        )
    failed, most = len(state.failed_indexes), spec.get("maxFailedIndexes")
    if most is not None and failed > most:
        return JobOutcome(
            FAILED,
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        )
    if failed and failed + len(state.succeeded_indexes) >= (state.completions or 0):
        return JobOutcome(FAILED, "FailedIndexes", "Job has failed indexes")
    return None


def _succeeded_by_policy(state: JobState) -> JobOutcome | None:
    for place, rule in enumerate((state.job["spec"].get("successPolicy") or {}).get("rules") or ()):
        wanted = (
            job_state.parse_indexes(rule["succeededIndexes"])
            if rule.get("succeededIndexes")
            else range(state.completions or 0)
        )
        succeeded_count = sum(index in wanted for index in state.succeeded_indexes)
        if succeeded_count >= rule.get("succeededCount", len(wanted)):
            return JobOutcome(COMPLETE, "SuccessPolicy", f"Matched rules at index {place}")
    return None


MOST_UNCOUNTED = 500


@dataclass(slots=True)
class JobStatusUpdate:
    """Status of a Job in the course of one reconciliation, with the pods whose finalizers are to be
    removed.

    `more` is set if there are more finished pods than one update may hold.
    """

    state: JobState
    job_outcome: JobOutcome | None
    job: Obj
    """Job as it was last written."""
    status: Obj
    """Status that is to be written."""
    leaving: list[Obj]
    more: bool


class JobStatusWriter:
    """Write a Job's status and remove the tracking finalizers of its finished pods, in an order
    that survives interruption.

    At most `MOST_UNCOUNTED` pods are recorded per reconciliation.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def record_finished(
        self, state: JobState, before: Obj, job_outcome: JobOutcome | None, conditions: list[Obj]
    ) -> JobStatusUpdate:
        """Record the uids of pods that have finished since the last reconciliation, and write the
        status if there are any.

        Pods whose failure still delays a successor of the same index keep their finalizer.
        """
        # Pods whose finalizer may be removed.
        held = [] if job_outcome else [pod["metadata"]["uid"] for pod in state.held_back().values()]
        over = job_outcome is not None or bool(state.job["metadata"].get("deletionTimestamp"))
        tracked = (
            pod for pod in state.pods if is_tracked(pod) and pod["metadata"]["uid"] not in held
        )
        leaving = [
            pod
            for pod in tracked
            if over or phase(pod) == "Succeeded" or has_failed(pod, state.job)
        ]
        status_update = JobStatusUpdate(
            state, job_outcome, before, {}, leaving[:MOST_UNCOUNTED], len(leaving) > MOST_UNCOUNTED
        )
        uncounted_uids = {outcome: list(uids) for outcome, uids in state.uncounted.items()}
        for pod in status_update.leaving:
            uid, outcome = pod["metadata"]["uid"], _counted_outcome(state, job_outcome, pod)
            if outcome and uid not in uncounted_uids[outcome]:
                uncounted_uids[outcome].append(uid)
        if job_outcome:
            now = self._context.timestamp()
            if not condition(
                {"status": {"conditions": conditions}}, job_outcome.announcement["type"]
            ):
                conditions = set_condition(
                    conditions, {**job_outcome.announcement, "lastProbeTime": now}, now
                )
        status_update.status = _status(state, conditions, uncounted_uids)
        old = before.get("status") or {}
        if uncounted_uids != state.uncounted or any(
            status_update.status.get(name) != old.get(name)
            for name in ("completedIndexes", "failedIndexes")
        ):
            await self._write(status_update)
        return status_update

    async def flush(self, status_update: JobStatusUpdate) -> bool:
        """Remove the finalizers, add the released pods to the counts, and write the final condition
        if the Job is over.

        Return True if more finished pods wait for the next reconciliation.
        """
        for pod in status_update.leaving:
            await untrack(self._context.api, pod)
        tracked = {pod["metadata"]["uid"] for pod in status_update.state.pods if is_tracked(pod)}
        # Move the recorded uids whose pods are no longer tracked into the counts of their
        # outcome.
        still_tracked = tracked - {pod["metadata"]["uid"] for pod in status_update.leaving}
        uncounted_uids = status_update.status.get("uncountedTerminatedPods") or {}
        for outcome in ("succeeded", "failed"):
            uids = uncounted_uids.get(outcome) or []
            if done := sum(uid not in still_tracked for uid in uids):
                status_update.status[outcome] = status_update.status.get(outcome, 0) + done
        kept = {
            outcome: [uid for uid in uids if uid in still_tracked]
            for outcome, uids in uncounted_uids.items()
        }
        status_update.status["uncountedTerminatedPods"] = {
            outcome: uids for outcome, uids in kept.items() if uids
        }
        state, uncounted = status_update.state, status_update.status["uncountedTerminatedPods"]
        if status_update.job_outcome and not (
            state.active or state.terminating or uncounted or status_update.more
        ):
            job_outcome = status_update.job_outcome
            now = self._context.timestamp()
            conditions = set_condition(
                status_update.status.get("conditions"),
                {**job_outcome.condition, "lastProbeTime": now},
                now,
            )
            status_update.status["conditions"] = conditions
            if job_outcome.outcome == COMPLETE:
                status_update.status["completionTime"] = now
                self._context.recorder.normal(status_update.job, "Completed", "Job completed")
            else:
                self._context.recorder.warning(
                    status_update.job, job_outcome.reason, job_outcome.message
                )
        if status_update.status != (status_update.job.get("status") or {}):
            await self._write(status_update)
        return status_update.more

    async def _write(self, status_update: JobStatusUpdate) -> None:
        status_update.job = await self._context.api.update(
            JOBS, {**status_update.job, "status": status_update.status}, subresource="status"
        )
        status_update.status = dict(status_update.job["status"])


def _counted_outcome(state: JobState, job_outcome: JobOutcome | None, pod: Obj) -> str:
    """Return the outcome under which a pod is counted by uid, or "" if it is not.

    Indexed successes are counted by index, and pods that a successful end cuts off are not counted.
    """
    if phase(pod) == "Succeeded":
        return "" if state.indexed else "succeeded"
    if job_outcome and job_outcome.outcome == COMPLETE and phase(pod) != "Failed":
        return ""
    failed = has_failed(pod, state.job) or (
        job_outcome is not None and job_outcome.outcome == FAILED
    )
    counts = failed and match_failure_policy(state.job, pod).counts
    return (
        "failed"
        if counts and (not state.indexed or job_state.index_of(pod, state.job) is not None)
        else ""
    )


def _status(state: JobState, conditions: list[Obj], uncounted_uids: dict[str, list[str]]) -> Obj:
    kept = {
        name: value
        for name, value in state.job["status"].items()
        if name not in {"active", "conditions", "succeeded"}
    }
    succeeded = (
        len(state.succeeded_indexes) if state.indexed else state.job["status"].get("succeeded", 0)
    )
    return {
        **kept,
        **({"conditions": conditions} if conditions else {}),
        **({"active": len(state.active)} if state.active else {}),
        "ready": state.ready(),
        "terminating": state.terminating,
        **({"succeeded": succeeded} if succeeded else {}),
        **(
            {"completedIndexes": job_state.format_indexes(state.succeeded_indexes)}
            if state.succeeded_indexes
            else {}
        ),
        **(
            {"failedIndexes": job_state.format_indexes(state.failed_indexes)}
            if state.limited_per_index
            else {}
        ),
        "uncountedTerminatedPods": {
            outcome: uids for outcome, uids in uncounted_uids.items() if uids
        },
    }
