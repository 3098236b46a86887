"""What a StatusCheck asks for, and how it stands after so many answers. Pure.

Answers in a row decide: as many failures as its threshold says end it, and so do successes if it is Synchronous. Its
duration ends it in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.conditions import is_true, set_condition
from pytest_kscen.objects.durations import seconds_of_text

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

CONTINUOUS = "Continuous"
SUCCESS, FAILURE = "Success", "Failure"
COMPLETED, DURATION_EXCEED = "Completed", "DurationExceed"
FAILURE_EXCEED, SUCCESS_EXCEED = "FailureThresholdExceed", "SuccessThresholdExceed"
REASON = "StatusCheck"
"""Before the condition that completed it."""


@dataclass(frozen=True, slots=True)
class Terms:
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
    def of(cls, spec: Obj) -> Terms:
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
class Row:
    """The last answers that were alike, and how many: there may be more of them than are kept."""

    outcome: str = ""
    length: int = 0

    @classmethod
    def of(cls, status: Obj) -> Row:
        """As far as it is known."""
        row = cls()
        for record in status.get("records") or ():
            row = row.then(record["outcome"])
        return row

    def then(self, outcome: str) -> Row:
        return Row(outcome, self.length + 1 if outcome == self.outcome else 1)


def asked(status: Obj, terms: Terms, at: str, outcome: str, message: str = "") -> Obj:
    """The status with one more answer, and with what is wrong with that."""
    records = [*(status.get("records") or ()), {"startTime": at, "outcome": outcome}][-terms.records :]
    told = {"message": message} if message or status.get("message") else {}
    return {**status, "count": status.get("count", 0) + 1, "records": records, **told}


def judged(status: Obj, terms: Terms, row: Row, now: str, *, is_late: bool) -> Obj:
    """The status with its conditions; what has come first among the reasons to be complete is the reason."""
    held = {
        DURATION_EXCEED: is_late,
        FAILURE_EXCEED: row.outcome == FAILURE and row.length >= terms.failures,
        SUCCESS_EXCEED: row.outcome == SUCCESS and row.length >= terms.successes,
    }
    ends = (DURATION_EXCEED, FAILURE_EXCEED) if terms.is_continuous else tuple(held)
    reason = next((REASON + type_ for type_ in ends if held[type_]), "")
    conditions = status.get("conditions")
    for type_, holds in {**held, COMPLETED: bool(reason)}.items():
        told = {"type": type_, "status": str(holds), "reason": reason if type_ == COMPLETED else "", "lastProbeTime": now}
        conditions = set_condition(conditions, told, now)
    judged = {**status, "conditions": conditions}
    return {**judged, "completionTime": now} if reason else judged


def is_completed(check: Obj) -> bool:
    return is_true(check, COMPLETED)
