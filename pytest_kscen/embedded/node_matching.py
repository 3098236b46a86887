"""Decide which nodes a pod or a volume may be on: node selectors, affinity, taints and tolerations.

Pure functions with Kubernetes' semantics, used by the scheduler, DaemonSets, kubelets and the
volume controllers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kscen.objects.resources import Obj


_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_CANONICAL_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,18})")
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def parse_int64(text: str, form: re.Pattern[str] = _INTEGER) -> int | None:
    """Return the number in this notation, or None for anything else and beyond 64 bits."""
    found = form.fullmatch(text)
    value = int("".join(found.groups())) if found else None
    return value if value is not None and INT64_MIN <= value <= INT64_MAX else None


def parse_canonical_int64(text: str) -> int | None:
    """Return the number written in canonical form, or None. Tolerations accept only this
    notation, without signs and leading zeros.
    """
    return parse_int64(text, _CANONICAL_INTEGER)


def node_matches_pod(pod: Obj, node: Obj) -> bool:
    """Return True if the node satisfies the pod's nodeSelector and its required node affinity.
    Taints are not considered.
    """
    spec = pod["spec"]
    selector = spec.get("nodeSelector")
    if selector:
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            return False
    required = (
        (spec.get("affinity") or {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    return required is None or matches_node_selector(required, node)


def node_matches_volume(volume: Obj, node: Obj) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or matches_node_selector(required, node)


def matches_node_selector(selector: Obj, node: Obj) -> bool:
    """Return True if one term of the NodeSelector matches the node. An empty term matches
    nothing.
    """
    return any(
        matches_node_selector_term(term, node) for term in selector.get("nodeSelectorTerms") or ()
    )


def matches_node_selector_term(term: Obj, node: Obj) -> bool:
    """Return True if all expressions and fields of one NodeSelector term match the node."""
    labels = node["metadata"].get("labels") or {}
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not by_label and not by_field:
        return False
    fields = {"metadata.name": node["metadata"]["name"]}
    return all(matches_node_requirement(part, labels) for part in by_label) and all(
        matches_node_requirement(part, fields) for part in by_field
    )


def matches_node_requirement(requirement: Obj, labels: Mapping[str, str]) -> bool:
    """Return True if one requirement of a term holds for these labels. Gt and Lt hold only for
    whole numbers.
    """
    own, values = labels.get(requirement["key"]), requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return own in values
        case "NotIn":
            return own not in values
        case "Exists":
            return own is not None
        case "DoesNotExist":
            return own is None
        case operator:
            return own is not None and len(values) == 1 and _compares(operator, own, values[0])


def _compares(operator: str, own: str, wanted: str) -> bool:
    found, limit = parse_int64(own), parse_int64(wanted)
    if found is None or limit is None:
        return False
    return found > limit if operator == "Gt" else found < limit


HARD_EFFECTS = ("NoSchedule", "NoExecute")


def tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    own, theirs = toleration.get("value") or "", taint.get("value") or ""
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(own == theirs)
        case "Lt" | "Gt" as operator:
            return _toleration_compares(operator, own, theirs)
    return False


def _toleration_compares(operator: str, own: str, theirs: str) -> bool:
    wanted, found = parse_canonical_int64(own), parse_canonical_int64(theirs)
    if wanted is None or found is None:
        return False
    return found < wanted if operator == "Lt" else found > wanted


def first_untolerated_taint(
    taints: Iterable[Obj], tolerations: Iterable[Obj], effects: tuple[str, ...] = HARD_EFFECTS
) -> Obj | None:
    """Return the first taint with one of these effects that no toleration matches, or None."""
    for taint in taints:
        if taint["effect"] in effects and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            return taint
    return None


def taints_of(node: Obj) -> list[Obj]:
    return node["spec"].get("taints") or [] if node.get("spec") else []


def is_same_taint(one: Obj, other: Obj) -> bool:
    """Return True if key and effect are equal: a node has at most one taint for each pair."""
    return bool(one["key"] == other["key"] and one["effect"] == other["effect"])
