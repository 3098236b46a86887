"""What a job's controller may report: counters that only grow, and conditions that do not contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.rules import checks
from pytest_kscen.machinery.rules.checks import Causes, omitted
from pytest_kscen.machinery.rules.internals import UNCOUNTED, internal
from pytest_kscen.machinery.rules.job_policies import count_indexes, intervals
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj

COUNTERS = ("active", "succeeded", "failed", "ready", "terminating")
TERMINAL = ("Failed", "Complete", "FailureTarget")


def is_true(status: Obj, condition: str) -> bool:
    return any(one.get("type") == condition and one.get("status") == "True" for one in status.get("conditions") or ())


def _is_finished(status: Obj) -> bool:
    return is_true(status, "Complete") or is_true(status, "Failed")


def validate_status(new: Obj, old: Obj) -> Causes:
    status, before = new.get("status") or {}, old.get("status") or {}
    yield from checks.none_negative("status", status, COUNTERS)
    yield from _uncounted(status.get("uncountedTerminatedPods") or {})
    yield from _conditions(status, before)
    yield from _finished(new["spec"], status, before)
    yield from _indexes(new["spec"], status, before)
    yield from _success(new["spec"], status)
    yield from _never_back(new["spec"], status, before)


def _uncounted(given: Obj) -> Causes:
    seen: set[str] = set()
    for kind in ("succeeded", "failed"):
        for place, uid in enumerate(given.get(kind) or ()):
            path = f"status.uncountedTerminatedPods.{kind}[{place}]"
            if not uid:
                yield Cause.invalid(path, uid, "must not be empty")
            elif uid in seen:
                yield Cause.duplicate(path, uid)
            seen.add(uid)


def _differs(status: Obj, before: Obj, *conditions: str) -> bool:
    return any(is_true(status, one) != is_true(before, one) for one in conditions)


def _moved(status: Obj, before: Obj, *fields: str) -> bool:
    return any(status.get(field) != before.get(field) for field in fields)


def _conditions(status: Obj, before: Obj) -> Causes:
    """Pairs of conditions, and what a condition asks for; only a write that touches them is judged."""
    complete, failed = is_true(status, "Complete"), is_true(status, "Failed")
    target, met = is_true(status, "FailureTarget"), is_true(status, "SuccessCriteriaMet")
    done, began = status.get("completionTime"), status.get("startTime")
    times = _moved(status, before, "completionTime")
    tests: tuple[tuple[bool, bool, str], ...] = (
        (complete and failed, _differs(status, before, "Complete", "Failed"), _COMPLETE_FAILED),
        (complete and target, _differs(status, before, "Complete", "FailureTarget"), _COMPLETE_TARGET),
    )
    yield from (omitted("status.conditions", why) for wrong, touched, why in tests if wrong and touched)
    if _differs(status, before, "Complete") or times:
        if done and not complete:
            why = "cannot set completionTime when there is no Complete=True condition"
            yield Cause.invalid("status.completionTime", done, why)
        if complete and not done:
            yield Cause.required("status.completionTime", "completionTime is required for Complete jobs")
    if (times or _moved(status, before, "startTime")) and done and began and done < began:
        yield Cause.invalid("status.completionTime", done, "must be equal to or after `startTime`")
    tests = (
        (failed and not target, _differs(status, before, "Failed") or _moved(status, before, "failedIndexes"), _NO_TARGET),
        (complete and not met, _differs(status, before, "Complete", "SuccessCriteriaMet"), _NOT_MET),
    )
    yield from (omitted("status.conditions", why) for wrong, touched, why in tests if wrong and touched)


def _success(spec: Obj, status: Obj) -> Causes:
    met = is_true(status, "SuccessCriteriaMet")
    tests = (
        (met and is_true(status, "Failed"), "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
        (met and is_true(status, "FailureTarget"), "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
        ("successPolicy" in spec and is_true(status, "Complete") and not met, _POLICY_NOT_MET),
    )
    yield from (omitted("status.conditions", why) for wrong, why in tests if wrong)


_COMPLETE_FAILED = "cannot set Complete=True and Failed=true conditions"
_COMPLETE_TARGET = "cannot set Complete=True and FailureTarget=true conditions"
_NO_TARGET = "cannot set Failed=True condition without the FailureTarget=true condition"
_NOT_MET = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
_POLICY_NOT_MET = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"


def _finished(spec: Obj, status: Obj, before: Obj) -> Causes:
    """A finished job has no pods left."""
    finished, just_now = _is_finished(status), _is_finished(status) != _is_finished(before)
    if finished:
        if status.get("active", 0) > 0 and (just_now or _moved(status, before, "active")):
            yield Cause.invalid("status.active", status["active"], "active>0 is invalid for finished job")
        idle = spec.get("suspend") is True and spec.get("completions") == 0
        if "startTime" not in status and not idle and (just_now or _moved(status, before, "startTime")):
            yield Cause.required("status.startTime", "startTime is required for finished job")
        uncounted = status.get("uncountedTerminatedPods") or {}
        if any(uncounted.values()) and (just_now or _moved(status, before, "uncountedTerminatedPods")):
            yield Cause.invalid("status.uncountedTerminatedPods", internal(UNCOUNTED, uncounted), "must be empty for finished job")
        if status.get("terminating", 0) > 0 and (just_now or _moved(status, before, "terminating")):
            yield Cause.invalid("status.terminating", status["terminating"], "terminating>0 is invalid for finished job")
    if "ready" in status and status["ready"] > status.get("active", 0) and _moved(status, before, "ready", "active"):
        yield Cause.invalid("status.ready", status["ready"], "cannot set more ready pods than active")


def _indexes(spec: Obj, status: Obj, before: Obj) -> Causes:
    completions, per_index = spec.get("completions"), "backoffLimitPerIndex" in spec
    completed, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    if _moved(status, before, "completedIndexes"):
        if completions is not None:
            yield from _readable("completedIndexes", completed, completions)
        if completed and spec.get("completionMode") != "Indexed":
            why = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield Cause.invalid("status.completedIndexes", completed, why)
    if _moved(status, before, "failedIndexes") and failed is not None:
        if completions is not None and per_index:
            yield from _readable("failedIndexes", failed, completions)
        if not per_index:
            why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield Cause.invalid("status.failedIndexes", failed, why)
    if _moved(status, before, "completedIndexes", "failedIndexes") and completions is not None and failed:
        yield from _apart(completed, failed, completions)


def _readable(field: str, text: str, completions: int) -> Causes:
    try:
        count_indexes(text, completions)
    except ValueError as fault:
        yield Cause.invalid(f"status.{field}", text, f"error parsing {field}: {fault}")


def _apart(completed: str, failed: str, completions: int) -> Causes:
    try:
        ones, others = intervals(completed, completions), intervals(failed, completions)
    except ValueError:
        return
    shared = [max(one[0], other[0]) for one in ones for other in others if one[0] <= other[1] and other[0] <= one[1]]
    if shared:
        why = f"failedIndexes and completedIndexes overlap at index: {shared[0]}"
        yield Cause.invalid("status.failedIndexes", failed, why)


def _never_back(spec: Obj, status: Obj, before: Obj) -> Causes:
    for condition in TERMINAL:
        if is_true(before, condition) and not is_true(status, condition):
            yield omitted("status.conditions", f"cannot disable the terminal {condition}=True condition")
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed",) if elastic else ("failed", "succeeded"):
        if status.get(field, 0) < before.get(field, 0):
            yield Cause.invalid(f"status.{field}", status.get(field, 0), f"cannot decrease the {field} counter")
    yield from _times_stay(spec, status, before)
    if is_true(before, "SuccessCriteriaMet") and not is_true(status, "SuccessCriteriaMet"):
        yield omitted("status.conditions", "cannot disable the SuccessCriteriaMet=True condition")
    if is_true(before, "Complete") and _differs(status, before, "SuccessCriteriaMet") and is_true(status, "SuccessCriteriaMet"):
        why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield omitted("status.conditions", why)


def _times_stay(spec: Obj, status: Obj, before: Obj) -> Causes:
    done: Any = status.get("completionTime")
    if done and before.get("completionTime") and done != before["completionTime"]:
        yield Cause.invalid("status.completionTime", done, checks.IMMUTABLE)
    resuming = is_true(before, "Suspended") and any(
        one.get("type") == "Suspended" and one.get("status") == "False" for one in status.get("conditions") or ()
    )
    if before.get("startTime") and _moved(status, before, "startTime") and not spec.get("suspend") and not resuming:
        why = "field is immutable for unsuspended job once set"
        yield Cause.invalid("status.startTime", status.get("startTime"), why)
