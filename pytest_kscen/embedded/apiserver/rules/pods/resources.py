"""Compute resources of containers and pods: names, quantities, sums over the pod, and the
quality-of-service class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.rules.checks import Causes, validate_name
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.objects.resources import Obj

HUGE_PAGES = "hugepages-"
COMPUTE_RESOURCES = ("cpu", "memory")
CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGER_RESOURCES = frozenset(
    {
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
_QUANTITY_RESOURCES = frozenset({*CONTAINER_RESOURCES, "storage"})
STANDARD_RESOURCES = (
    _INTEGER_RESOURCES
    | _QUANTITY_RESOURCES
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _QUANTITY_RESOURCES}
    - {"limits.storage"}
)


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    return (
        not is_native(name)
        and not name.startswith("requests.")
        and not names.label_key(f"requests.{name}")
    )


def is_overcommit_allowed(name: str) -> bool:
    """Report whether the limit of a resource may exceed its request: native resources, except huge
    pages.
    """
    return is_native(name) and not name.startswith(HUGE_PAGES)


def is_integer_resource(name: str) -> bool:
    """Report whether a resource exists in whole units only, such as pods and extended resources."""
    return name in _INTEGER_RESOURCES or is_extended(name)


def validate_resource_name(path: str, name: str) -> Causes:
    wrong = names.label_key(name)
    for message in wrong:
        yield Cause.invalid(path, name, message)
    if (
        not wrong
        and "/" not in name
        and name not in STANDARD_RESOURCES
        and not name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))
    ):
        yield Cause.invalid(path, name, "must be a standard resource type or fully qualified")


def validate_container_resource_name(path: str, name: str) -> Causes:
    yield from validate_resource_name(path, name)
    if "/" not in name:
        if name not in CONTAINER_RESOURCES and not name.startswith(HUGE_PAGES):
            yield Cause.invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield Cause.invalid(path, name, "doesn't follow extended resource name standard")


def validate_pod_resource_name(path: str, name: str) -> Causes:
    wrong = list(validate_resource_name(path, name))
    yield from wrong
    if not wrong and not _is_pod_level(name):
        yield Cause.unsupported(path, name, ("cpu", HUGE_PAGES, "memory"))


def validate_quantity(path: str, name: str, quantity: Any) -> Causes:
    """Yield the causes for a resource's quantity.

    It must not be negative, and must be an integer for resources that exist in whole units only.
    """
    parsed = quantities.parse(quantity)
    if parsed.nanos < 0:
        yield Cause.invalid(path, quantity, "must be greater than or equal to 0")
    if parsed.milli % 1000 and is_integer_resource(name):
        yield Cause.invalid(path, quantity, "must be an integer")


def validate_requirements(
    path: str,
    given: Obj,
    claims: frozenset[str],
    check: Callable[[str, str], Causes] = validate_container_resource_name,
) -> Causes:
    """Yield the causes for a ResourceRequirements.

    `claims` are the names of the pod's resource claims. `check` validates resource names: those of
    a container, or of the pod as a whole.
    """
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    for name, quantity in limits.items():
        yield from _validate_amount(f"{path}.limits[{name}]", name, quantity, check)
    for name, quantity in requests.items():
        yield from _validate_amount(f"{path}.requests[{name}]", name, quantity, check, huge=False)
        limit = limits.get(name)
        if limit is None:
            if not is_overcommit_allowed(name):
                yield Cause.required(
                    f"{path}.limits", "Limit must be set for non overcommitable resources"
                )
        else:
            order = quantities.compare(quantity, limit)
            if order and not is_overcommit_allowed(name):
                yield Cause.invalid(
                    f"{path}.requests", quantity, f"must be equal to {name} limit of {limit}"
                )
            elif order > 0:
                yield Cause.invalid(
                    f"{path}.requests",
                    quantity,
                    f"must be less than or equal to {name} limit of {limit}",
                )
        yield from _validate_huge_page(f"{path}.requests[{name}]", name, quantity)
    requested = {**limits, **requests}
    if any(name.startswith(HUGE_PAGES) for name in requested) and not any(
        name in requested for name in COMPUTE_RESOURCES
    ):
        yield Cause.forbidden(path, "HugePages require cpu or memory")
    if given.get("claims"):
        yield from _validate_claims(f"{path}.claims", given["claims"], claims)


def _validate_amount(
    path: str, name: str, quantity: Any, check: Callable[[str, str], Causes], *, huge: bool = True
) -> Causes:
    if name not in COMPUTE_RESOURCES:
        yield from check(path, name)
    yield from validate_quantity(path, name, quantity)
    if huge:
        yield from _validate_huge_page(path, name, quantity)


def _validate_huge_page(path: str, name: str, quantity: Any) -> Causes:
    if name.startswith(HUGE_PAGES):
        try:
            size = quantities.parse(name.removeprefix(HUGE_PAGES))
        except ValueError:
            size = quantities.Quantity(0)
        if (
            size.nanos <= 0
            or size.nanos % quantities.NANO
            or quantities.parse(quantity).value % size.value
        ):
            yield Cause.invalid(
                path, quantity, f"{quantity} is not positive integer multiple of {name}"
            )


def _validate_claims(path: str, given: list[Obj], known: frozenset[str]) -> Causes:
    seen: list[str] = []
    for index, claim in enumerate(given):
        here, name, request = f"{path}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            yield Cause.required(here)
            continue
        key = f"{name}/{request}" if request else name
        if name in seen:
            yield Cause.duplicate(here, name)
        else:
            if request:
                yield from validate_name(f"{here}.request", request, names.dns1123_label)
            if key in seen or (not request and any(other.startswith(f"{name}/") for other in seen)):
                yield Cause.duplicate(here, key)
            seen.append(key)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield Cause(
                here, f"{Cause.not_found(here, name).message}: {detail}", "FieldValueNotFound"
            )


def validate_pod_resources(path: str, spec: Obj, claims: frozenset[str]) -> Causes:
    """Yield the causes for resources of the pod as a whole, which must cover what its containers
    request.
    """
    given, here = spec["resources"], f"{path}.resources"
    if spec.get("os", {}).get("name") == "windows":
        yield Cause.forbidden(here, "may not be set for a windows pod")
        return
    if given.get("claims"):
        yield Cause.forbidden(f"{here}.claims", "claims may not be set for Resources at pod-level")
    yield from validate_requirements(here, given, claims, validate_pod_resource_name)
    # The pod's own resources cover those of its containers.
    resources = spec["resources"]
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, total in aggregate_resources(spec, "requests").items():
        if name in requests and quantities.compare(total, requests[name]) > 0:
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            yield Cause.invalid(f"{here}.requests[{name}]", requests[name], detail)
    for name, total in aggregate_resources(spec, "limits").items():
        if (
            name.startswith(HUGE_PAGES)
            and name in limits
            and quantities.compare(total, limits[name]) > 0
        ):
            detail = f"must be greater than or equal to aggregate container limits of {total}"
            yield Cause.invalid(f"{here}.limits[{name}]", limits[name], detail)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in (container.get("resources", {}).get("limits") or {}).items():
            if name in limits and quantities.compare(limit, limits[name]) > 0:
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                yield Cause.invalid(f"{here}.containers[{index}][{name}].limits", limit, detail)


def aggregate_resources(spec: Obj, kind: str) -> dict[str, str]:
    """Sum the limits or requests of a pod's containers.

    Sidecars are added to ordinary containers. Other init containers run one at a time before them,
    so their maximum counts.
    """
    total: dict[str, str] = {}
    for container in spec.get("containers") or ():
        _add_resources(total, container, kind)
    sidecars: dict[str, str] = {}
    before: dict[str, str] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add_resources(total, container, kind)
            _add_resources(sidecars, container, kind)
            _raise_to(before, sidecars)
        else:
            peak = dict(sidecars)
            _add_resources(peak, container, kind)
            _raise_to(before, peak)
    _raise_to(total, before)
    return total


def _add_resources(total: dict[str, str], container: Obj, kind: str) -> None:
    for name, quantity in (container.get("resources", {}).get(kind) or {}).items():
        total[name] = quantities.add(total.get(name, "0"), quantity)


def _raise_to(total: dict[str, str], other: Mapping[str, str]) -> None:
    for name, quantity in other.items():
        if quantities.compare(quantity, total.get(name, "0")) > 0 or name not in total:
            total[name] = quantity


def _is_pod_level(name: str) -> bool:
    return name in COMPUTE_RESOURCES or name.startswith(HUGE_PAGES)


def default_pod_resources(spec: Obj) -> None:
    """Set requests of the pod as a whole.

    They default to the sums of the containers, or else to the pod's own limits.
    """
    given = spec["resources"]
    limits, requests = dict(given.get("limits") or {}), dict(given.get("requests") or {})
    if limits or requests:
        for name, total in aggregate_resources(spec, "limits").items():
            if name.startswith(HUGE_PAGES) and name not in requests:
                limits.setdefault(name, total)
    if limits:
        for name, total in aggregate_resources(spec, "requests").items():
            if _is_pod_level(name) and is_overcommit_allowed(name):
                requests.setdefault(name, total)
        for name, limit in limits.items():
            if _is_pod_level(name):
                requests.setdefault(name, limit)
    parts = {"limits": limits, "requests": requests}
    if any(parts[name] != (given.get(name) or {}) for name in parts):
        spec["resources"] = {**given, **{name: value for name, value in parts.items() if value}}


def qos_class(spec: Obj) -> str:
    """Return Guaranteed, Burstable or BestEffort.

    Only CPU and memory count. Resources of the pod as a whole replace those of its containers.
    """
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        resource_fields = [whole]
    else:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        resource_fields = [container.get("resources") or {} for container in containers]
        if not any(resource_fields):
            return "BestEffort"
    requests = [_compute_amounts(given, "requests") for given in resource_fields]
    limits = [_compute_amounts(given, "limits") for given in resource_fields]
    if not any(requests) and not any(limits):
        return "BestEffort"
    bounded = all(len(one) == len(COMPUTE_RESOURCES) for one in limits)
    return (
        "Guaranteed"
        if bounded and _total_amounts(requests) == _total_amounts(limits)
        else "Burstable"
    )


def _compute_amounts(given: Obj, kind: str) -> dict[str, int]:
    listed = given.get(kind)
    if not listed:
        return {}
    amounts = {name: quantities.nanos(listed[name]) for name in COMPUTE_RESOURCES if name in listed}
    return {name: nanos for name, nanos in amounts.items() if nanos > 0}


def _total_amounts(amounts: list[dict[str, int]]) -> dict[str, int]:
    return {
        name: sum(one.get(name, 0) for one in amounts)
        for name in COMPUTE_RESOURCES
        if any(name in one for one in amounts)
    }
