"""Validation of a pod's status, which the kubelet writes.

Called for writes to the subresource `status` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.rules import addresses
from pytest_kscen.embedded.apiserver.rules.checks import (
    GO_POD_IP,
    IMMUTABLE,
    MAX_INT32,
    Causes,
    as_go_struct,
    registered,
    validate_name,
    validate_range,
)
from pytest_kscen.embedded.apiserver.rules.pods.updates import validate_metadata_changes
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.objects.resources import Obj

POD_CONDITIONS = frozenset(
    {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}
)
MUST_STAY_TERMINATED = "may not be transitioned to non-terminated state"
HEALTH_STATES = ("Healthy", "Unhealthy", "Unknown")
STATUS_LISTS = {"containerStatuses": "containers", "initContainerStatuses": "initContainers"}
EPHEMERAL_STATUSES = "ephemeralContainerStatuses"
CONTAINER_STATUSES: dict[str, str | None] = {**STATUS_LISTS, EPHEMERAL_STATUSES: None}
NOT_NEGATIVE = "must be a non-negative integer"
FIELD_VALIDATORS: dict[str, Callable[[Obj, Obj, Obj], Causes]] = {}
"""Validators of the new status, the old status and the pod's spec, by field of the status."""


def validate_pod_status(new: Obj, old: Obj) -> Causes:
    """Yield the causes for the parts of the status that this write changes; unchanged parts are not
    validated again.
    """
    status, before, spec = new.get("status") or {}, old.get("status") or {}, new["spec"]
    yield from validate_metadata_changes(new, old)
    for field, validate in FIELD_VALIDATORS.items():
        if status.get(field) != before.get(field):
            yield from validate(status, before, spec)
    for name, kind in CONTAINER_STATUSES.items():
        if status.get(name) is not before.get(name):
            for index, one in enumerate(status.get(name) or ()):
                if "user" in one or "allocatedResourcesStatus" in one:
                    yield from _validate_container_status(
                        f"status.{name}[{index}]", one, spec, kind
                    )


@registered(FIELD_VALIDATORS, "conditions")
def _validate_conditions(status: Obj, _before: Obj, _spec: Obj) -> Causes:
    for index, one in enumerate(status.get("conditions") or ()):
        if one.get("observedGeneration", 0) < 0:
            yield Cause.invalid(
                f"status.conditions[{index}].observedGeneration",
                one["observedGeneration"],
                NOT_NEGATIVE,
            )
        if one.get("type") not in POD_CONDITIONS:
            yield from validate_name(
                f"status.conditions[{index}].Type", one.get("type", ""), names.label_key
            )


@registered(FIELD_VALIDATORS, "nominatedNodeName")
def _validate_nominated_node(status: Obj, _before: Obj, spec: Obj) -> Causes:
    node, path = status.get("nominatedNodeName", ""), "status.nominatedNodeName"
    if node:
        yield from validate_name(path, node, names.dns1123_subdomain)
        if spec.get("nodeName"):
            yield Cause.forbidden(path, "may not be set on pods that are already bound to a node")


@registered(FIELD_VALIDATORS, "observedGeneration")
def _validate_observed_generation(status: Obj, _before: Obj, _spec: Obj) -> Causes:
    if status.get("observedGeneration", 0) < 0:
        yield Cause.invalid("status.observedGeneration", status["observedGeneration"], NOT_NEGATIVE)


@registered(FIELD_VALIDATORS, "qosClass")
def _validate_qos_class(status: Obj, _before: Obj, _spec: Obj) -> Causes:
    yield Cause.invalid("status.qosClass", status.get("qosClass", ""), IMMUTABLE)


@registered(FIELD_VALIDATORS, "containerStatuses")
def _validate_containers(status: Obj, before: Obj, spec: Obj) -> Causes:
    return _validate_restarts("containerStatuses", status, before, spec)


@registered(FIELD_VALIDATORS, "initContainerStatuses")
def _validate_init_containers(status: Obj, before: Obj, spec: Obj) -> Causes:
    return _validate_restarts("initContainerStatuses", status, before, spec)


@registered(FIELD_VALIDATORS, EPHEMERAL_STATUSES)
def _validate_ephemeral_containers(status: Obj, before: Obj, _spec: Obj) -> Causes:
    new = status.get(EPHEMERAL_STATUSES) or ()
    for index, one in enumerate(before.get(EPHEMERAL_STATUSES) or ()):
        if "terminated" in one.get("state", {}) and _is_running_again(new, one):
            yield Cause.forbidden(
                f"status.{EPHEMERAL_STATUSES}[{index}].state", MUST_STAY_TERMINATED
            )


def _validate_restarts(name: str, status: Obj, before: Obj, spec: Obj) -> Causes:
    """Yield a cause for each terminated container that runs again although no restart policy or
    rule allows it.
    """
    old = [one.get("state", {}).get("terminated") for one in before.get(name) or ()]
    if not any(old) or any(
        rule.get("action") == "RestartAllContainers"
        for kind in STATUS_LISTS.values()
        for one in spec.get(kind) or ()
        for rule in one.get("restartPolicyRules") or ()
    ):
        return
    containers = {one.get("name"): one for one in spec.get(STATUS_LISTS[name]) or ()}
    for index, (ended, one) in enumerate(zip(old, before[name], strict=True)):
        if (
            ended
            and _is_running_again(status.get(name) or (), one)
            and not _may_restart(containers.get(one.get("name")), spec, ended)
        ):
            yield Cause.forbidden(f"status.{name}[{index}].state", MUST_STAY_TERMINATED)


