"""When a job has failed, and when it has succeeded, by the pods' exit codes, conditions and indexes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_kscen.machinery.rules.checks import CONDITION_STATUSES, Causes, named, not_negative, omitted
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj

ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS = ("In", "NotIn")
MOST_RULES, MOST_CODES, MOST_PATTERNS, LONGEST_INDEXES = 20, 255, 20, 64 * 1024


def failure_policy(path: str, spec: Obj) -> Causes:
    rules = spec["podFailurePolicy"].get("rules") or ()
    if len(rules) > MOST_RULES:
        yield Cause.too_many(f"{path}.rules", len(rules), MOST_RULES)
    pod = spec["template"]["spec"]
    containers = {one.get("name") for kind in ("containers", "initContainers") for one in pod.get(kind) or ()}
    for place, rule in enumerate(rules):
        yield from _failure_rule(f"{path}.rules[{place}]", rule, containers, by_index="backoffLimitPerIndex" in spec)


def _valid(values: Sequence[str]) -> str:
    return f"valid values: [{' '.join(map(quoted, values))}]"


def _failure_rule(path: str, rule: Obj, containers: set[str | None], *, by_index: bool) -> Causes:
    action, codes, patterns = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if not action:
        yield Cause.required(f"{path}.action", _valid(ACTIONS))
    elif action == "FailIndex":
        if not by_index:
            yield Cause.invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    elif action not in ACTIONS:
        yield Cause.unsupported(f"{path}.action", action, ACTIONS)
    if codes is not None:
        yield from _exit_codes(f"{path}.onExitCodes", codes, containers)
    if patterns:
        yield from _patterns(f"{path}.onPodConditions", patterns)
    if codes is not None and patterns:
        yield omitted(path, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not patterns:
        yield omitted(path, "specifying one of OnExitCodes and OnPodConditions is required")


def _patterns(path: str, given: Sequence[Obj]) -> Causes:
    if len(given) > MOST_PATTERNS:
        yield Cause.too_many(path, len(given), MOST_PATTERNS)
    for place, pattern in enumerate(given):
        here, status = f"{path}[{place}]", pattern.get("status", "")
        yield from named(f"{here}.type", pattern.get("type", ""), names.label_key)
        if not status:
            yield Cause.required(f"{here}.status", _valid(CONDITION_STATUSES))
        elif status not in CONDITION_STATUSES:
            yield Cause.unsupported(f"{here}.status", status, CONDITION_STATUSES)


def _exit_codes(path: str, given: Obj, containers: set[str | None]) -> Causes:
    operator, values = given.get("operator", ""), given.get("values") or []
    if not operator:
        yield Cause.required(f"{path}.operator", _valid(OPERATORS))
    elif operator not in OPERATORS:
        yield Cause.unsupported(f"{path}.operator", operator, OPERATORS)
    if "containerName" in given and given["containerName"] not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        yield Cause.invalid(f"{path}.containerName", given["containerName"], why)
    if not values:
        yield Cause.invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > MOST_CODES:
        yield Cause.too_many(f"{path}.values", len(values), MOST_CODES)
    for place, value in enumerate(values):
        if operator == "In" and value == 0:
            yield Cause.invalid(f"{path}.values[{place}]", value, "must not be 0 for the In operator")
        if value in values[:place]:
            yield Cause.duplicate(f"{path}.values[{place}]", value)
    if any(one > other for one, other in pairwise(values)):
        yield Cause.invalid(f"{path}.values", values, "must be ordered")


def success_policy(path: str, spec: Obj) -> Causes:
    rules, completions = spec["successPolicy"].get("rules") or (), spec.get("completions", 0)
    if not rules:
        yield Cause.required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > MOST_RULES:
        yield Cause.too_many(f"{path}.rules", len(rules), MOST_RULES)
    for place, rule in enumerate(rules):
        yield from _success_rule(f"{path}.rules[{place}]", rule, completions)


def _success_rule(path: str, rule: Obj, completions: int) -> Causes:
    indexes, count, total = rule.get("succeededIndexes"), rule.get("succeededCount"), 0
    if indexes is None and count is None:
        yield Cause.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        if len(indexes) > LONGEST_INDEXES:
            yield Cause.too_long(f"{path}.succeededIndexes", LONGEST_INDEXES)
        try:
            total = count_indexes(indexes, completions)
        except ValueError as fault:
            yield Cause.invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {fault}")
    if count is not None:
        here = f"{path}.succeededCount"
        yield from not_negative(here, count)
        if count > completions:
            why = f"must be less than or equal to {completions} (the number of specified completions)"
            yield Cause.invalid(here, count, why)
        if indexes is not None and count > total:
            why = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            yield Cause.invalid(here, count, why)


def count_indexes(text: str, completions: int) -> int:
    """How many indexes a text like `1,3-5` names; a ValueError carries Kubernetes' complaint."""
    return sum(high - low + 1 for low, high in intervals(text, completions))


def intervals(text: str, completions: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        low, high = _interval(part, completions)
        if found and found[-1][1] >= low:
            raise ValueError(f"non-increasing order, previous: {found[-1][1]}, current: {low}")
        found.append((low, high))
    return found


def _interval(text: str, completions: int) -> tuple[int, int]:
    ends = text.split("-")
    if len(ends) > 2:  # noqa: PLR2004
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise ValueError(f'the fragment "{text}" {rule}')
    low, high = _index(ends[0], completions), _index(ends[-1], completions)
    if len(ends) > 1 and low >= high:
        raise ValueError(f"non-increasing order, previous: {low}, current: {high}")
    return low, high


def _index(text: str, completions: int) -> int:
    try:
        index = int(text)
    except ValueError:
        raise ValueError(f'cannot convert string to integer for index: "{text}"') from None
    if index >= completions:
        raise ValueError(f'too large index: "{text}"')
    return index
