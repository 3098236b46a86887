"""A pod's spec, judged part by part in the real server's order.

What is absent costs nothing to judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.rules.addresses import address
from pytest_kscen.embedded.apiserver.rules.checks import (
    CLAIM,
    LARGEST_INT32,
    Causes,
    Validator,
    internal,
    labels,
    named,
    required_one_of,
    within,
)
from pytest_kscen.embedded.apiserver.rules.pods import scheduling, security
from pytest_kscen.embedded.apiserver.rules.pods.containers import (
    Surroundings,
    containers,
    ephemeral_containers,
    init_containers,
)
from pytest_kscen.embedded.apiserver.rules.pods.defaults import CONTAINER_LISTS
from pytest_kscen.embedded.apiserver.rules.pods.resources import pod_level, requirements
from pytest_kscen.embedded.apiserver.rules.pods.volumes import volumes
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kscen.objects.resources import Obj

ENUMERATIONS = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
MIRROR = "kubernetes.io/config.mirror"
NOTHING: frozenset[str] = frozenset()
MOST_NAMESERVERS, MOST_SEARCHES, LONGEST_SEARCHES, LONGEST_HOSTNAME = 3, 32, 2048, 64


def pod_spec(path: str, spec: Obj, pod: Obj | None = None) -> Causes:
    """The spec of a pod with this metadata, or of a template."""
    yield from _lists(path, spec, pod)
    if spec.get("hostNetwork"):
        yield from _host_network(f"{path}.containers", spec, is_pod=pod is not None)
    for field, allowed in ENUMERATIONS.items():
        if spec.get(field) not in allowed:
            yield from required_one_of(f"{path}.{field}", spec.get(field), allowed)
    if "nodeSelector" in spec:
        yield from labels(f"{path}.nodeSelector", spec["nodeSelector"])
    if spec.get("securityContext") or "shareProcessNamespace" in spec:
        yield from security.pod_context(path, spec)
    if "affinity" in spec:
        yield from scheduling.affinity(f"{path}.affinity", spec["affinity"])
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        yield from _dns(f"{path}.dnsConfig", spec.get("dnsConfig"), spec.get("dnsPolicy"))
    yield from _optional(path, spec)


def _optional(path: str, spec: Obj) -> Causes:
    told = {
        name for kind in CONTAINER_LISTS for container in spec.get(kind) or () for name in container
    }
    if "securityContext" in told:
        yield from security.host_process(path, spec)
    for field, judge in OPTIONAL.items():
        if field in spec:
            yield from judge(path, spec)
    if "env" in told:
        yield from _known_files(path, spec)


def _lists(path: str, spec: Obj, pod: Obj | None) -> Causes:
    """Volumes, claims, and the containers that may use them."""
    if "terminationGracePeriodSeconds" not in spec:
        yield Cause.required(f"{path}.terminationGracePeriodSeconds")
    sound: dict[str, Obj] = {}  # containers may refer to these volumes
    if "volumes" in spec:
        name = pod.get("name", "") if pod else ""
        yield from volumes(f"{path}.volumes", spec["volumes"], name, sound, is_pod=pod is not None)
    if "resourceClaims" in spec:
        yield from _resource_claims(f"{path}.resourceClaims", spec["resourceClaims"], pod)
    claims = NOTHING
    if "resourceClaims" in spec:
        claims = frozenset(claim.get("name", "") for claim in spec["resourceClaims"] or ()) - {""}
    grace, host_users = (
        spec.get("terminationGracePeriodSeconds"),
        spec.get("hostUsers") is not False,
    )
    around = Surroundings(sound, claims, grace, spec.get("restartPolicy", ""), host_users)
    ordinary = spec.get("containers") or ()
    yield from containers(f"{path}.containers", ordinary, around)
    if "initContainers" in spec:
        yield from init_containers(
            f"{path}.initContainers", spec["initContainers"], ordinary, around
        )
    if "ephemeralContainers" in spec:
        yield from ephemeral_containers(f"{path}.ephemeralContainers", spec, around)
    if "resources" in spec:
        yield from pod_level(path, spec, around.claims)


def _resource_claims(path: str, given: Sequence[Obj], pod: Obj | None) -> Causes:
    if pod and MIRROR in (pod.get("annotations") or ()):
        yield from (
            Cause.forbidden("", "static pods do not support resource claims") for _ in given
        )
        return
    seen: set[str] = set()
    for place, claim in enumerate(given):
        here, name = f"{path}[{place}]", claim.get("name", "")
        if not name:
            yield Cause.required(f"{here}.name")
        elif name in seen:
            yield Cause.duplicate(f"{here}.name", name)
        else:
            yield from named(f"{here}.name", name, names.dns1123_label)
        seen.add(name)
        sources = [
            field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim
        ]
        if len(sources) > 1:
            why = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            yield Cause.invalid(here, internal(CLAIM, claim), why)
        if not sources:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield Cause.invalid(here, internal(CLAIM, claim), why)
        for field in sources:
            yield from named(f"{here}.{field}", claim[field], names.dns1123_subdomain)


def _host_network(path: str, spec: Obj, *, is_pod: bool) -> Causes:
    for place, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            own = port.get("hostPort", 0)
            if (is_pod or own) and own != port.get("containerPort", 0):
                why = "must match `containerPort` when `hostNetwork` is true"
                yield Cause.invalid(f"{path}[{place}].ports[{number}].hostPort", own, why)


def _dns(path: str, given: Obj | None, policy: str | None) -> Causes:
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
        if len(servers) > MOST_NAMESERVERS:
            yield Cause.invalid(
                here, servers, f"must not have more than {MOST_NAMESERVERS} nameservers"
            )
        for number, server in enumerate(servers):
            yield from address(f"{here}[{number}]", server)
        yield from _searches(f"{path}.searches", given.get("searches") or ())
        for place, option in enumerate(given.get("options") or ()):
            if not option.get("name"):
                yield Cause.required(f"{path}.options[{place}]", "must not be empty")


def _searches(path: str, searches: Sequence[str]) -> Causes:
    if len(searches) > MOST_SEARCHES:
        yield Cause.invalid(path, searches, f"must not have more than {MOST_SEARCHES} search paths")
    if len(" ".join(searches)) > LONGEST_SEARCHES:
        why = (
            f"must not have more than {LONGEST_SEARCHES} characters (including spaces) in the "
            "search list"
        )
        yield Cause.invalid(path, searches, why)
    for place, search in enumerate(searches):
        if search != ".":
            yield from named(f"{path}[{place}]", search.removesuffix("."), names.search_domain)


def _readiness(path: str, given: Sequence[Obj]) -> Causes:
    for place, gate in enumerate(given):
        yield from named(
            f"{path}[{place}].conditionType", gate.get("conditionType", ""), names.label_key
        )


def _gates(path: str, given: Sequence[Obj]) -> Causes:
    seen: set[str] = set()
    for place, gate in enumerate(given):
        name = gate.get("name", "")
        yield from named(f"{path}[{place}]", name, names.label_key)
        if name in seen:
            yield Cause.duplicate(f"{path}[{place}]", name)
        seen.add(name)


def _hostname(path: str, spec: Obj) -> Causes:
    name, path = spec["hostnameOverride"], f"{path}.hostnameOverride"
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            yield Cause.forbidden(path, f"may not be specified when {field} is true")
    if len(name.encode()) > LONGEST_HOSTNAME:
        yield Cause.too_long(path, LONGEST_HOSTNAME)
    yield from named(path, name, names.dns1123_subdomain)


def _host_aliases(path: str, given: Sequence[Obj]) -> Causes:
    for place, alias in enumerate(given):
        yield from address(f"{path}[{place}].ip", alias.get("ip", ""))
        for number, hostname in enumerate(alias.get("hostnames") or ()):
            yield from named(
                f"{path}[{place}].hostnames[{number}]", hostname, names.dns1123_subdomain
            )


def _known_files(path: str, spec: Obj) -> Causes:
    """Variables that are read from a file: it must lie in a scratch volume of the pod."""
    for where, container in security.every_container(spec):
        for place, variable in enumerate(container.get("env") or ()):
            reference = variable.get("valueFrom", {}).get("fileKeyRef")
            if reference is not None:
                here, name = (
                    f"{path}.{where}.env[{place}].valueFrom.fileKeyRef.volumeName",
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
                    yield Cause.invalid(here, name, "referenced volume must be of type emptyDir")


def _member(field: str, judge: Validator) -> Validator:
    def check(path: str, spec: Obj) -> Iterable[Cause]:
        return judge(f"{path}.{field}", spec[field])

    return check


def _called(field: str, check: names.Check) -> Validator:
    return _member(field, lambda path, name: named(path, name, check))


OPTIONAL: dict[str, Validator] = {
    "readinessGates": _member("readinessGates", _readiness),
    "schedulingGates": _member("schedulingGates", _gates),
    "topologySpreadConstraints": _member("topologySpreadConstraints", scheduling.spread),
    "hostUsers": security.host_users,
    "hostnameOverride": _hostname,
    "serviceAccountName": _called("serviceAccountName", names.dns1123_subdomain),
    "nodeName": _called("nodeName", names.dns1123_subdomain),
    "activeDeadlineSeconds": _member(
        "activeDeadlineSeconds", lambda path, given: within(path, given, 1, LARGEST_INT32)
    ),
    "hostname": _called("hostname", names.dns1123_label),
    "subdomain": _called("subdomain", names.dns1123_label),
    "tolerations": _member("tolerations", scheduling.tolerations),
    "hostAliases": _member("hostAliases", _host_aliases),
    "priorityClassName": _called("priorityClassName", names.dns1123_subdomain),
    "runtimeClassName": _called("runtimeClassName", names.dns1123_subdomain),
    "preemptionPolicy": _member(
        "preemptionPolicy", lambda path, given: required_one_of(path, given, PREEMPTION_POLICIES)
    ),
    "overhead": _member(
        "overhead", lambda path, given: requirements(path, {"limits": given}, NOTHING)
    ),
    "os": security.operating_system,
}
"""What most pods do not have, in the order in which it is judged."""
