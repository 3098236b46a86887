"""Node selectors: which nodes a pod, or a volume, may be on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.placement.numbers import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kscen.objects.resources import Obj


def pod_may_be_on(pod: Obj, node: Obj) -> bool:
    """nodeSelector and the required node affinity."""
    spec = pod["spec"]
    selector = spec.get("nodeSelector")
    if selector:
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            return False
    required = (spec.get("affinity") or {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selects(required, node)


def volume_may_be_on(volume: Obj, node: Obj) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or selects(required, node)


def preference(pod: Obj, node: Obj) -> int:
    """The weights of the preferred terms that this node meets."""
    terms = (pod["spec"].get("affinity") or {}).get("nodeAffinity", {}).get("preferredDuringSchedulingIgnoredDuringExecution")
    return sum(term["weight"] for term in terms or () if term_holds(term["preference"], node))


def selects(selector: Obj, node: Obj) -> bool:
    """A NodeSelector: one of its terms must hold; an empty term never does."""
    return any(term_holds(term, node) for term in selector.get("nodeSelectorTerms") or ())


def term_holds(term: Obj, node: Obj) -> bool:
    """One term of a NodeSelector."""
    labels = node["metadata"].get("labels") or {}
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not by_label and not by_field:
        return False
    fields = {"metadata.name": node["metadata"]["name"]}
    return all(holds(part, labels) for part in by_label) and all(holds(part, fields) for part in by_field)


def holds(requirement: Obj, labels: Mapping[str, str]) -> bool:
    """One requirement of a term."""
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
    found, limit = number(own), number(wanted)
    if found is None or limit is None:
        return False
    return found > limit if operator == "Gt" else found < limit
