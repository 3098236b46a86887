"""Validators of a pod's placement: node selectors, affinity, tolerations, topology spread; and of a
node's taints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.checks import (
    GO_TAINT,
    Causes,
    as_go_struct,
    validate_enum,
    validate_label_selector,
    validate_name,
    validate_positive,
)
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj

NODE_CONDITION_TAINTS = frozenset(
    {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
)
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_BAD_OPERATOR = "not a valid selector operator"
_EMPTY_KEY = (
    'operator must be Exists when `key` is empty, which means "match all values and all keys"'
)
MAX_WEIGHT = 100


def validate_node_selector(path: str, given: Obj) -> Causes:
    terms = given.get("nodeSelectorTerms")
    if not terms:
        yield Cause.required(
            f"{path}.nodeSelectorTerms", "must have at least one node selector term"
        )
    for index, term in enumerate(terms or ()):
        yield from validate_node_term(f"{path}.nodeSelectorTerms[{index}]", term)


def validate_node_term(path: str, term: Obj, *, values: bool = True) -> Causes:
    for index, part in enumerate(term.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        operator, given = part.get("operator", ""), part.get("values") or ()
        if operator in {"In", "NotIn"}:
            if not given:
                yield Cause.required(
                    f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'"
                )
        elif operator in {"Exists", "DoesNotExist"}:
            if given:
                yield Cause.forbidden(
                    f"{here}.values",
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )
        elif operator in {"Gt", "Lt"}:
            if len(given) != 1:
                yield Cause.required(
                    f"{here}.values",
                    "must be specified single value when `operator` is 'Lt' or 'Gt'",
                )
        else:
            yield Cause.invalid(f"{here}.operator", operator, _BAD_OPERATOR)
        yield from validate_name(f"{here}.key", part.get("key", ""), names.label_key)
        for number, value in enumerate(given if values else ()):
            yield from validate_name(f"{here}.values[{number}]", value, names.label_value)
    for index, part in enumerate(term.get("matchFields") or ()):
        yield from _validate_field_requirement(f"{path}.matchFields[{index}]", part)


def _validate_field_requirement(path: str, part: Obj) -> Causes:
    operator, values = part.get("operator", ""), part.get("values") or ()
    if operator not in {"In", "NotIn"}:
        yield Cause.invalid(f"{path}.operator", operator, _BAD_OPERATOR)
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield Cause.required(f"{path}.values", detail)
    if part.get("key") != "metadata.name":
        yield Cause.invalid(f"{path}.key", part.get("key", ""), "not a valid field selector key")
    else:
        for index, value in enumerate(values):
            yield from validate_name(f"{path}.values[{index}]", value, names.dns1123_subdomain)


def validate_affinity(path: str, given: Obj) -> Causes:
    if "nodeAffinity" in given:
        inner_path = f"{path}.nodeAffinity"
        node_affinity = given["nodeAffinity"]
        if REQUIRED in node_affinity:
            yield from validate_node_selector(f"{inner_path}.{REQUIRED}", node_affinity[REQUIRED])
        for index, term in enumerate(node_affinity.get(PREFERRED) or ()):
            here = f"{inner_path}.{PREFERRED}[{index}]"
            yield from _validate_weight(here, term)
            yield from validate_node_term(
                f"{here}.preference", term.get("preference") or {}, values=False
            )
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in given:
            for index, term in enumerate(given[kind].get(REQUIRED) or ()):
                yield from _validate_pod_affinity_term(f"{path}.{kind}.{REQUIRED}[{index}]", term)
            for index, term in enumerate(given[kind].get(PREFERRED) or ()):
                here = f"{path}.{kind}.{PREFERRED}[{index}]"
                yield from _validate_weight(here, term)
                yield from _validate_pod_affinity_term(
                    f"{here}.podAffinityTerm", term.get("podAffinityTerm") or {}
                )


def _validate_weight(path: str, term: Obj) -> Causes:
    if not 0 < term.get("weight", 0) <= MAX_WEIGHT:
        yield Cause.invalid(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100")


def _validate_pod_affinity_term(path: str, term: Obj) -> Causes:
    yield from validate_label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    yield from validate_label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for namespace in term.get("namespaces") or ():
        yield from validate_name(f"{path}.namespace", namespace, names.dns1123_label)
    yield from _validate_match_label_keys(path, term)
    if not term.get("topologyKey"):
        yield Cause.required(f"{path}.topologyKey", "can not be empty")
    yield from validate_name(f"{path}.topologyKey", term.get("topologyKey", ""), names.label_key)


def _validate_match_label_keys(path: str, term: Obj) -> Causes:
    """Yield the causes for `matchLabelKeys` and `mismatchLabelKeys`, by which labels of the pod
    itself join the selector.
    """
    matched, given = term.get("matchLabelKeys") or (), term.get("labelSelector")
    mismatched = term.get("mismatchLabelKeys") or ()
    for field, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if keys and given is None:
            yield Cause.forbidden(
                f"{path}.{field}", "must not be specified when labelSelector is not set"
            )
        elif keys:
            for index, key in enumerate(keys):
                yield from validate_name(f"{path}.{field}[{index}]", key, names.label_key)
    if given is not None and matched:
        seen = set(given.get("matchLabels") or ())
        for part in given.get("matchExpressions") or ():
            if part["key"] in matched and part["key"] in seen:
                detail = "exists in both matchLabelKeys and labelSelector"
                yield Cause.invalid(
                    f"{path}[{list(matched).index(part['key'])}]", part["key"], detail
                )
            seen.add(part["key"])
    for index, key in enumerate(matched):
        if key in mismatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield Cause.invalid(f"{path}.matchLabelKeys[{index}]", key, detail)


def validate_spread_constraints(path: str, given: Sequence[Obj]) -> Causes:
    for index, one in enumerate(given):
        here, key, action = (
            f"{path}[{index}]",
            one.get("topologyKey", ""),
            one.get("whenUnsatisfiable", ""),
        )
        yield from validate_positive(f"{here}.maxSkew", one.get("maxSkew", 0))
        if not key:
            yield Cause.required(f"{here}.topologyKey", "can not be empty")
        yield from validate_enum(f"{here}.whenUnsatisfiable", action, SPREAD_ACTIONS)
        if any(
            key == other.get("topologyKey", "") and action == other.get("whenUnsatisfiable", "")
            for other in given[index + 1 :]
        ):
            yield Cause.duplicate(
                f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"
            )
        if "minDomains" in one:
            yield from validate_positive(f"{here}.minDomains", one["minDomains"])
            if action != "DoNotSchedule":
                detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield Cause.invalid(f"{here}.minDomains", one["minDomains"], detail)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if policy in one:
                yield from validate_enum(f"{here}.{policy}", one[policy], ("Honor", "Ignore"))
        yield from _validate_match_label_keys(here, one)
        yield from validate_label_selector(f"{here}.labelSelector", one.get("labelSelector"))


def validate_tolerations(path: str, given: Sequence[Obj]) -> Causes:
    for index, one in enumerate(given):
        key, operator, effect = one.get("key", ""), one.get("operator", ""), one.get("effect", "")
        if (
            operator == "Exists"
            and effect == "NoExecute"
            and key in NODE_CONDITION_TAINTS
            and "value" not in one
        ):
            continue  # the two tolerations that admission adds to every pod
        here = f"{path}[{index}]"
        if key:
            yield from validate_name(f"{here}.key", key, names.label_key)
        elif operator != "Exists":
            yield Cause.invalid(f"{here}.operator", operator, _EMPTY_KEY)
        if "tolerationSeconds" in one and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield Cause.invalid(f"{here}.effect", effect, detail)
        yield from _validate_tolerated_value(f"{here}.operator", operator, one.get("value", ""))
        if effect:
            yield from validate_enum(f"{here}.effect", effect, TAINT_EFFECTS)


def _validate_tolerated_value(path: str, operator: str, value: str) -> Causes:
    if operator in {"Equal", ""}:
        if wrong := names.label_value(value):
            yield Cause.invalid(path, value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            yield Cause.invalid(path, value, "value must be empty when `operator` is 'Exists'")
    else:
        known = ("Equal", "Exists", "Lt", "Gt") if operator in {"Lt", "Gt"} else ("Equal", "Exists")
        yield Cause.unsupported(path, operator, known)


def validate_taints(path: str, given: Sequence[Obj]) -> Causes:
    """Yield the causes for a node's taints: malformed keys and values, unknown effects, repeated
    pairs of key and effect.
    """
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(given):
        here, key, effect = f"{path}[{index}]", taint.get("key", ""), taint.get("effect", "")
        yield from validate_name(f"{here}.key", key, names.label_key)
        if wrong := names.label_value(taint.get("value", "")):
            yield Cause.invalid(f"{here}.value", taint.get("value", ""), ";".join(wrong))
        if effect:
            yield from validate_enum(f"{here}.effect", effect, TAINT_EFFECTS)
        else:
            yield Cause.required(f"{here}.effect")
        if (key, effect) in seen:
            message = Cause.duplicate(here, as_go_struct(GO_TAINT, taint)).message
            yield Cause(
                here,
                f"{message}: taints must be unique by key and effect pair",
                "FieldValueDuplicate",
            )
        seen.add((key, effect))
