"""Rules of Services.

Addresses and node ports are allocated by `service_addresses`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules
from pytest_kscen.embedded.apiserver.rules import addresses, checks
from pytest_kscen.embedded.apiserver.rules.fields import (
    SERVICE_FIELDS,
    keep_spec,
    keep_status,
    set_defaults,
)
from pytest_kscen.embedded.apiserver.rules.networking import validate_load_balancer_ingress
from pytest_kscen.embedded.apiserver.rules.service_addresses import (
    allocate_addresses,
    is_externally_accessible,
    is_headless,
    needs_health_check,
    update_addresses,
    validate_address_fields,
)
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
SESSION_AFFINITIES = ("ClientIP", "None")
TRAFFIC_POLICIES = ("Cluster", "Local")
TRAFFIC_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
MAX_AFFINITY_SECONDS, DEFAULT_AFFINITY_SECONDS = 86400, 10800
TOPOLOGY_MODE, TOPOLOGY_HINTS = (
    "service.kubernetes.io/topology-mode",
    "service.kubernetes.io/topology-aware-hints",
)
SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_LOAD_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_HEALTH_CHECK_ONLY = (
    "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
)


def default_service(obj: Obj) -> None:
    spec = obj["spec"]
    set_defaults(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif (
        spec["sessionAffinity"] == "ClientIP"
        and spec.get("sessionAffinityConfig", {}).get("clientIP", {}).get("timeoutSeconds") is None
    ):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": DEFAULT_AFFINITY_SECONDS}}
    for port in spec.get("ports") or ():
        set_defaults(port, {"protocol": "TCP"})
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if is_externally_accessible(spec):
        set_defaults(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] != "ExternalName" and spec["type"] in SERVICE_TYPES:
        set_defaults(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        set_defaults(spec, {"allocateLoadBalancerNodePorts": True})
        for one in (obj.get("status") or {}).get("loadBalancer", {}).get("ingress") or ():
            if one.get("ip"):
                set_defaults(one, {"ipMode": "VIP"})


def prepare_service_create(obj: Obj, core: Core) -> None:
    obj["status"] = {"loadBalancer": {}}
    obj["spec"] = _with_own_ports(obj["spec"])
    allocate_addresses(obj, core)


def prepare_service_update(new: Obj, old: Obj, core: Core) -> None:
    keep_status(new, old, core)
    if new["spec"] is old["spec"]:
        return
    new["spec"] = _with_own_ports(new["spec"])
    update_addresses(new, old, core)
    if new["spec"]["type"] != "LoadBalancer" and (new.get("status") or {}).get("loadBalancer"):
        new["status"] = {**new["status"], "loadBalancer": {}}


def _with_own_ports(spec: Obj) -> Obj:
    """Return the spec with copies of its ports, which allocation may then change."""
    return {
        **spec,
        **({"ports": [dict(port) for port in spec["ports"]]} if spec.get("ports") else {}),
    }


def validate_service(obj: Obj) -> Causes:
    return _validate_against_old(obj, {})


def _validate_against_old(obj: Obj, old: Obj) -> Causes:
    spec, before, notes = (
        obj["spec"],
        old.get("spec") or {},
        obj["metadata"].get("annotations") or {},
    )
    if (
        TOPOLOGY_MODE in notes
        and TOPOLOGY_HINTS in notes
        and notes[TOPOLOGY_MODE] != notes[TOPOLOGY_HINTS]
    ):
        detail = f"must match annotations[{TOPOLOGY_HINTS}] when both are specified"
        yield Cause.invalid(f"metadata.annotations[{TOPOLOGY_MODE}]", notes[TOPOLOGY_MODE], detail)
    kind = spec.get("type")
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        yield Cause.required("spec.ports")
    if kind in {"LoadBalancer", "NodePort"} and is_headless(spec):
        yield Cause.invalid(
            "spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"
        )
    elif kind == "ExternalName":
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field):
                yield Cause.forbidden(f"spec.{field}", "may not be set for ExternalName services")
        name = spec.get("externalName", "").removesuffix(".")
        yield from checks.validate_required_name("spec.externalName", name, names.dns1123_subdomain)
    yield from _validate_ports(spec)
    yield from checks.validate_labels("spec.selector", spec.get("selector"))
    yield from _validate_session_affinity(spec)
    yield from validate_address_fields(spec, before)
    for index, ip in enumerate(spec.get("externalIPs") or ()):
        wrong = list(
            addresses.validate_address(
                f"spec.externalIPs[{index}]", ip, before.get("externalIPs") or ()
            )
        )
        yield from wrong or addresses.validate_endpoint_address(f"spec.externalIPs[{index}]", ip)
    yield from checks.validate_required_enum("spec.type", spec.get("type"), SERVICE_TYPES)
    yield from _validate_node_ports(spec)
    yield from _validate_source_ranges(
        spec, notes, before, (old.get("metadata") or {}).get("annotations") or {}
    )
    yield from _validate_load_balancer(spec)
    yield from _validate_traffic_policies(spec)


def _validate_ports(spec: Obj) -> Causes:
    ports = spec.get("ports") or ()
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name or len(ports) > 1:
            yield from checks.validate_required_name(f"{path}.name", name, names.dns1123_label)
        if name and name in seen:
            yield Cause.duplicate(f"{path}.name", name)
        seen.add(name)
        yield from checks.validate_port_number(f"{path}.port", port.get("port", 0))
        yield from checks.validate_required_enum(
            f"{path}.protocol", port.get("protocol"), checks.PROTOCOLS
        )
        yield from checks.validate_port(f"{path}.targetPort", port.get("targetPort", 0))
        if "appProtocol" in port:
            yield from checks.validate_name(
                f"{path}.appProtocol", port["appProtocol"], names.label_key
            )


def _validate_session_affinity(spec: Obj) -> Causes:
    affinity, path = spec.get("sessionAffinity"), "spec.sessionAffinityConfig"
    yield from checks.validate_required_enum("spec.sessionAffinity", affinity, SESSION_AFFINITIES)
    if affinity == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= MAX_AFFINITY_SECONDS:
            detail = f"must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"
            yield Cause.invalid(f"{path}.clientIP.timeoutSeconds", seconds, detail)
    elif affinity == "None" and "sessionAffinityConfig" in spec:
        yield Cause.forbidden(path, "must not be set when session affinity is None")


def _validate_node_ports(spec: Obj) -> Causes:
    taken: set[tuple[str, int]] = set()
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        if spec.get("type") == "ClusterIP" and "nodePort" in port:
            yield Cause.forbidden(
                f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'"
            )
    for index, port in enumerate(spec.get("ports") or ()):
        key = port.get("protocol", ""), port.get("nodePort", 0)
        if key[1] and key in taken:
            yield Cause.duplicate(f"spec.ports[{index}].nodePort", key[1])
        taken.add(key)
    for index, port in enumerate(spec.get("ports") or ()):
        key = port.get("protocol", ""), port.get("port", 0)
        if key in seen:
            bare = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            yield Cause.duplicate(f"spec.ports[{index}]", bare)
        seen.add(key)


def _validate_source_ranges(spec: Obj, notes: Obj, before: Obj, old_notes: Obj) -> Causes:
    ranges, path = spec.get("loadBalancerSourceRanges") or (), "spec.LoadBalancerSourceRanges"
    annotated = f"metadata.annotations[{SOURCE_RANGES}]"
    if (ranges or SOURCE_RANGES in notes) and spec.get("type") != "LoadBalancer":
        yield Cause.forbidden(path if ranges else annotated, _LOAD_BALANCER_ONLY)
    if ranges:
        known = [text.strip() for text in before.get("loadBalancerSourceRanges") or ()]
        for index, text in enumerate(ranges):
            yield from addresses.validate_cidr(f"{path}[{index}]", text.strip(), known)
    elif (
        SOURCE_RANGES in notes
        and notes[SOURCE_RANGES] != old_notes.get(SOURCE_RANGES)
        and notes[SOURCE_RANGES].strip()
    ):
        for text in notes[SOURCE_RANGES].split(","):
            yield from addresses.validate_cidr(annotated, text.strip())


def _validate_load_balancer(spec: Obj) -> Causes:
    is_balancer, nodes = spec.get("type") == "LoadBalancer", "allocateLoadBalancerNodePorts"
    if nodes in spec and not is_balancer:
        yield Cause.forbidden(f"spec.{nodes}", _LOAD_BALANCER_ONLY)
    elif nodes not in spec and is_balancer:
        yield Cause.required(nodes)
    if "loadBalancerClass" in spec and is_balancer:
        yield from checks.validate_name(
            "spec.loadBalancerClass", spec["loadBalancerClass"], names.label_key
        )
    elif "loadBalancerClass" in spec:
        yield Cause.forbidden("spec.loadBalancerClass", _LOAD_BALANCER_ONLY)


def _validate_traffic_policies(spec: Obj) -> Causes:
    external, check = spec.get("externalTrafficPolicy"), spec.get("healthCheckNodePort")
    if is_externally_accessible(spec):
        yield from checks.validate_required_enum(
            "spec.externalTrafficPolicy", external, TRAFFIC_POLICIES
        )
    elif external:
        yield Cause.invalid(
            "spec.externalTrafficPolicy",
            external,
            "may only be set for externally-accessible services",
        )
    if not needs_health_check(spec):
        if check:
            yield Cause.invalid("spec.healthCheckNodePort", check, _HEALTH_CHECK_ONLY)
    elif check:
        yield from checks.validate_port_number("spec.healthCheckNodePort", check)
    else:
        yield Cause.required("spec.healthCheckNodePort")
    if "internalTrafficPolicy" in spec:
        yield from checks.validate_enum(
            "spec.internalTrafficPolicy", spec["internalTrafficPolicy"], TRAFFIC_POLICIES
        )
    elif spec.get("type") in {"ClusterIP", "NodePort", "LoadBalancer"}:
        yield Cause.required("spec.internalTrafficPolicy")
    if "trafficDistribution" in spec:
        yield from checks.validate_enum(
            "spec.trafficDistribution", spec["trafficDistribution"], TRAFFIC_DISTRIBUTIONS
        )


def validate_service_update(new: Obj, old: Obj) -> Causes:
    spec, before = new["spec"], old["spec"]
    if spec is not before:
        if "ExternalName" not in {spec.get("type"), before.get("type")}:
            if not (is_headless(spec) and is_headless(before)):
                if not spec.get("clusterIPs") and before.get("clusterIPs"):
                    yield Cause.invalid(
                        "spec.clusterIPs[0]", None, "primary clusterIP can not be unset"
                    )
                for index in _changed_positions("clusterIPs", spec, before):
                    yield Cause.invalid(
                        f"spec.clusterIPs[{index}]", spec["clusterIPs"], "may not change once set"
                    )
            if not (is_headless(spec) or is_headless(before)):
                for _ in _changed_positions("ipFamilies", spec, before):
                    yield Cause.invalid(
                        "spec.ipFamilies[0]", spec["ipFamilies"], "may not change once set"
                    )
        kept, checked = (
            spec.get("type") == before.get("type") == "LoadBalancer",
            "healthCheckNodePort",
        )
        if kept and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
            yield Cause.invalid(
                "spec.loadBalancerClass", spec.get("loadBalancerClass"), "may not change once set"
            )
        if (
            needs_health_check(before)
            and needs_health_check(spec)
            and spec.get(checked) != before.get(checked)
        ):
            yield Cause.forbidden(f"spec.{checked}", checks.IMMUTABLE)
    yield from _validate_against_old(new, old)


def _changed_positions(field: str, spec: Obj, before: Obj) -> Iterator[int]:
    """Yield the positions at which a list changed and must not.

    If the lists differ in length, only the first position is fixed.
    """
    new, old = spec.get(field) or [], before.get(field) or []
    for index, (one, other) in enumerate(zip(new, old, strict=False)):
        if one != other and (len(new) == len(old) or index == 0):
            yield index


def validate_service_status(new: Obj, old: Obj) -> Causes:
    given = (new.get("status") or {}).get("loadBalancer", {}).get("ingress") or ()
    before = (old.get("status") or {}).get("loadBalancer", {}).get("ingress") or ()
    if given and new["spec"].get("type") != "LoadBalancer":
        yield Cause.forbidden(
            "status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'"
        )
        return
    yield from validate_load_balancer_ingress("status.loadBalancer.ingress", given, before)
    for index, one in enumerate(given):
        path, mode = f"status.loadBalancer.ingress[{index}].ipMode", one.get("ipMode")
        if mode is None and one.get("ip"):
            yield Cause.required(path, "must be specified when `ip` is set")
        elif mode is not None and not one.get("ip"):
            yield Cause.forbidden(path, "may not be specified when `ip` is not set")
        elif mode is not None:
            yield from checks.validate_enum(path, mode, ("Proxy", "VIP"))


RULES = {
    ("", "services"): Rules(
        default=default_service,
        prepare_create=prepare_service_create,
        prepare_update=prepare_service_update,
        validate=validate_service,
        validate_update=validate_service_update,
        parts={"status": SubresourceRules(keep_spec, validate_service_status)},
        name=names.dns1123_label,
        qualified_finalizers=True,
        fields=SERVICE_FIELDS,
        generation=None,
        create_on_update=True,
    )
}
