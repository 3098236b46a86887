"""How much of a ResourceQuota objects use. Amounts are quantities by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects import charges, quantities
from pytest_kscen.objects.selectors import Requirement
from pytest_kscen.objects.totals import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_kscen.objects.resources import Obj

    Amounts = dict[str, str]

ALIASES = {"configmaps", "replicationcontrollers", "resourcequotas", "secrets"}  # core's own that are also counted by name


class Meter(NamedTuple):
    """How one resource is measured."""

    charge: Callable[[Obj, float], Amounts]
    measures: Callable[[str], bool]  # whether an amount of this name is about it
    in_scope: Callable[[str, Requirement, Obj], bool]


def _in_no_scope(*_: object) -> bool:
    return False


METERS: dict[tuple[str, str], Meter] = {
    ("", "pods"): Meter(charges.charge_pod, charges.is_pods, charges.pod_in_scope),
    ("", "persistentvolumeclaims"): Meter(charges.charge_claim, charges.is_claims, charges.claim_in_scope),
    ("", "services"): Meter(charges.charge_service, charges.is_services, _in_no_scope),
}


def meter_of(group: str, plural: str) -> Meter:
    """Most objects are only counted."""
    if (group, plural) in METERS:
        return METERS[group, plural]
    counted = f"count/{plural}.{group}" if group else f"count/{plural}"
    names = (counted, plural) if not group and plural in ALIASES else (counted,)
    return Meter(lambda *_: dict.fromkeys(names, "1"), lambda name: name in names, _in_no_scope)


def scopes_of(quota: Obj) -> list[tuple[str, Requirement]]:
    spec = quota["spec"]
    listed = [(scope, Requirement(scope, "Exists")) for scope in spec.get("scopes") or ()]
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return listed + [
        (each["scopeName"], Requirement(each["scopeName"], each["operator"], frozenset(each.get("values") or ())))
        for each in selected
    ]


def is_about(quota: Obj, meter: Meter, obj: Obj) -> bool:
    """Whether a quota limits anything of this object."""
    hard = quota["spec"].get("hard") or {}
    return any(map(meter.measures, hard)) and all(meter.in_scope(name, want, obj) for name, want in scopes_of(quota))


def measured(quota: Obj, meter: Meter) -> list[str]:
    """The names in a quota that are about this resource."""
    return [name for name in quota["spec"].get("hard") or {} if meter.measures(name)]


def masked(amounts: Mapping[str, str], names: Iterable[str]) -> Amounts:
    return {name: amounts[name] for name in names if name in amounts}


def growth(new: Mapping[str, str], old: Mapping[str, str]) -> Amounts:
    """By how much one is more than the other; what is less is left out."""
    grown = {name: quantities.subtract(amount, old.get(name, "0")) for name, amount in new.items()}
    return {name: amount for name, amount in grown.items() if quantities.nanos(amount) > 0}


def used(quota: Obj, meter: Meter, objects: Iterable[Obj], now: float) -> Amounts:
    """How much of a quota all these objects of one resource use; zero of what they do not."""
    names = measured(quota, meter)
    amounts = together(meter.charge(obj, now) for obj in objects if is_about(quota, meter, obj))
    return dict.fromkeys(names, "0") | masked(amounts, names)
