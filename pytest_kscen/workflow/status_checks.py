"""StatusCheck controller, for clusters without Chaos Mesh: run probes and record conditions.

Started by `engine.drive`. Consecutive outcomes decide: `failureThreshold` failures complete a
check, `successThreshold` successes complete a Synchronous one, and its duration completes any. Each
StatusCheck has a task; all state is in its status, so a restarted controller resumes it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.kube.events import EventRecorder
from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.arguments import seconds_of_text
from pytest_kscen.objects.conditions import is_true, set_condition
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.workflow.probes.form import (
    FieldReader,
    InvalidProbe,
    ProbeContext,
    ProbeFieldError,
    ProbeOutcome,
)
from pytest_kscen.workflow.probes.http import HttpProbe
from pytest_kscen.workflow.probes.running import outcome_of

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj


CONTINUOUS = "Continuous"
SUCCESS, FAILURE = "Success", "Failure"
COMPLETED, DURATION_EXCEED = "Completed", "DurationExceed"
FAILURE_EXCEED, SUCCESS_EXCEED = "FailureThresholdExceed", "SuccessThresholdExceed"
REASON = "StatusCheck"
"""Prefix of the reason: the condition that completed the check follows."""


@dataclass(frozen=True, slots=True)
class StatusCheckSettings:
    """Settings of one StatusCheck, with Chaos Mesh's defaults; lengths are in seconds."""

    is_continuous: bool
    interval: float
    timeout: float
    failures: int
    successes: int
    records: int
    """Records that the status keeps."""
    duration: float | None

    @classmethod
    def of(cls, spec: Obj) -> StatusCheckSettings:
        """Read a spec. An invalid duration counts as none; each outcome's message reports it."""
        try:
            duration = seconds_of_text(spec["duration"]) if spec.get("duration") else None
        except ValueError:
            duration = None
        return cls(
            is_continuous=spec.get("mode") == CONTINUOUS,
            interval=spec.get("intervalSeconds", 10),
            timeout=spec.get("timeoutSeconds", 1),
            failures=spec.get("failureThreshold", 3),
            successes=spec.get("successThreshold", 1),
            records=spec.get("recordsHistoryLimit", 100),
            duration=duration,
        )


@dataclass(frozen=True, slots=True)
class ConsecutiveOutcomes:
    """Last outcome and the number of its consecutive occurrences; records may hold fewer."""

    outcome: str = ""
    length: int = 0

    @classmethod
    def of(cls, status: Obj) -> ConsecutiveOutcomes:
        outcomes = cls()
        for record in status.get("records") or ():
            outcomes = outcomes.then(record["outcome"])
        return outcomes

    def then(self, outcome: str) -> ConsecutiveOutcomes:
        return ConsecutiveOutcomes(outcome, self.length + 1 if outcome == self.outcome else 1)


def with_record(
    status: Obj, settings: StatusCheckSettings, at: str, outcome: str, message: str = ""
) -> Obj:
    """Return the status with one more record, and the message of its outcome."""
    records = [*(status.get("records") or ()), {"startTime": at, "outcome": outcome}][
        -settings.records :
    ]
    shown = {"message": message} if message or status.get("message") else {}
    return {**status, "count": status.get("count", 0) + 1, "records": records, **shown}


def with_conditions(
    status: Obj,
    settings: StatusCheckSettings,
    outcomes: ConsecutiveOutcomes,
    now: str,
    *,
    is_late: bool,
) -> Obj:
    """Return the status with its conditions; the first condition that completes it is the
    reason.
    """
    held = {
        DURATION_EXCEED: is_late,
        FAILURE_EXCEED: outcomes.outcome == FAILURE and outcomes.length >= settings.failures,
        SUCCESS_EXCEED: outcomes.outcome == SUCCESS and outcomes.length >= settings.successes,
    }
    ends = (DURATION_EXCEED, FAILURE_EXCEED) if settings.is_continuous else tuple(held)
    reason = next((REASON + type_ for type_ in ends if held[type_]), "")
    conditions = status.get("conditions")
    for type_, holds in {**held, COMPLETED: bool(reason)}.items():
        condition = {
            "type": type_,
            "status": str(holds),
            "reason": reason if type_ == COMPLETED else "",
            "lastProbeTime": now,
        }
        conditions = set_condition(conditions, condition, now)
    judged = {**status, "conditions": conditions}
    return {**judged, "completionTime": now} if reason else judged


def is_completed(check: Obj) -> bool:
    return is_true(check, COMPLETED)


COMPONENT = "kscen-status-check"
RETRY_AFTER = 10.0
"""Seconds until a refused request is retried."""
END_EVENTS = {
    DURATION_EXCEED: ("warning", "duration exceed"),
    FAILURE_EXCEED: ("warning", "failure threshold exceed"),
    SUCCESS_EXCEED: ("normal", "success threshold exceed"),
}


