"""Selectors of chaos: the fields that choose its targets, and the number of targets.

Called by `chaos_fields` for the fields, and by `chaos` for the number, which depends on the mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.workflow.validation.value_checks import (
    HUNDRED,
    NAME,
    TEXT,
    WHOLE,
    Shape,
    ValidationIssue,
    a_label_key,
    a_label_value,
    a_list,
    a_map,
    a_record,
    error,
    one_of,
    text,
    warning,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.objects.documents import Path
    from pytest_kscen.objects.resources import Obj


FIXED, FIXED_PERCENT, RANDOM_MAX_PERCENT = "fixed", "fixed-percent", "random-max-percent"
MODES = ("one", "all", FIXED, FIXED_PERCENT, RANDOM_MAX_PERCENT)
OF_VALUES = ("In", "NotIn")
OPERATORS = (*OF_VALUES, "Exists", "DoesNotExist")
POD_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def labels(value: Any, path: Path) -> Iterator[ValidationIssue]:
    yield from a_map(text(a_label_value))(value, path)
    for key in value if isinstance(value, dict) else ():
        if wrong := a_label_key(str(key)):
            yield error((*path, str(key)), wrong)


def _expression(value: Any, path: Path) -> Iterator[ValidationIssue]:
    fields = {"key": text(a_label_key), "operator": one_of(*OPERATORS), "values": a_list(TEXT)}
    yield from a_record(fields, "key", "operator")(value, path)
    if not isinstance(value, dict) or value.get("operator") not in OPERATORS:
        return
    takes_values = value["operator"] in OF_VALUES
    if takes_values != bool(value.get("values")):
        how = "needs values to compare with" if takes_values else "takes no values"
        yield error(
            (*path, "values") if value.get("values") else path,
            f"the operator {value['operator']} {how}",
        )


ANY_SELECTOR: dict[str, Shape] = {
    "namespaces": a_list(NAME),
    "fieldSelectors": a_map(TEXT),
    "labelSelectors": labels,
    "expressionSelectors": a_list(_expression),
    "annotationSelectors": a_map(TEXT),
}
POD_SELECTOR = a_record(
    {
        **ANY_SELECTOR,
        "nodes": a_list(NAME),
        "pods": a_map(a_list(NAME)),
        "nodeSelectors": labels,
        "podPhaseSelectors": a_list(one_of(*POD_PHASES)),
    }
)
MACHINE_SELECTOR = a_record({**ANY_SELECTOR, "physicalMachines": a_map(a_list(NAME))})

SELECTED: dict[str, Shape] = {"mode": one_of(*MODES), "value": TEXT, "selector": POD_SELECTOR}


def amount(spec: Obj, path: Path) -> Iterator[ValidationIssue]:
    """Yield issues of `value`, the number of selected targets, which some modes require."""
    mode, value = spec.get("mode"), spec.get("value")
    if mode not in MODES or not isinstance(value, str | None):
        return
    if mode not in (FIXED, FIXED_PERCENT, RANDOM_MAX_PERCENT):
        if value:
            yield warning((*path, "value"), f"value is ignored with the mode {mode}")
    elif not value:
        yield error(
            (*path, "mode"),
            (
                f"the mode {mode} needs a value, the number or share of selected targets: write "
                "it in quotes"
            ),
        )
    elif not WHOLE.fullmatch(value) or not int(value) or (mode != FIXED and int(value) > HUNDRED):
        bounds = "above 0" if mode == FIXED else "from 1 to 100"
        yield error(
            (*path, "value"),
            f"{value!r} does not fit the mode {mode}: write a whole number {bounds}, in quotes",
        )