def _is_running_again(new: Sequence[Obj], before: Obj) -> bool:
    found = next((one for one in new if one.get("name") == before.get("name")), None)
    return found is not None and "terminated" not in found.get("state", {})


def _may_restart(container: Obj | None, spec: Obj, ended: Obj) -> bool:
    if container is None:
        return False
    code = ended.get("exitCode", 0)
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (code in (codes.get("values") or ())) is (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


@registered(FIELD_VALIDATORS, "resourceClaimStatuses")
def _validate_claims(status: Obj, _before: Obj, spec: Obj) -> Causes:
    known, seen = {claim.get("name") for claim in spec.get("resourceClaims") or ()}, set()
    for index, one in enumerate(status.get("resourceClaimStatuses") or ()):
        here, name = f"status.resourceClaimStatuses[{index}]", one.get("name", "")
        if name not in known:
            yield Cause.invalid(
                f"{here}.name", name, "must match the name of an entry in `spec.resourceClaims`"
            )
        if name in seen:
            yield Cause.duplicate(f"{here}.name", name)
        seen.add(name)
        if "resourceClaimName" in one:
            yield from validate_name(
                f"{here}.resourceClaimName", one["resourceClaimName"], names.dns1123_subdomain
            )


def _validate_ips(path: str, given: Sequence[Obj], before: Sequence[Obj]) -> Causes:
    listed, known = [one.get("ip", "") for one in given], [one.get("ip", "") for one in before]
    for index, ip in enumerate(listed):
        yield from addresses.validate_address(f"{path}[{index}]", ip, known)
    families = [addresses.ip_family(ip) for ip in listed]
    unreadable = [index for index, ip in enumerate(listed) if addresses.parse_address(ip) is None]
    if len(listed) > 1 and unreadable:
        index = unreadable[0]
        detail = (
            f"Internal error: failed to check for dual stack with error:invalid IP[{index}]: "
            f"{listed[index]}"
        )
        yield Cause(path, detail, "InternalError")
    if len(families) > 1 and sorted(families) != ["IPv4", "IPv6"]:
        yield Cause.invalid(
            path,
            [as_go_struct(GO_POD_IP, one) for one in given],
            "may specify no more than one IP for each IP family",
        )


@registered(FIELD_VALIDATORS, "podIPs")
def _validate_pod_ips(status: Obj, before: Obj, _spec: Obj) -> Causes:
    return _validate_ips("status.podIPs", status.get("podIPs") or (), before.get("podIPs") or ())


@registered(FIELD_VALIDATORS, "hostIP")
def _validate_host_ip(status: Obj, _before: Obj, _spec: Obj) -> Causes:
    """Yield a cause when `hostIP` is not the first of `hostIPs`."""
    given = status.get("hostIPs") or ()
    if given and given[0].get("ip", "") != status.get("hostIP", ""):
        yield Cause.invalid(
            "status.hostIPs[0].ip", given[0].get("ip", ""), "must be equal to `hostIP`"
        )


@registered(FIELD_VALIDATORS, "hostIPs")
def _validate_host_ips(status: Obj, before: Obj, spec: Obj) -> Causes:
    if status.get("hostIP") == before.get("hostIP"):
        yield from _validate_host_ip(status, before, spec)
    yield from _validate_ips(
        "status.hostIPs", status.get("hostIPs") or (), before.get("hostIPs") or ()
    )


def _validate_container_status(path: str, given: Obj, spec: Obj, kind: str | None) -> Causes:
    user = given.get("user", {}).get("linux")
    if user is not None and spec.get("os", {}).get("name") == "windows":
        yield Cause.forbidden(f"{path}.user.linux", "cannot be set for a windows pod")
    elif user is not None:
        for field in ("uid", "gid"):
            yield from validate_range(
                f"{path}.user.linux.{field}", user.get(field, 0), 0, MAX_INT32
            )
        for index, group in enumerate(user.get("supplementalGroups") or ()):
            yield from validate_range(
                f"{path}.user.linux.supplementalGroups[{index}]", group, 0, MAX_INT32
            )
    allocated = given.get("allocatedResourcesStatus") or ()
    if allocated and kind is None:
        yield Cause.forbidden(
            f"{path}.allocatedResourcesStatus", "must not be specified in container status"
        )
    elif allocated:
        own = next(
            (one for one in spec.get(str(kind)) or () if one.get("name") == given.get("name")), None
        )
        for index, one in enumerate(allocated):
            yield from _validate_allocated_resource(
                f"{path}.allocatedResourcesStatus[{index}]", one, own
            )


def _validate_allocated_resource(path: str, given: Obj, container: Obj | None) -> Causes:
    name = given.get("name", "")
    if container is not None:
        requested = container.get("resources") or {}
        claims = [
            "claim:" + "/".join(filter(None, (c.get("name"), c.get("request"))))
            for c in requested.get("claims") or ()
        ]
        if name.startswith("claim:") and name not in claims:
            detail = "must match one of the container's resource claims in a format"
            form = "'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
            yield Cause.invalid(f"{path}.name", name, f"{detail} {form}")
        elif not name.startswith("claim:") and name not in (requested.get("requests") or ()):
            yield Cause.invalid(
                f"{path}.name", name, "must match one of the container's resource requests"
            )
    seen: list[Any] = []
    for index, one in enumerate(given.get("resources") or ()):
        if one.get("health", "") not in HEALTH_STATES:
            yield Cause.unsupported(
                f"{path}.resources[{index}].health", one.get("health", ""), HEALTH_STATES
            )
        if one.get("resourceID", "") in seen:
            yield Cause.duplicate(
                f"{path}.resources[{index}].resourceID", one.get("resourceID", "")
            )
        seen.append(one.get("resourceID", ""))
