"""The StatusCheck controller for clusters without Chaos Mesh: run each check's probe and record
its conditions.
"""

from __future__ import annotations

import asyncio
import logging
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


# What a StatusCheck asks for, and how it stands after so many answers. Pure. Answers in a row
# decide: as many failures as its threshold says end it, and so do successes if it is
# Synchronous. Its duration ends it in any case.


CONTINUOUS = "Continuous"
SUCCESS, FAILURE = "Success", "Failure"
COMPLETED, DURATION_EXCEED = "Completed", "DurationExceed"
FAILURE_EXCEED, SUCCESS_EXCEED = "FailureThresholdExceed", "SuccessThresholdExceed"
REASON = "StatusCheck"
"""Before the condition that completed it."""


@dataclass(frozen=True, slots=True)
class StatusCheckSettings:
    """Of one StatusCheck. Lengths are in seconds."""

    is_continuous: bool
    interval: float
    timeout: float
    failures: int
    successes: int
    records: int
    """How many it keeps."""
    duration: float | None

    @classmethod
    def of(cls, spec: Obj) -> StatusCheckSettings:
        """One whose duration is none has none; that it is wrong is said by each answer."""
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
class OutcomeStreak:
    """The last answers that were alike, and how many: there may be more of them than are kept."""

    outcome: str = ""
    length: int = 0

    @classmethod
    def of(cls, status: Obj) -> OutcomeStreak:
        """As far as it is known."""
        row = cls()
        for record in status.get("records") or ():
            row = row.then(record["outcome"])
        return row

    def then(self, outcome: str) -> OutcomeStreak:
        return OutcomeStreak(outcome, self.length + 1 if outcome == self.outcome else 1)


def with_record(
    status: Obj, terms: StatusCheckSettings, at: str, outcome: str, message: str = ""
) -> Obj:
    """The status with one more answer, and with what is wrong with that."""
    records = [*(status.get("records") or ()), {"startTime": at, "outcome": outcome}][
        -terms.records :
    ]
    told = {"message": message} if message or status.get("message") else {}
    return {**status, "count": status.get("count", 0) + 1, "records": records, **told}


def with_conditions(
    status: Obj, terms: StatusCheckSettings, row: OutcomeStreak, now: str, *, is_late: bool
) -> Obj:
    """The status with its conditions; what has come first among the reasons to be complete is
    the reason.
    """
    held = {
        DURATION_EXCEED: is_late,
        FAILURE_EXCEED: row.outcome == FAILURE and row.length >= terms.failures,
        SUCCESS_EXCEED: row.outcome == SUCCESS and row.length >= terms.successes,
    }
    ends = (DURATION_EXCEED, FAILURE_EXCEED) if terms.is_continuous else tuple(held)
    reason = next((REASON + type_ for type_ in ends if held[type_]), "")
    conditions = status.get("conditions")
    for type_, holds in {**held, COMPLETED: bool(reason)}.items():
        told = {
            "type": type_,
            "status": str(holds),
            "reason": reason if type_ == COMPLETED else "",
            "lastProbeTime": now,
        }
        conditions = set_condition(conditions, told, now)
    judged = {**status, "conditions": conditions}
    return {**judged, "completionTime": now} if reason else judged


def is_completed(check: Obj) -> bool:
    return is_true(check, COMPLETED)


# The StatusCheck controller: each one that is there has a task that asks, until it is complete
# or gone. All that it knows stands in the status, so that another controller goes on where this
# one has stopped.


COMPONENT = "kscen-status-check"
RETRY_AFTER = 10.0
"""Seconds until what the API has refused is tried again."""
END_EVENTS = {
    DURATION_EXCEED: ("warning", "duration exceed"),
    FAILURE_EXCEED: ("warning", "failure threshold exceed"),
    SUCCESS_EXCEED: ("normal", "success threshold exceed"),
}


class StatusCheckController:
    """The actor."""

    def __init__(self, actor: Actor, family: EngineResources) -> None:
        self._actor = actor
        self._resource = family.status_checks
        self._recorder = EventRecorder(actor.api, actor.clock, COMPONENT)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By the uids of those that are there."""

    async def run(self) -> Never:
        checks = Informer(self._actor.api, self._actor.clock, self._resource)
        async with asyncio.TaskGroup() as group:
            self._group = group
            checks.on_change(self._changed)
            group.create_task(checks.run(), name=self._resource.plural)
        raise AssertionError

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
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
            self._tasks[_uid(new)] = self._group.create_task(self._follow(new), name=name)

    # --- one of them ---

    async def _follow(self, check: Obj) -> None:
        """What one of them meets stops no other."""
        try:
            if not is_completed(check):
                await self._live(check)
        except Exception as error:  # noqa: BLE001  # whatever stands in it
            self._log(logging.ERROR, "cannot be followed", check, error)

    async def _live(self, check: Obj) -> None:
        clock = self._actor.clock
        terms, form = StatusCheckSettings.of(check["spec"]), _form_of(check["spec"])
        status, now = check.get("status") or {}, clock.now()
        row = OutcomeStreak.of(status)
        if not status.get("startTime"):
            status = with_conditions(
                {**status, "startTime": timestamp_of(now)},
                terms,
                row,
                timestamp_of(now),
                is_late=False,
            )
            await self._write(check, status)
            began = now
        else:
            began = epoch_of(status["startTime"])
        ends = None if terms.duration is None else began + terms.duration
        last = [epoch_of(record["startTime"]) for record in status.get("records") or ()][-1:]
        due = max(clock.now(), (last[0] if last else began) + terms.interval)
        while not is_completed({"status": status}):
            is_over = ends is not None and due > ends
            await clock.sleep((ends if is_over and ends is not None else due) - clock.now())
            if not is_over:
                due = clock.now() + terms.interval
                at = timestamp_of(clock.now())
                metadata = check["metadata"]
                answer = await self._outcome(metadata["namespace"], terms, form)
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
                status, row = (
                    with_record(status, terms, at, outcome, answer.message),
                    row.then(outcome),
                )
            is_late = ends is not None and clock.now() >= ends
            status = with_conditions(status, terms, row, timestamp_of(clock.now()), is_late=is_late)
            await self._write(check, status)
        self._tell(check, status)

    async def _outcome(
        self, namespace: str, terms: StatusCheckSettings, form: HttpProbe | InvalidProbe
    ) -> ProbeOutcome:
        if isinstance(form, InvalidProbe):
            return ProbeOutcome(False, str(form))
        return await outcome_of(
            form, ProbeContext(self._actor, {"namespace": namespace}), terms.timeout
        )

    async def _write(self, check: Obj, status: Obj) -> None:
        """However often that is refused, as long as the check is there."""
        metadata = check["metadata"]
        what = (self._resource, metadata["name"], {"status": status}, metadata["namespace"])
        while True:
            try:
                await self._actor.api.patch(*what, subresource="status")
            except NotFound:
                return  # it is gone, and so will this be
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

    def _tell(self, check: Obj, status: Obj) -> None:
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


def _form_of(spec: Obj) -> HttpProbe | InvalidProbe:
    """How it asks, or why it cannot."""
    mistakes: list[ProbeFieldError] = []
    part = FieldReader(spec, "spec", mistakes)
    part.length("duration", 0.0)
    form = HttpProbe.of(part.part("http"))
    return InvalidProbe(mistakes) if mistakes else form
