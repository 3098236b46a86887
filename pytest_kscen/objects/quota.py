"""Resource requests of pods, and the use of a ResourceQuota by pods, claims, services and counted
objects.

Pure; quota admission and the quota controller both use it and count equally. Amounts are
quantities by name.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects import quantities
from pytest_kscen.objects.selectors import Requirement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_kscen.objects.resources import Obj

    Amounts = dict[str, str]


POD_LEVEL_RESOURCES = ("cpu", "memory")  # resources that a pod may state as a whole


def total(pod: Obj, which: str, *, overhead: bool = True) -> Amounts:
    """Return a pod's requests or limits: the sum of its containers, or the maximum of its init
    containers if that is more.
    """
    spec = pod["spec"]
    found = sum_amounts(_of(container, which) for container in spec.get("containers") or ())
    beside: Amounts = {}
    first: Amounts = {}
    for container in spec.get("initContainers") or ():
        requested = _of(container, which)
        if container.get("restartPolicy") == "Always":
            found, beside = sum_amounts([found, requested]), sum_amounts([beside, requested])
            first = max_amounts([first, beside])
        else:
            first = max_amounts([first, sum_amounts([requested, beside])])
    found = max_amounts([found, first])
    whole = (spec.get("resources") or {}).get(which) or {}
    found |= {name: amount for name, amount in whole.items() if name in POD_LEVEL_RESOURCES}
    above = spec.get("overhead") or {} if overhead else {}
    return sum_amounts(
        [
            found,
            {
                name: amount
                for name, amount in above.items()
                if which == "requests" or name in found
            },
        ]
    )


def _of(container: Obj, which: str) -> Mapping[str, str]:
    return (container.get("resources") or {}).get(which) or {}


def sum_amounts(parts: Iterable[Mapping[str, str]]) -> Amounts:
    sums: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            sums[name] = quantities.add(sums[name], amount) if name in sums else amount
    return sums


def max_amounts(parts: Iterable[Mapping[str, str]]) -> Amounts:
    largest: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            if name not in largest or quantities.compare(amount, largest[name]) > 0:
                largest[name] = amount
    return largest


OVER = {"Failed", "Succeeded"}
COMPUTE = ("cpu", "memory", "ephemeral-storage")
COMPULSORY = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
POD_RESOURCES = {
    "pods",
    "count/pods",
    *COMPUTE,
    *(f"{which}.{name}" for which in ("requests", "limits") for name in COMPUTE),
}
CLAIM_RESOURCES = ("persistentvolumeclaims", "requests.storage")
SERVICE_RESOURCES = {"services", "count/services", "services.nodeports", "services.loadbalancers"}
STORAGE_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
HUGE_PAGES = ("hugepages-", "requests.hugepages-")
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def charge_pod(pod: Obj, now: float) -> Amounts:
    """Return the amounts that a pod uses. A finished pod counts as an object only."""
    if is_over(pod, now):
        return {"count/pods": "1"}
    return {"count/pods": "1", **_pod_amounts(total(pod, "requests"), total(pod, "limits"))}


def is_over(pod: Obj, now: float) -> bool:
    """Return True if a pod uses no resources any more: it has finished, or exceeded its grace
    period.
    """
    if (pod.get("status") or {}).get("phase") in OVER:
        return True
    metadata = pod["metadata"]
    gone, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    return (
        bool(gone)
        and grace is not None
        and now > datetime.datetime.fromisoformat(gone).timestamp() + grace
    )


def _pod_amounts(requests: Mapping[str, str], limits: Mapping[str, str]) -> Amounts:
    found = {"pods": "1"}
    for name in COMPUTE:
        if name in requests:
            found |= {name: requests[name], f"requests.{name}": requests[name]}
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            found |= {name: amount, f"requests.{name}": amount}
        elif "/" in name and not name.startswith("kubernetes.io/"):
            found[f"requests.{name}"] = amount
    return found


def is_pods(name: str) -> bool:
    return (
        name in POD_RESOURCES
        or name.startswith(HUGE_PAGES)
        or (name.startswith("requests.") and "/" in name)
    )


def unstated(pod: Obj, required: Iterable[str]) -> str:
    """Return the containers without the amounts that a quota requires, in the words of Kubernetes'
    refusal; empty if all are given.
    """
    spec = pod["spec"]
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return ""
    must = sorted(set(required) & set(COMPULSORY))
    missing: dict[str, list[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        stated = _pod_amounts(resources.get("requests") or {}, resources.get("limits") or {})
        for name in must:
            if name not in stated:
                missing.setdefault(name, []).append(container["name"])
    return "; ".join(
        f"{name} for: {','.join(sorted(set(missing[name])))}" for name in must if name in missing
    )


def is_terminating(pod: Obj) -> bool:
    return (pod["spec"].get("activeDeadlineSeconds") or -1) >= 0


def is_best_effort(pod: Obj) -> bool:
    containers = [
        *(pod["spec"].get("containers") or ()),
        *(pod["spec"].get("initContainers") or ()),
    ]
    stated = [
        pod["spec"].get("resources") or {},
        *(each.get("resources") or {} for each in containers),
    ]
    amounts = [
        resources.get(which) or {} for resources in stated for which in ("requests", "limits")
    ]
    return not any(
        quantities.nanos(each.get(name, "0")) > 0 for each in amounts for name in ("cpu", "memory")
    )


def pod_in_scope(scope: str, want: Requirement, pod: Obj) -> bool:
    if scope == "PriorityClass":
        name = pod["spec"].get("priorityClassName")
        return want.holds({scope: name} if name else {})
    return scope in SCOPES and SCOPES[scope](pod)


def _has_cross_namespace_affinity(pod: Obj) -> bool:
    affinity = pod["spec"].get("affinity") or {}
    terms: list[Obj] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms += rules.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        terms += [
            each["podAffinityTerm"]
            for each in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ]
    return any(
        term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms
    )


SCOPES: dict[str, Callable[[Obj], bool]] = {
    "Terminating": is_terminating,
    "NotTerminating": lambda pod: not is_terminating(pod),
    "BestEffort": is_best_effort,
    "NotBestEffort": lambda pod: not is_best_effort(pod),
    "CrossNamespacePodAffinity": _has_cross_namespace_affinity,
}


def charge_claim(claim: Obj, _: float) -> Amounts:
    annotations = claim["metadata"].get("annotations") or {}
    storage_class = annotations.get(BETA_CLASS) or claim["spec"].get("storageClassName")
    requested = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    if requested and allocated and quantities.compare(allocated, requested) > 0:
        requested = allocated
    found = {
        "persistentvolumeclaims": "1",
        **({"requests.storage": requested} if requested else {}),
    }
    by_class = (
        {f"{storage_class}{STORAGE_CLASS_SUFFIX}{name}": amount for name, amount in found.items()}
        if storage_class
        else {}
    )
    return {**found, **by_class, "count/persistentvolumeclaims": "1"}


def is_claims(name: str) -> bool:
    own = (*CLAIM_RESOURCES, "count/persistentvolumeclaims")
    return name in own or any(
        name.endswith(f"{STORAGE_CLASS_SUFFIX}{each}") for each in CLAIM_RESOURCES
    )


def claim_in_scope(scope: str, want: Requirement, claim: Obj) -> bool:
    if scope != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    names = [
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    ]
    named = [name for name in names if name]
    return (
        any(want.holds({scope: name}) for name in named)
        if named
        else want.operator != "Exists" and want.holds({})
    )


def charge_service(service: Obj, _: float) -> Amounts:
    spec = service["spec"]
    ports = spec.get("ports") or []
    balanced = spec.get("type") == "LoadBalancer"
    on_nodes = len(ports) if balanced or spec.get("type") == "NodePort" else 0
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        on_nodes = sum(1 for port in ports if port.get("nodePort"))
    counted = {"services": "1", "count/services": "1"}
    return {
        **counted,
        "services.nodeports": str(on_nodes),
        "services.loadbalancers": str(int(balanced)),
    }


def is_services(name: str) -> bool:
    return name in SERVICE_RESOURCES


ALIASES = {
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
}  # resources of the core group that are counted by name, too


class Meter(NamedTuple):
    charge: Callable[[Obj, float], Amounts]
    measures: Callable[[str], bool]
    """True for names of amounts that concern this resource."""
    in_scope: Callable[[str, Requirement, Obj], bool]


def _in_no_scope(*_: object) -> bool:
    return False


METERS: dict[tuple[str, str], Meter] = {
    ("", "pods"): Meter(charge_pod, is_pods, pod_in_scope),
    ("", "persistentvolumeclaims"): Meter(charge_claim, is_claims, claim_in_scope),
    ("", "services"): Meter(charge_service, is_services, _in_no_scope),
}


def meter_of(group: str, plural: str) -> Meter:
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
        (
            each["scopeName"],
            Requirement(each["scopeName"], each["operator"], frozenset(each.get("values") or ())),
        )
        for each in selected
    ]


def is_about(quota: Obj, meter: Meter, obj: Obj) -> bool:
    hard = quota["spec"].get("hard") or {}
    return any(map(meter.measures, hard)) and all(
        meter.in_scope(name, want, obj) for name, want in scopes_of(quota)
    )


def measured(quota: Obj, meter: Meter) -> list[str]:
    return [name for name in quota["spec"].get("hard") or {} if meter.measures(name)]


def masked(amounts: Mapping[str, str], names: Iterable[str]) -> Amounts:
    return {name: amounts[name] for name in names if name in amounts}


def growth(new: Mapping[str, str], old: Mapping[str, str]) -> Amounts:
    """Return the increase of each amount; reductions are left out, as quota admission refuses only
    growth.
    """
    grown = {name: quantities.subtract(amount, old.get(name, "0")) for name, amount in new.items()}
    return {name: amount for name, amount in grown.items() if quantities.nanos(amount) > 0}


def used(quota: Obj, meter: Meter, objects: Iterable[Obj], now: float) -> Amounts:
    """Return a quota's use by all objects of one resource. Unused names of the quota are zero, as
    in the quota's status.
    """
    names = measured(quota, meter)
    amounts = sum_amounts(meter.charge(obj, now) for obj in objects if is_about(quota, meter, obj))
    return dict.fromkeys(names, "0") | masked(amounts, names)
