"""Rules of NetworkPolicies, IPAddresses, ServiceCIDRs, Ingresses and IngressClasses.

Policies are not enforced here; the model of the cluster's network reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.kinds import Rules, SubresourceRules, prepare_status
from pytest_kscen.embedded.apiserver.rules import addresses, checks
from pytest_kscen.embedded.apiserver.rules.checks import (
    GO_PARENT_REFERENCE,
    GO_SERVICE_CIDR_SPEC,
    as_go_struct,
)
from pytest_kscen.embedded.apiserver.rules.fields import (
    clear_status,
    keep_spec,
    keep_status,
    set_defaults,
    status_initializer,
)
from pytest_kscen.embedded.apiserver.rules.jobs import validate_domain_prefixed_path
from pytest_kscen.objects import names
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.apiserver.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj


NETWORKING_GROUP = "networking.k8s.io"
PEER_FIELDS = {"ingress": "from", "egress": "to"}
POLICY_TYPES = ("Ingress", "Egress")
POLICY_PROTOCOLS = ("TCP", "UDP", "SCTP")


def default_network_policy(obj: Obj) -> None:
    spec = obj["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(POLICY_TYPES) if spec.get("egress") else ["Ingress"]
    for direction in PEER_FIELDS:
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                set_defaults(port, {"protocol": "TCP"})


def validate_network_policy(obj: Obj) -> Causes:
    return _validate_policy_spec(obj["spec"], ())


def _validate_policy_spec(spec: Obj, known: Sequence[str]) -> Causes:
    yield from checks.validate_label_selector("spec.podSelector", spec.get("podSelector"))
    for direction, peers in PEER_FIELDS.items():
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _validate_policy_port(f"{path}.ports[{number}]", port)
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _validate_peer(f"{path}.{peers}[{number}]", peer, known)
    types = spec.get("policyTypes") or ()
    if len(types) > len(POLICY_TYPES):
        yield Cause.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
    else:
        for index, kind in enumerate(types):
            yield from checks.validate_enum(f"spec.policyTypes[{index}]", kind, POLICY_TYPES)


def _validate_policy_port(path: str, given: Obj) -> Causes:
    port, end = given.get("port"), given.get("endPort")
    yield from checks.validate_enum(
        f"{path}.protocol", given.get("protocol", "TCP"), POLICY_PROTOCOLS
    )
    if port is None:
        if end is not None:
            yield Cause.invalid(
                f"{path}.endPort", end, "may not be specified when `port` is not specified"
            )
    elif isinstance(port, str):
        if end is not None:
            yield Cause.invalid(
                f"{path}.endPort", end, "may not be specified when `port` is non-numeric"
            )
        yield from checks.validate_name(f"{path}.port", port, names.port_name)
    else:
        yield from checks.validate_port_number(f"{path}.port", port)
        if end is not None:
            if end < port:
                yield Cause.invalid(
                    f"{path}.endPort", port, "must be greater than or equal to `port`"
                )
            yield from checks.validate_port_number(f"{path}.endPort", end)


def _validate_peer(path: str, peer: Obj, known: Sequence[str]) -> Causes:
    for field in ("podSelector", "namespaceSelector"):
        yield from checks.validate_label_selector(f"{path}.{field}", peer.get(field))
    if "ipBlock" in peer:
        yield from _validate_ip_block(f"{path}.ipBlock", peer["ipBlock"], known)
    if not peer:
        yield Cause.required(path, "must specify a peer")
    elif len(peer) > 1 and "ipBlock" in peer:
        yield Cause.forbidden(path, "may not specify both ipBlock and another peer")


def _validate_ip_block(path: str, given: Obj, known: Sequence[str]) -> Causes:
    text = given.get("cidr", "")
    if not text:
        yield Cause.required(f"{path}.cidr")
        return
    yield from addresses.validate_cidr(f"{path}.cidr", text, known)
    whole = addresses.parse_cidr(text)
    if whole is None:
        return
    for index, exception in enumerate(given.get("except") or ()):
        here, part = f"{path}.except[{index}]", addresses.parse_cidr(exception)
        yield from addresses.validate_cidr(here, exception, known)
        if part is None:
            continue
        same_version = part.version == whole.version
        if part == whole or not (same_version and part.subnet_of(whole)):  # type: ignore[arg-type]
            yield Cause.invalid(here, exception, "must be a strict subset of `cidr`")


def validate_network_policy_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        blocks = [
            peer["ipBlock"]
            for direction, peers in PEER_FIELDS.items()
            for rule in old["spec"].get(direction) or ()
            for peer in rule.get(peers) or ()
            if "ipBlock" in peer
        ]
        yield from _validate_policy_spec(
            new["spec"],
            [text for one in blocks for text in (one.get("cidr", ""), *(one.get("except") or ()))],
        )


def ip_address_name(name: str) -> tuple[str, ...]:
    """Return the messages for an IPAddress whose name is not an IP address in canonical form."""
    return tuple(
        cause.message.partition(": ")[2].partition(": ")[2]
        for cause in addresses.validate_canonical_address("", name)
    )


def validate_ip_address(obj: Obj) -> Causes:
    parent = obj["spec"].get("parentRef")
    if parent is None:
        yield Cause.required("spec.parentRef")
        return
    if parent.get("group"):
        yield from checks.validate_name(
            "spec.parentRef.group", parent["group"], names.dns1123_subdomain
        )
    for field in ("resource", "name"):
        yield from checks.validate_required_name(
            f"spec.parentRef.{field}", parent.get(field), names.path_segment
        )
    if parent.get("namespace"):
        yield from checks.validate_name(
            "spec.parentRef.namespace", parent["namespace"], names.path_segment
        )


def validate_ip_address_update(new: Obj, old: Obj) -> Causes:
    yield from validate_ip_address(new)
    after, before = (obj["spec"].get("parentRef") or {} for obj in (new, old))
    if after != before:
        yield Cause.invalid(
            "spec.parentRef", as_go_struct(GO_PARENT_REFERENCE, after), checks.IMMUTABLE
        )


def validate_service_cidr(obj: Obj) -> Causes:
    blocks = obj["spec"].get("cidrs") or []
    if not blocks:
        yield Cause.required("spec.cidrs", "at least one CIDR required")
        return
    if len(blocks) > 2:  # noqa: PLR2004
        yield Cause.invalid(
            "spec.cidrs",
            as_go_struct(GO_SERVICE_CIDR_SPEC, obj["spec"]),
            "may only hold up to 2 values",
        )
        return
    for index, block in enumerate(blocks):
        yield from addresses.validate_canonical_cidr(f"spec.cidrs[{index}]", block)
    families = [found.version for found in map(addresses.parse_cidr, blocks) if found]
    if len(families) == 2 and len(set(families)) == 1:  # noqa: PLR2004
        detail = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        yield Cause.invalid("spec.cidrs", blocks, detail)


def validate_service_cidr_update(new: Obj, old: Obj) -> Causes:
    blocks, before = (obj["spec"].get("cidrs") or [] for obj in (new, old))
    if len(blocks) == len(before) or (len(before) == 1 and len(blocks) == 2):  # noqa: PLR2004
        for index, block in enumerate(before):
            yield from checks.validate_immutable(f"spec.cidrs[{index}]", blocks[index], block)
        if len(blocks) > len(before):
            yield from validate_service_cidr(new)
    else:
        yield Cause.invalid("spec.cidrs", blocks, checks.IMMUTABLE)


POLICY_RULES = {
    (NETWORKING_GROUP, "networkpolicies"): Rules(
        default=default_network_policy,
        validate=validate_network_policy,
        validate_update=validate_network_policy_update,
        qualified_finalizers=True,
    ),
    (NETWORKING_GROUP, "ipaddresses"): Rules(
        validate=validate_ip_address,
        validate_update=validate_ip_address_update,
        name=ip_address_name,
        qualified_finalizers=True,
        generation=None,
    ),
    (NETWORKING_GROUP, "servicecidrs"): Rules(
        prepare_create=clear_status,
        prepare_update=keep_status,
        validate=validate_service_cidr,
        validate_update=validate_service_cidr_update,
        parts={"status": SubresourceRules(prepare_status)},
        qualified_finalizers=True,
        generation=None,
    ),
}


PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
INVALID_PATH_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
INVALID_PATH_SUFFIXES = ("/..", "/.")
INGRESS_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
MAX_CONTROLLER_BYTES = 250


def validate_ingress(obj: Obj) -> Causes:
    spec = obj["spec"]
    yield from _validate_ingress_spec(spec)
    old = (obj["metadata"].get("annotations") or {}).get(INGRESS_CLASS_ANNOTATION)
    if old is not None and "ingressClassName" in spec and old != spec["ingressClassName"]:
        yield Cause.invalid(
            f"annotations.{INGRESS_CLASS_ANNOTATION}",
            old,
            "must match `ingressClassName` when both are specified",
        )


def validate_ingress_update(new: Obj, old: Obj) -> Causes:
    if new["spec"] is not old["spec"]:
        yield from _validate_ingress_spec(new["spec"])


def _validate_ingress_spec(spec: Obj) -> Causes:
    rules = spec.get("rules") or ()
    if not rules and "defaultBackend" not in spec:
        yield Cause.invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if "defaultBackend" in spec:
        yield from _validate_backend("spec.defaultBackend", spec["defaultBackend"])
    for index, rule in enumerate(rules):
        yield from _validate_ingress_rule(f"spec.rules[{index}]", rule)
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            yield from _validate_host(f"spec.tls[{index}].hosts[{number}]", host)
        if tls.get("secretName"):
            yield from checks.validate_name(
                f"spec.tls[{index}].secretName", tls["secretName"], names.dns1123_subdomain
            )
    if "ingressClassName" in spec:
        yield from checks.validate_name(
            "spec.ingressClassName", spec["ingressClassName"], names.dns1123_subdomain
        )


def _validate_host(path: str, host: str) -> Causes:
    check = names.wildcard_subdomain if "*" in host else names.dns1123_subdomain
    return checks.validate_name(path, host, check)


def _validate_ingress_rule(path: str, rule: Obj) -> Causes:
    host = rule.get("host", "")
    if host:
        if addresses.parse_address(host) is not None:
            yield Cause.invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        yield from _validate_host(f"{path}.host", host)
    if "http" in rule:
        given = rule["http"].get("paths") or ()
        if not given:
            yield Cause.required(f"{path}.http.paths")
        for index, one in enumerate(given):
            yield from _validate_http_path(f"{path}.http.paths[{index}]", one)


def _validate_http_path(path: str, given: Obj) -> Causes:
    kind, where = given.get("pathType"), given.get("path", "")
    if kind is None:
        yield Cause.required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in PATH_TYPES:
        yield Cause.unsupported(f"{path}.pathType", kind, PATH_TYPES)
    elif not where.startswith("/") and (where or kind != "ImplementationSpecific"):
        yield Cause.invalid(f"{path}.path", where, "must be an absolute path")
    if kind in {"Exact", "Prefix"}:
        for sequence in INVALID_PATH_SEQUENCES:
            if sequence in where:
                yield Cause.invalid(f"{path}.path", where, f"must not contain '{sequence}'")
        for end in INVALID_PATH_SUFFIXES:
            if where.endswith(end):
                yield Cause.invalid(f"{path}.path", where, f"cannot end with '{end}'")
    yield from _validate_backend(f"{path}.backend", given.get("backend") or {})


def _validate_backend(path: str, backend: Obj) -> Causes:
    if "resource" in backend and "service" in backend:
        yield Cause.invalid(path, "", "cannot set both resource and service backends")
    elif "resource" in backend:
        yield from _validate_typed_reference(f"{path}.resource", backend["resource"])
    elif "service" in backend:
        service = backend["service"]
        yield from checks.validate_required_name(
            f"{path}.service.name", service.get("name"), names.dns1123_label
        )
        name, number = (service.get("port", {}).get(field) for field in ("name", "number"))
        if name and number:
            yield Cause.invalid(path, "", "cannot set both port name & port number")
        elif name:
            yield from checks.validate_name(f"{path}.service.port.name", name, names.port_name)
        elif number:
            yield from checks.validate_port_number(f"{path}.service.port.number", number)
        else:
            yield Cause.required(path, "port name or number is required")
    else:
        yield Cause.invalid(path, "", "resource or service backend is required")


def _validate_typed_reference(path: str, given: Obj) -> Causes:
    """Yield the causes for a reference to an object of any kind by API group, kind and name."""
    if given.get("apiGroup") is not None:
        yield from checks.validate_name(
            f"{path}.apiGroup", given["apiGroup"], names.dns1123_subdomain
        )
    for field in ("kind", "name"):
        yield from checks.validate_required_name(
            f"{path}.{field}", given.get(field), names.path_segment
        )


def validate_ingress_status(new: Obj, old: Obj) -> Causes:
    status, before = (obj.get("status", {}).get("loadBalancer") or {} for obj in (new, old))
    yield from validate_load_balancer_ingress(
        "status.loadBalancer.ingress", status.get("ingress") or (), before.get("ingress") or ()
    )


def validate_load_balancer_ingress(
    path: str, given: Sequence[Obj], before: Sequence[Obj]
) -> Causes:
    """Yield the causes for the addresses and hostnames of a load balancer, in the status of a
    Service or Ingress.

    Addresses that `before` holds already are accepted.
    """
    known = [one.get("ip", "") for one in before]
    for index, one in enumerate(given):
        ip, host = one.get("ip"), one.get("hostname")
        if ip:
            yield from addresses.validate_address(f"{path}[{index}].ip", ip, known)
        if host:
            yield from checks.validate_name(
                f"{path}[{index}].hostname", host, names.dns1123_subdomain
            )
            if addresses.parse_address(host) is not None:
                yield Cause.invalid(
                    f"{path}[{index}].hostname", host, "must be a DNS name, not an IP address"
                )


def default_ingress_class(obj: Obj) -> None:
    parameters = obj["spec"].get("parameters")
    if parameters:
        set_defaults(parameters, {"scope": "Cluster"})


def validate_ingress_class(obj: Obj) -> Causes:
    controller, parameters = obj["spec"].get("controller", ""), obj["spec"].get("parameters")
    if len(controller.encode()) > MAX_CONTROLLER_BYTES:
        yield Cause.too_long("spec.controller", MAX_CONTROLLER_BYTES)
    yield from validate_domain_prefixed_path("spec.controller", controller)
    if parameters is not None:
        yield from _validate_typed_reference("spec.parameters", parameters)
        path = "spec.parameters"
        scope, namespace = parameters.get("scope"), parameters.get("namespace")
        if scope is None:
            yield Cause.required(f"{path}.scope")
            return
        yield from checks.validate_enum(f"{path}.scope", scope, ("Cluster", "Namespace"))
        if scope == "Namespace" and namespace is None:
            yield Cause.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        elif scope == "Namespace":
            yield from checks.validate_name(
                f"{path}.namespace", namespace or "", names.dns1123_label
            )
        elif scope == "Cluster" and namespace is not None:
            yield Cause.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


def validate_ingress_class_update(new: Obj, old: Obj) -> Causes:
    yield from checks.validate_immutable(
        "spec.controller", new["spec"].get("controller", ""), old["spec"].get("controller", "")
    )
    yield from validate_ingress_class(new)


INGRESS_RULES = {
    (NETWORKING_GROUP, "ingresses"): Rules(
        prepare_create=status_initializer(loadBalancer={}),
        prepare_update=keep_status,
        validate=validate_ingress,
        validate_update=validate_ingress_update,
        parts={"status": SubresourceRules(keep_spec, validate_ingress_status)},
        qualified_finalizers=True,
    ),
    (NETWORKING_GROUP, "ingressclasses"): Rules(
        default=default_ingress_class,
        validate=validate_ingress_class,
        validate_update=validate_ingress_class_update,
        qualified_finalizers=True,
    ),
}
