"""Where a pod may run: node selectors, affinity, tolerations, and how pods spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.checks import (
    TAINT,
    Causes,
    internal,
    named,
    one_of,
    positive,
    selector,
)
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj

TAINTED = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
SPREADS = ("DoNotSchedule", "ScheduleAnyway")
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_NO_OPERATOR = "not a valid selector operator"
_EVERY_KEY = (
    'operator must be Exists when `key` is empty, which means "match all values and all keys"'
)
HIGHEST_WEIGHT = 100


def node_selector(path: str, given: Obj) -> Causes:
    terms = given.get("nodeSelectorTerms")
    if not terms:
        yield Cause.required(
            f"{path}.nodeSelectorTerms", "must have at least one node selector term"
        )
    for place, term in enumerate(terms or ()):
        yield from node_term(f"{path}.nodeSelectorTerms[{place}]", term)


def node_term(path: str, term: Obj, *, values: bool = True) -> Causes:
    for place, part in enumerate(term.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{place}]"
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
            yield Cause.invalid(f"{here}.operator", operator, _NO_OPERATOR)
        yield from named(f"{here}.key", part.get("key", ""), names.label_key)
        for number, value in enumerate(given if values else ()):
            yield from named(f"{here}.values[{number}]", value, names.label_value)
    for place, part in enumerate(term.get("matchFields") or ()):
        yield from _by_field(f"{path}.matchFields[{place}]", part)


def _by_field(path: str, part: Obj) -> Causes:
    operator, values = part.get("operator", ""), part.get("values") or ()
    if operator not in {"In", "NotIn"}:
        yield Cause.invalid(f"{path}.operator", operator, _NO_OPERATOR)
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield Cause.required(f"{path}.values", why)
    if part.get("key") != "metadata.name":
        yield Cause.invalid(f"{path}.key", part.get("key", ""), "not a valid field selector key")
    else:
        for place, value in enumerate(values):
            yield from named(f"{path}.values[{place}]", value, names.dns1123_subdomain)


def affinity(path: str, given: Obj) -> Causes:
    if "nodeAffinity" in given:
        inner_path = f"{path}.nodeAffinity"
        node_affinity = given["nodeAffinity"]
        if REQUIRED in node_affinity:
            yield from node_selector(f"{inner_path}.{REQUIRED}", node_affinity[REQUIRED])
        for place, term in enumerate(node_affinity.get(PREFERRED) or ()):
            here = f"{inner_path}.{PREFERRED}[{place}]"
            yield from _weight(here, term)
            yield from node_term(f"{here}.preference", term.get("preference") or {}, values=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in given:
            yield from _pod_affinity(f"{path}.{kind}", given[kind])


def _pod_affinity(path: str, given: Obj) -> Causes:
    for place, term in enumerate(given.get(REQUIRED) or ()):
        yield from _pod_term(f"{path}.{REQUIRED}[{place}]", term)
    for place, term in enumerate(given.get(PREFERRED) or ()):
        here = f"{path}.{PREFERRED}[{place}]"
        yield from _weight(here, term)
        yield from _pod_term(f"{here}.podAffinityTerm", term.get("podAffinityTerm") or {})


def _weight(path: str, term: Obj) -> Causes:
    if not 0 < term.get("weight", 0) <= HIGHEST_WEIGHT:
        yield Cause.invalid(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100")


def _pod_term(path: str, term: Obj) -> Causes:
    yield from selector(f"{path}.labelSelector", term.get("labelSelector"))
    yield from selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for namespace in term.get("namespaces") or ():
        yield from named(f"{path}.namespace", namespace, names.dns1123_label)
    yield from _matched_keys(path, term)
    if not term.get("topologyKey"):
        yield Cause.required(f"{path}.topologyKey", "can not be empty")
    yield from named(f"{path}.topologyKey", term.get("topologyKey", ""), names.label_key)


def _matched_keys(path: str, term: Obj) -> Causes:
    """Labels of the pod itself that join the selector."""
    chosen, given = term.get("matchLabelKeys") or (), term.get("labelSelector")
    shunned = term.get("mismatchLabelKeys") or ()
    for field, keys in (("matchLabelKeys", chosen), ("mismatchLabelKeys", shunned)):
        if keys and given is None:
            yield Cause.forbidden(
                f"{path}.{field}", "must not be specified when labelSelector is not set"
            )
        elif keys:
            for place, key in enumerate(keys):
                yield from named(f"{path}.{field}[{place}]", key, names.label_key)
    if given is not None and chosen:
        seen = set(given.get("matchLabels") or ())
        for part in given.get("matchExpressions") or ():
            if part["key"] in chosen and part["key"] in seen:
                why = "exists in both matchLabelKeys and labelSelector"
                yield Cause.invalid(f"{path}[{list(chosen).index(part['key'])}]", part["key"], why)
            seen.add(part["key"])
    for place, key in enumerate(chosen):
        if key in shunned:
            why = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield Cause.invalid(f"{path}.matchLabelKeys[{place}]", key, why)


def spread(path: str, given: Sequence[Obj]) -> Causes:
    for place, one in enumerate(given):
        here, key, action = (
            f"{path}[{place}]",
            one.get("topologyKey", ""),
            one.get("whenUnsatisfiable", ""),
        )
        yield from positive(f"{here}.maxSkew", one.get("maxSkew", 0))
        if not key:
            yield Cause.required(f"{here}.topologyKey", "can not be empty")
        yield from one_of(f"{here}.whenUnsatisfiable", action, SPREADS)
        if any(
            key == other.get("topologyKey", "") and action == other.get("whenUnsatisfiable", "")
            for other in given[place + 1 :]
        ):
            yield Cause.duplicate(
                f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"
            )
        if "minDomains" in one:
            yield from positive(f"{here}.minDomains", one["minDomains"])
            if action != "DoNotSchedule":
                why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield Cause.invalid(f"{here}.minDomains", one["minDomains"], why)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if policy in one:
                yield from one_of(f"{here}.{policy}", one[policy], ("Honor", "Ignore"))
        yield from _matched_keys(here, one)
        yield from selector(f"{here}.labelSelector", one.get("labelSelector"))


def tolerations(path: str, given: Sequence[Obj]) -> Causes:
    for place, one in enumerate(given):
        key, operator, effect = one.get("key", ""), one.get("operator", ""), one.get("effect", "")
        if operator == "Exists" and effect == "NoExecute" and key in TAINTED and "value" not in one:
            continue  # the two that every pod is given
        here = f"{path}[{place}]"
        if key:
            yield from named(f"{here}.key", key, names.label_key)
        elif operator != "Exists":
            yield Cause.invalid(f"{here}.operator", operator, _EVERY_KEY)
        if "tolerationSeconds" in one and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield Cause.invalid(f"{here}.effect", effect, why)
        yield from _tolerated_value(f"{here}.operator", operator, one.get("value", ""))
        if effect:
            yield from one_of(f"{here}.effect", effect, EFFECTS)


def _tolerated_value(path: str, operator: str, value: str) -> Causes:
    if operator in {"Equal", ""}:
        if wrong := names.label_value(value):
            yield Cause.invalid(path, value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            yield Cause.invalid(path, value, "value must be empty when `operator` is 'Exists'")
    else:
        known = ("Equal", "Exists", "Lt", "Gt") if operator in {"Lt", "Gt"} else ("Equal", "Exists")
        yield Cause.unsupported(path, operator, known)


def taints(path: str, given: Sequence[Obj]) -> Causes:
    """A node's."""
    seen: set[tuple[str, str]] = set()
    for place, taint in enumerate(given):
        here, key, effect = f"{path}[{place}]", taint.get("key", ""), taint.get("effect", "")
        yield from named(f"{here}.key", key, names.label_key)
        if wrong := names.label_value(taint.get("value", "")):
            yield Cause.invalid(f"{here}.value", taint.get("value", ""), ";".join(wrong))
        if effect:
            yield from one_of(f"{here}.effect", effect, EFFECTS)
        else:
            yield Cause.required(f"{here}.effect")
        if (key, effect) in seen:
            words = Cause.duplicate(here, internal(TAINT, taint)).message
            yield Cause(
                here,
                f"{words}: taints must be unique by key and effect pair",
                "FieldValueDuplicate",
            )
        seen.add((key, effect))
