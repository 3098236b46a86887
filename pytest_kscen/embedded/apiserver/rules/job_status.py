"""Rules of a Job's failure policy, success policy and status.

The status is written by the job controller. Counters may only grow, terminal conditions are
permanent, and some conditions exclude each other. Used by `jobs` alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.rules import checks
from pytest_kscen.embedded.apiserver.rules.checks import (
    CONDITION_STATUSES,
    GO_UNCOUNTED_PODS,
    Causes,
    as_go_struct,
    invalid_value_omitted,
    validate_name,
    validate_nonnegative,
)
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj


FAILURE_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
EXIT_CODE_OPERATORS = ("In", "NotIn")
MAX_RULES, MAX_EXIT_CODES, MAX_PATTERNS, MAX_INDEXES_LENGTH = 20, 255, 20, 64 * 1024


def validate_pod_failure_policy(path: str, spec: Obj) -> Causes:
    rules = spec["podFailurePolicy"].get("rules") or ()
    if len(rules) > MAX_RULES:
        yield Cause.too_many(f"{path}.rules", len(rules), MAX_RULES)
    pod = spec["template"]["spec"]
    containers = {
        one.get("name") for kind in ("containers", "initContainers") for one in pod.get(kind) or ()
    }
    for index, rule in enumerate(rules):
        yield from _validate_failure_rule(
            f"{path}.rules[{index}]", rule, containers, by_index="backoffLimitPerIndex" in spec
        )


def _valid_values(values: Sequence[str]) -> str:
    return f"valid values: [{' '.join(map(quoted, values))}]"


def _validate_failure_rule(
    path: str, rule: Obj, containers: set[str | None], *, by_index: bool
) -> Causes:
    action, codes, patterns = (
        rule.get("action", ""),
        rule.get("onExitCodes"),
        rule.get("onPodConditions") or (),
    )
    if not action:
        yield Cause.required(f"{path}.action", _valid_values(FAILURE_ACTIONS))
    elif action == "FailIndex":
        if not by_index:
            yield Cause.invalid(
                f"{path}.action", action, "requires the backoffLimitPerIndex to be set"
            )
    elif action not in FAILURE_ACTIONS:
        yield Cause.unsupported(f"{path}.action", action, FAILURE_ACTIONS)
    if codes is not None:
        yield from _validate_exit_codes(f"{path}.onExitCodes", codes, containers)
    if patterns:
        yield from _validate_condition_patterns(f"{path}.onPodConditions", patterns)
    if codes is not None and patterns:
        yield invalid_value_omitted(
            path, "specifying both OnExitCodes and OnPodConditions is not supported"
        )
    if codes is None and not patterns:
        yield invalid_value_omitted(
            path, "specifying one of OnExitCodes and OnPodConditions is required"
        )


def _validate_condition_patterns(path: str, given: Sequence[Obj]) -> Causes:
    if len(given) > MAX_PATTERNS:
        yield Cause.too_many(path, len(given), MAX_PATTERNS)
    for index, pattern in enumerate(given):
        here, status = f"{path}[{index}]", pattern.get("status", "")
        yield from validate_name(f"{here}.type", pattern.get("type", ""), names.label_key)
        if not status:
            yield Cause.required(f"{here}.status", _valid_values(CONDITION_STATUSES))
        elif status not in CONDITION_STATUSES:
            yield Cause.unsupported(f"{here}.status", status, CONDITION_STATUSES)


def _validate_exit_codes(path: str, given: Obj, containers: set[str | None]) -> Causes:
    operator, values = given.get("operator", ""), given.get("values") or []
    if not operator:
        yield Cause.required(f"{path}.operator", _valid_values(EXIT_CODE_OPERATORS))
    elif operator not in EXIT_CODE_OPERATORS:
        yield Cause.unsupported(f"{path}.operator", operator, EXIT_CODE_OPERATORS)
    if "containerName" in given and given["containerName"] not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield Cause.invalid(f"{path}.containerName", given["containerName"], detail)
    if not values:
        yield Cause.invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > MAX_EXIT_CODES:
        yield Cause.too_many(f"{path}.values", len(values), MAX_EXIT_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield Cause.invalid(
                f"{path}.values[{index}]", value, "must not be 0 for the In operator"
            )
        if value in values[:index]:
            yield Cause.duplicate(f"{path}.values[{index}]", value)
    if any(one > other for one, other in pairwise(values)):
        yield Cause.invalid(f"{path}.values", values, "must be ordered")


def validate_success_policy(path: str, spec: Obj) -> Causes:
    rules, completions = spec["successPolicy"].get("rules") or (), spec.get("completions", 0)
    if not rules:
        yield Cause.required(
            f"{path}.rules",
            "at least one rules must be specified when the successPolicy is specified",
        )
    if len(rules) > MAX_RULES:
        yield Cause.too_many(f"{path}.rules", len(rules), MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _validate_success_rule(f"{path}.rules[{index}]", rule, completions)


def _validate_success_rule(path: str, rule: Obj, completions: int) -> Causes:
    indexes, count, total = rule.get("succeededIndexes"), rule.get("succeededCount"), 0
    if indexes is None and count is None:
        yield Cause.required(
            path, "at least one of succeededCount or succeededIndexes must be specified"
        )
    if indexes is not None:
        if len(indexes) > MAX_INDEXES_LENGTH:
            yield Cause.too_long(f"{path}.succeededIndexes", MAX_INDEXES_LENGTH)
        try:
            total = count_indexes(indexes, completions)
        except ValueError as fault:
            yield Cause.invalid(
                f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {fault}"
            )
    if count is not None:
        here = f"{path}.succeededCount"
        yield from validate_nonnegative(here, count)
        if count > completions:
            detail = (
                f"must be less than or equal to {completions} (the number of specified completions)"
            )
            yield Cause.invalid(here, count, detail)
        if indexes is not None and count > total:
            detail = (
                f"must be less than or equal to {total} (the number of indexes in the "
                "specified succeededIndexes field)"
            )
            yield Cause.invalid(here, count, detail)


def count_indexes(text: str, completions: int) -> int:
    """Return how many indexes a text such as `1,3-5` names.

    Raises ValueError with the real server's message for malformed text, descending order, or an
    index that is not below `completions`.
    """
    return sum(high - low + 1 for low, high in parse_intervals(text, completions))


def parse_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:  # noqa: PLR2004
            rule = (
                "violates the requirement that an index interval can have at most two parts "
                "separated by '-'"
            )
            raise ValueError(f'the fragment "{part}" {rule}')
        low, high = _parse_index(ends[0], completions), _parse_index(ends[-1], completions)
        if len(ends) > 1 and low >= high:
            raise ValueError(f"non-increasing order, previous: {low}, current: {high}")
        if found and found[-1][1] >= low:
            raise ValueError(f"non-increasing order, previous: {found[-1][1]}, current: {low}")
        found.append((low, high))
    return found


def _parse_index(text: str, completions: int) -> int:
    try:
        parsed = int(text)
    except ValueError:
        raise ValueError(f'cannot convert string to integer for index: "{text}"') from None
    if parsed >= completions:
        raise ValueError(f'too large index: "{text}"')
    return parsed


JOB_COUNTERS = ("active", "succeeded", "failed", "ready", "terminating")
TERMINAL_CONDITIONS = ("Failed", "Complete", "FailureTarget")


def is_condition_true(status: Obj, condition: str) -> bool:
    return any(
        one.get("type") == condition and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )


def _is_finished(status: Obj) -> bool:
    return is_condition_true(status, "Complete") or is_condition_true(status, "Failed")


def validate_job_status(new: Obj, old: Obj) -> Causes:
    status, before = new.get("status") or {}, old.get("status") or {}
    yield from checks.validate_nonnegative_fields("status", status, JOB_COUNTERS)
    given = status.get("uncountedTerminatedPods") or {}
    seen: set[str] = set()
    for kind in ("succeeded", "failed"):
        for index, uid in enumerate(given.get(kind) or ()):
            path = f"status.uncountedTerminatedPods.{kind}[{index}]"
            if not uid:
                yield Cause.invalid(path, uid, "must not be empty")
            elif uid in seen:
                yield Cause.duplicate(path, uid)
            seen.add(uid)
    yield from _validate_conditions(status, before)
    yield from _validate_finished_job(new["spec"], status, before)
    yield from _validate_indexes(new["spec"], status, before)
    spec = new["spec"]
    met = is_condition_true(status, "SuccessCriteriaMet")
    tests = (
        (
            met and is_condition_true(status, "Failed"),
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        ),
        (
            met and is_condition_true(status, "FailureTarget"),
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
        (
            "successPolicy" in spec and is_condition_true(status, "Complete") and not met,
            _POLICY_NOT_MET,
        ),
    )
    yield from (
        invalid_value_omitted("status.conditions", detail) for wrong, detail in tests if wrong
    )
    yield from _validate_transitions(new["spec"], status, before)


def _condition_changed(status: Obj, before: Obj, *conditions: str) -> bool:
    return any(
        is_condition_true(status, one) != is_condition_true(before, one) for one in conditions
    )


def _field_changed(status: Obj, before: Obj, *fields: str) -> bool:
    return any(status.get(field) != before.get(field) for field in fields)


def _validate_conditions(status: Obj, before: Obj) -> Causes:
    """Yield the causes for contradictory conditions and for times that do not match them.

    As in the real server, a rule is applied only when the write changes a field that the rule
    reads.
    """
    complete, failed = is_condition_true(status, "Complete"), is_condition_true(status, "Failed")
    target, met = (
        is_condition_true(status, "FailureTarget"),
        is_condition_true(status, "SuccessCriteriaMet"),
    )
    done, began = status.get("completionTime"), status.get("startTime")
    times = _field_changed(status, before, "completionTime")
    tests: tuple[tuple[bool, bool, str], ...] = (
        (
            complete and failed,
            _condition_changed(status, before, "Complete", "Failed"),
            _COMPLETE_FAILED,
        ),
        (
            complete and target,
            _condition_changed(status, before, "Complete", "FailureTarget"),
            _COMPLETE_TARGET,
        ),
    )
    yield from (
        invalid_value_omitted("status.conditions", detail)
        for wrong, touched, detail in tests
        if wrong and touched
    )
    if _condition_changed(status, before, "Complete") or times:
        if done and not complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            yield Cause.invalid("status.completionTime", done, detail)
        if complete and not done:
            yield Cause.required(
                "status.completionTime", "completionTime is required for Complete jobs"
            )
    if (times or _field_changed(status, before, "startTime")) and done and began and done < began:
        yield Cause.invalid("status.completionTime", done, "must be equal to or after `startTime`")
    tests = (
        (
            failed and not target,
            _condition_changed(status, before, "Failed")
            or _field_changed(status, before, "failedIndexes"),
            _NO_TARGET,
        ),
        (
            complete and not met,
            _condition_changed(status, before, "Complete", "SuccessCriteriaMet"),
            _NOT_MET,
        ),
    )
    yield from (
        invalid_value_omitted("status.conditions", detail)
        for wrong, touched, detail in tests
        if wrong and touched
    )


_COMPLETE_FAILED = "cannot set Complete=True and Failed=true conditions"
_COMPLETE_TARGET = "cannot set Complete=True and FailureTarget=true conditions"
_NO_TARGET = "cannot set Failed=True condition without the FailureTarget=true condition"
_NOT_MET = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
_POLICY_NOT_MET = (
    "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
)


def _validate_finished_job(spec: Obj, status: Obj, before: Obj) -> Causes:
    """Yield the causes for a finished job that has pods or lacks a start time.

    Faults that the old status had already are accepted.
    """
    finished, just_now = _is_finished(status), _is_finished(status) != _is_finished(before)
    if finished:
        if status.get("active", 0) > 0 and (just_now or _field_changed(status, before, "active")):
            yield Cause.invalid(
                "status.active", status["active"], "active>0 is invalid for finished job"
            )
        idle = spec.get("suspend") is True and spec.get("completions") == 0
        if (
            "startTime" not in status
            and not idle
            and (just_now or _field_changed(status, before, "startTime"))
        ):
            yield Cause.required("status.startTime", "startTime is required for finished job")
        uncounted = status.get("uncountedTerminatedPods") or {}
        if any(uncounted.values()) and (
            just_now or _field_changed(status, before, "uncountedTerminatedPods")
        ):
            yield Cause.invalid(
                "status.uncountedTerminatedPods",
                as_go_struct(GO_UNCOUNTED_PODS, uncounted),
                "must be empty for finished job",
            )
        if status.get("terminating", 0) > 0 and (
            just_now or _field_changed(status, before, "terminating")
        ):
            yield Cause.invalid(
                "status.terminating",
                status["terminating"],
                "terminating>0 is invalid for finished job",
            )
    if (
        "ready" in status
        and status["ready"] > status.get("active", 0)
        and _field_changed(status, before, "ready", "active")
    ):
        yield Cause.invalid(
            "status.ready", status["ready"], "cannot set more ready pods than active"
        )


def _validate_indexes(spec: Obj, status: Obj, before: Obj) -> Causes:
    completions, per_index = spec.get("completions"), "backoffLimitPerIndex" in spec
    completed, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    if _field_changed(status, before, "completedIndexes"):
        if completions is not None:
            yield from _validate_index_text("completedIndexes", completed, completions)
        if completed and spec.get("completionMode") != "Indexed":
            detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield Cause.invalid("status.completedIndexes", completed, detail)
    if _field_changed(status, before, "failedIndexes") and failed is not None:
        if completions is not None and per_index:
            yield from _validate_index_text("failedIndexes", failed, completions)
        if not per_index:
            detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield Cause.invalid("status.failedIndexes", failed, detail)
    if (
        _field_changed(status, before, "completedIndexes", "failedIndexes")
        and completions is not None
        and failed
    ):
        try:
            completed_ranges, failed_ranges = (
                parse_intervals(completed, completions),
                parse_intervals(failed, completions),
            )
        except ValueError:
            return
        shared = [
            max(one[0], other[0])
            for one in completed_ranges
            for other in failed_ranges
            if one[0] <= other[1] and other[0] <= one[1]
        ]
        if shared:
            detail = f"failedIndexes and completedIndexes overlap at index: {shared[0]}"
            yield Cause.invalid("status.failedIndexes", failed, detail)


def _validate_index_text(field: str, text: str, completions: int) -> Causes:
    try:
        count_indexes(text, completions)
    except ValueError as fault:
        yield Cause.invalid(f"status.{field}", text, f"error parsing {field}: {fault}")


def _validate_transitions(spec: Obj, status: Obj, before: Obj) -> Causes:
    for condition in TERMINAL_CONDITIONS:
        if is_condition_true(before, condition) and not is_condition_true(status, condition):
            yield invalid_value_omitted(
                "status.conditions", f"cannot disable the terminal {condition}=True condition"
            )
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get(
        "parallelism"
    )
    for field in ("failed",) if elastic else ("failed", "succeeded"):
        if status.get(field, 0) < before.get(field, 0):
            yield Cause.invalid(
                f"status.{field}", status.get(field, 0), f"cannot decrease the {field} counter"
            )
    done: Any = status.get("completionTime")
    if done and before.get("completionTime") and done != before["completionTime"]:
        yield Cause.invalid("status.completionTime", done, checks.IMMUTABLE)
    resuming = is_condition_true(before, "Suspended") and any(
        one.get("type") == "Suspended" and one.get("status") == "False"
        for one in status.get("conditions") or ()
    )
    if (
        before.get("startTime")
        and _field_changed(status, before, "startTime")
        and not spec.get("suspend")
        and not resuming
    ):
        detail = "field is immutable for unsuspended job once set"
        yield Cause.invalid("status.startTime", status.get("startTime"), detail)
    if is_condition_true(before, "SuccessCriteriaMet") and not is_condition_true(
        status, "SuccessCriteriaMet"
    ):
        yield invalid_value_omitted(
            "status.conditions", "cannot disable the SuccessCriteriaMet=True condition"
        )
    if (
        is_condition_true(before, "Complete")
        and _condition_changed(status, before, "SuccessCriteriaMet")
        and is_condition_true(status, "SuccessCriteriaMet")
    ):
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield invalid_value_omitted("status.conditions", detail)