class StatusCheckController:
    """Controller of all StatusChecks of one API group: one task for each, from its creation to its
    completion or deletion. Reasons and messages of Events are Chaos Mesh's own.
    """

    def __init__(self, actor: Actor, family: EngineResources) -> None:
        self._actor = actor
        self._resource = family.status_checks
        self._recorder = EventRecorder(actor.api, actor.clock, COMPONENT)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Tasks by the uid of their StatusCheck."""

    async def run(self) -> Never:
        """Start a task for each StatusCheck, and cancel it when the check is deleted."""

        def changed(new: Obj | None, old: Obj | None) -> None:
            if (
                old
                and (new is None or _uid(new) != _uid(old))
                and (task := self._tasks.pop(_uid(old), None))
            ):
                task.cancel()
            if new is None:
                return
            task = self._tasks.get(_uid(new))
            if new["metadata"].get("deletionTimestamp"):
                if task:
                    task.cancel()
            elif task is None:
                name = f"status check {new['metadata']['name']}"
                self._tasks[_uid(new)] = group.create_task(self._follow(new), name=name)

        checks = Informer(self._actor.api, self._actor.clock, self._resource)
        async with asyncio.TaskGroup() as group:
            checks.on_change(changed)
            group.create_task(checks.run(), name=self._resource.plural)
        raise AssertionError

    async def _follow(self, check: Obj) -> None:
        """Run a check to completion; an error does not affect other checks."""
        try:
            if not is_completed(check):
                await self._run_check(check)
        except Exception as error:  # noqa: BLE001  # any content
            self._log(logging.ERROR, "cannot be followed", check, error)

    async def _run_check(self, check: Obj) -> None:
        clock = self._actor.clock
        settings, errors = StatusCheckSettings.of(check["spec"]), list[ProbeFieldError]()
        part = FieldReader(check["spec"], "spec", errors)
        part.length("duration", 0.0)
        probe = HttpProbe.of(part.part("http"))
        form = InvalidProbe(errors) if errors else probe
        status, now = check.get("status") or {}, clock.now()
        outcomes = ConsecutiveOutcomes.of(status)
        if not status.get("startTime"):
            status = with_conditions(
                {**status, "startTime": timestamp_of(now)},
                settings,
                outcomes,
                timestamp_of(now),
                is_late=False,
            )
            await self._write(check, status)
            began = now
        else:
            began = epoch_of(status["startTime"])
        ends = math.inf if settings.duration is None else began + settings.duration
        last = [epoch_of(record["startTime"]) for record in status.get("records") or ()][-1:]
        due = max(clock.now(), (last[0] if last else began) + settings.interval)
        while not is_completed({"status": status}):
            is_probed = due <= ends
            await clock.sleep(min(due, ends) - clock.now())
            if is_probed:
                due = clock.now() + settings.interval
                at = timestamp_of(clock.now())
                metadata = check["metadata"]
                answer = (
                    ProbeOutcome(False, str(form))
                    if isinstance(form, InvalidProbe)
                    else await outcome_of(
                        form,
                        ProbeContext(self._actor, {"namespace": metadata["namespace"]}),
                        settings.timeout,
                    )
                )
                self._actor.note(
                    "status-check",
                    namespace=metadata["namespace"],
                    name=metadata["name"],
                    passed=answer.passed,
                    message=answer.message,
                )
                if not answer.passed:
                    words = f"HTTP execution of status check failed: {answer.message}"
                    self._recorder.warning(check, f"{REASON}ExecutionFailed", words)
                outcome = SUCCESS if answer.passed else FAILURE
                status = with_record(status, settings, at, outcome, answer.message)
                outcomes = outcomes.then(outcome)
            now = clock.now()
            status = with_conditions(
                status, settings, outcomes, timestamp_of(now), is_late=now >= ends
            )
            await self._write(check, status)
        self._report_completion(check, status)

    async def _write(self, check: Obj, status: Obj) -> None:
        """Write a status; retry while it is refused and the check exists."""
        metadata = check["metadata"]
        what = (self._resource, metadata["name"], {"status": status}, metadata["namespace"])
        while True:
            try:
                await self._actor.api.patch(*what, subresource="status")
            except NotFound:
                return  # deleted: this task is about to be cancelled
            except (ApiError, OSError) as error:
                self._log(logging.WARNING, "refused", check, error)
                await self._actor.clock.sleep(RETRY_AFTER)
            else:
                return

    def _log(self, level: int, what: str, check: Obj, error: Exception) -> None:
        metadata = check["metadata"]
        self._actor.log(
            level, what, check=f"{metadata['namespace']}/{metadata['name']}", error=str(error)
        )

    def _report_completion(self, check: Obj, status: Obj) -> None:
        done = {"status": status}
        reasons = [type_ for type_ in END_EVENTS if is_true(done, type_)]
        self._recorder.normal(
            check, f"{REASON}Completed", f"status check completed: {REASON}{reasons[0]}"
        )
        for type_ in reasons:
            kind, words = END_EVENTS[type_]
            (self._recorder.normal if kind == "normal" else self._recorder.warning)(
                check, REASON + type_, words
            )


def _uid(check: Obj) -> str:
    return str(check["metadata"]["uid"])
