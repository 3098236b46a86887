"""Validation of a pod's spec, part by part in the order of the real server.

Optional parts are looked up in a table, so absent ones cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.addresses import validate_address
from pytest_kscen.embedded.apiserver.rules.checks import (
    GO_POD_RESOURCE_CLAIM,
    MAX_INT32,
    Causes,
    Validator,
    as_go_struct,
    validate_labels,
    validate_name,
    validate_range,
    validate_required_enum,
)
from pytest_kscen.embedded.apiserver.rules.pods import scheduling, security
from pytest_kscen.embedded.apiserver.rules.pods.containers import (
    PodValidationContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from pytest_kscen.embedded.apiserver.rules.pods.defaults import CONTAINER_LISTS
from pytest_kscen.embedded.apiserver.rules.pods.resources import (
    validate_pod_resources,
    validate_requirements,
)
from pytest_kscen.embedded.apiserver.rules.pods.volumes import validate_volumes
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kscen.objects.resources import Obj

ENUM_FIELDS = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
NO_CLAIMS: frozenset[str] = frozenset()
MAX_NAMESERVERS, MAX_SEARCHES, MAX_SEARCHES_LENGTH, MAX_HOSTNAME_BYTES = 3, 32, 2048, 64


def validate_pod_spec(path: str, spec: Obj, pod: Obj | None = None) -> Causes:
    """Yield the causes for the spec of a pod with this metadata, or of a template when `pod` is
    None.
    """
    yield from _validate_volumes_and_containers(path, spec, pod)
    if spec.get("hostNetwork"):
        yield from _validate_host_network(f"{path}.containers", spec, is_pod=pod is not None)
    for field, allowed in ENUM_FIELDS.items():
        if spec.get(field) not in allowed:
            yield from validate_required_enum(f"{path}.{field}", spec.get(field), allowed)
    if "nodeSelector" in spec:
        yield from validate_labels(f"{path}.nodeSelector", spec["nodeSelector"])
    if spec.get("securityContext") or "shareProcessNamespace" in spec:
        yield from security.validate_pod_security_context(path, spec)
    if "affinity" in spec:
        yield from scheduling.validate_affinity(f"{path}.affinity", spec["affinity"])
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        yield from _validate_dns(f"{path}.dnsConfig", spec.get("dnsConfig"), spec.get("dnsPolicy"))
    yield from _validate_optional_fields(path, spec)


def _validate_optional_fields(path: str, spec: Obj) -> Causes:
    fields = {
        name for kind in CONTAINER_LISTS for container in spec.get(kind) or () for name in container
    }
    if "securityContext" in fields:
        yield from security.validate_host_process(path, spec)
    for field, validate in OPTIONAL_FIELDS.items():
        if field in spec:
            yield from validate(path, spec)
    if "env" in fields:
        # The file of a variable must lie in an emptyDir of the pod.
        for where, container in security.visit_containers(spec):
            for index, variable in enumerate(container.get("env") or ()):
                reference = variable.get("valueFrom", {}).get("fileKeyRef")
                if reference is not None:
                    here, name = (
                        f"{path}.{where}.env[{index}].valueFrom.fileKeyRef.volumeName",
                        reference.get("volumeName", ""),
                    )
                    volume = next(
                        (
                            one
                            for one in reversed(spec.get("volumes") or ())
                            if one.get("name", "") == name
                        ),
                        None,
                    )
                    if volume is None:
                        yield Cause.not_found(here, name)
                    elif "emptyDir" not in volume:
                        yield Cause.invalid(
                            here, name, "referenced volume must be of type emptyDir"
                        )


def _validate_volumes_and_containers(path: str, spec: Obj, pod: Obj | None) -> Causes:
    """Yield the causes for volumes, resource claims and containers, in this order.

    Containers may refer only to valid volumes and to claims.
    """
    if "terminationGracePeriodSeconds" not in spec:
        yield Cause.required(f"{path}.terminationGracePeriodSeconds")
    valid_volumes: dict[str, Obj] = {}  # valid volumes by name
    if "volumes" in spec:
        name = pod.get("name", "") if pod else ""
        yield from validate_volumes(
            f"{path}.volumes", spec["volumes"], name, valid_volumes, is_pod=pod is not None
        )
    if "resourceClaims" in spec:
        yield from _validate_resource_claims(f"{path}.resourceClaims", spec["resourceClaims"], pod)
    claims = NO_CLAIMS
    if "resourceClaims" in spec:
        claims = frozenset(claim.get("name", "") for claim in spec["resourceClaims"] or ()) - {""}
    grace, host_users = (
        spec.get("terminationGracePeriodSeconds"),
        spec.get("hostUsers") is not False,
    )
    context = PodValidationContext(
        valid_volumes, claims, grace, spec.get("restartPolicy", ""), host_users
    )
    ordinary = spec.get("containers") or ()
    yield from validate_containers(f"{path}.containers", ordinary, context)
    if "initContainers" in spec:
        yield from validate_init_containers(
            f"{path}.initContainers", spec["initContainers"], ordinary, context
        )
    if "ephemeralContainers" in spec:
        yield from validate_ephemeral_containers(f"{path}.ephemeralContainers", spec, context)
    if "resources" in spec:
        yield from validate_pod_resources(path, spec, context.claims)


def _validate_resource_claims(path: str, given: Sequence[Obj], pod: Obj | None) -> Causes:
    if pod and MIRROR_ANNOTATION in (pod.get("annotations") or ()):
        yield from (
            Cause.forbidden("", "static pods do not support resource claims") for _ in given
        )
        return
    seen: set[str] = set()
    for index, claim in enumerate(given):
        here, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            yield Cause.required(f"{here}.name")
        elif name in seen:
            yield Cause.duplicate(f"{here}.name", name)
        else:
            yield from validate_name(f"{here}.name", name, names.dns1123_label)
        seen.add(name)
        sources = [
            field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim
        ]
        if len(sources) > 1:
            detail = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            yield Cause.invalid(here, as_go_struct(GO_POD_RESOURCE_CLAIM, claim), detail)
        if not sources:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield Cause.invalid(here, as_go_struct(GO_POD_RESOURCE_CLAIM, claim), detail)
        for field in sources:
            yield from validate_name(f"{here}.{field}", claim[field], names.dns1123_subdomain)


def _validate_host_network(path: str, spec: Obj, *, is_pod: bool) -> Causes:
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            own = port.get("hostPort", 0)
            if (is_pod or own) and own != port.get("containerPort", 0):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield Cause.invalid(f"{path}[{index}].ports[{number}].hostPort", own, detail)


def _validate_dns(path: str, given: Obj | None, policy: str | None) -> Causes:
    servers: Sequence[str] = (given or {}).get("nameservers") or ()
    if policy == "None" and given is None:
        yield Cause.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
    elif policy == "None" and not servers:
        yield Cause.required(
            f"{path}.nameservers",
            "must provide at least one DNS nameserver when `dnsPolicy` is None",
        )
    elif given:
        here = f"{path}.nameservers"
        if len(servers) > MAX_NAMESERVERS:
            yield Cause.invalid(
                here, servers, f"must not have more than {MAX_NAMESERVERS} nameservers"
            )
        for number, server in enumerate(servers):
            yield from validate_address(f"{here}[{number}]", server)
        yield from _validate_searches(f"{path}.searches", given.get("searches") or ())
        for index, option in enumerate(given.get("options") or ()):
            if not option.get("name"):
                yield Cause.required(f"{path}.options[{index}]", "must not be empty")


def _validate_searches(path: str, searches: Sequence[str]) -> Causes:
    if len(searches) > MAX_SEARCHES:
        yield Cause.invalid(path, searches, f"must not have more than {MAX_SEARCHES} search paths")
    if len(" ".join(searches)) > MAX_SEARCHES_LENGTH:
        detail = (
            f"must not have more than {MAX_SEARCHES_LENGTH} characters (including spaces) in the "
            "search list"
        )
        yield Cause.invalid(path, searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            yield from validate_name(
                f"{path}[{index}]", search.removesuffix("."), names.search_domain
            )


def _validate_scheduling_gates(path: str, given: Sequence[Obj]) -> Causes:
    seen: set[str] = set()
    for index, gate in enumerate(given):
        name = gate.get("name", "")
        yield from validate_name(f"{path}[{index}]", name, names.label_key)
        if name in seen:
            yield Cause.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _validate_hostname_override(path: str, spec: Obj) -> Causes:
    name, path = spec["hostnameOverride"], f"{path}.hostnameOverride"
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            yield Cause.forbidden(path, f"may not be specified when {field} is true")
    if len(name.encode()) > MAX_HOSTNAME_BYTES:
        yield Cause.too_long(path, MAX_HOSTNAME_BYTES)
    yield from validate_name(path, name, names.dns1123_subdomain)


def _validate_host_aliases(path: str, given: Sequence[Obj]) -> Causes:
    for index, alias in enumerate(given):
        yield from validate_address(f"{path}[{index}].ip", alias.get("ip", ""))
        for number, hostname in enumerate(alias.get("hostnames") or ()):
            yield from validate_name(
                f"{path}[{index}].hostnames[{number}]", hostname, names.dns1123_subdomain
            )


def _field_validator(field: str, validate: Validator) -> Validator:
    def check(path: str, spec: Obj) -> Iterable[Cause]:
        return validate(f"{path}.{field}", spec[field])

    return check


def _name_validator(field: str, check: names.Check) -> Validator:
    return _field_validator(field, lambda path, name: validate_name(path, name, check))


OPTIONAL_FIELDS: dict[str, Validator] = {
    "readinessGates": _field_validator(
        "readinessGates",
        lambda path, given: (
            cause
            for index, gate in enumerate(given)
            for cause in validate_name(
                f"{path}[{index}].conditionType", gate.get("conditionType", ""), names.label_key
            )
        ),
    ),
    "schedulingGates": _field_validator("schedulingGates", _validate_scheduling_gates),
    "topologySpreadConstraints": _field_validator(
        "topologySpreadConstraints", scheduling.validate_spread_constraints
    ),
    "hostUsers": security.validate_host_users,
    "hostnameOverride": _validate_hostname_override,
    "serviceAccountName": _name_validator("serviceAccountName", names.dns1123_subdomain),
    "nodeName": _name_validator("nodeName", names.dns1123_subdomain),
    "activeDeadlineSeconds": _field_validator(
        "activeDeadlineSeconds", lambda path, given: validate_range(path, given, 1, MAX_INT32)
    ),
    "hostname": _name_validator("hostname", names.dns1123_label),
    "subdomain": _name_validator("subdomain", names.dns1123_label),
    "tolerations": _field_validator("tolerations", scheduling.validate_tolerations),
    "hostAliases": _field_validator("hostAliases", _validate_host_aliases),
    "priorityClassName": _name_validator("priorityClassName", names.dns1123_subdomain),
    "runtimeClassName": _name_validator("runtimeClassName", names.dns1123_subdomain),
    "preemptionPolicy": _field_validator(
        "preemptionPolicy",
        lambda path, given: validate_required_enum(path, given, PREEMPTION_POLICIES),
    ),
    "overhead": _field_validator(
        "overhead", lambda path, given: validate_requirements(path, {"limits": given}, NO_CLAIMS)
    ),
    "os": security.validate_operating_system,
}
"""Validators of the fields that most pods do not have, in the order in which the real server
applies them.
"""
