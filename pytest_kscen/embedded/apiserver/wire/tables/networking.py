"""Printer columns of Services, Endpoints, Ingresses and network policies.

Read by `table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver.wire.tables.columns import (
    AGE,
    NAME,
    NONE,
    SHOWN_ENTRIES,
    UNSET,
    Column,
    joined,
    labels,
    load_balancer,
    named_default,
    object_cell,
    selector,
    text,
    truncated,
    wide,
)
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj


def _external_ip(service: Obj) -> str:
    spec = service.get("spec") or {}
    own = ",".join(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return own or NONE
        case "LoadBalancer":
            return ",".join(filter(None, (load_balancer(service), own))) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return "<unknown>"


def _endpoints(endpoints: Obj) -> str:
    addresses = [
        (entry["ip"], port)
        for subset in endpoints.get("subsets") or ()
        for port in ([port["port"] for port in subset.get("ports") or ()] or [None])
        for entry in subset.get("addresses") or ()
    ]
    if not endpoints.get("subsets"):
        return NONE
    return truncated(
        [
            ip if port is None else f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
            for ip, port in addresses
        ]
    )


def _hosts(ingress: Obj) -> str:
    rules = field_at(ingress, "spec.rules") or ()
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == SHOWN_ENTRIES:
            return f"{','.join(hosts)} + {len(rules) - SHOWN_ENTRIES} more..."
        if rule.get("host"):
            hosts.append(rule["host"])
    return ",".join(hosts) or "*"


def _parameters(ingress_class: Obj) -> str:
    found = field_at(ingress_class, "spec.parameters")
    if not found:
        return NONE
    group = found.get("apiGroup")
    return str(found["kind"]) + (f".{group}" if group is not None else "") + f"/{found['name']}"


def _parent(address: Obj) -> str:
    found = field_at(address, "spec.parentRef")
    if not found:
        return NONE
    qualified = ".".join(filter(None, (found.get("resource", ""), found.get("group", "")))).lower()
    return "/".join(filter(None, (qualified, found.get("namespace", ""), found.get("name", ""))))


TABLES = {
    ("", "services"): (
        NAME,
        Column("Type", text("spec.type")),
        Column(
            "Cluster-IP",
            object_cell(lambda service: (field_at(service, "spec.clusterIPs") or (NONE,))[0]),
        ),
        Column("External-IP", object_cell(_external_ip)),
        Column(
            "Port(s)",
            object_cell(
                lambda service: (
                    ",".join(
                        str(port["port"])
                        + (f":{port['nodePort']}" if port.get("nodePort") else "")
                        + f"/{port.get('protocol', '')}"
                        for port in field_at(service, "spec.ports") or ()
                    )
                    or NONE
                )
            ),
        ),
        AGE,
        wide("Selector", labels("spec.selector")),
    ),
    ("", "endpoints"): (NAME, Column("Endpoints", object_cell(_endpoints)), AGE),
    ("discovery.k8s.io", "endpointslices"): (
        NAME,
        Column("AddressType", text("addressType")),
        Column(
            "Ports",
            object_cell(
                lambda endpoint_slice: (
                    truncated(
                        [
                            str(port.get("port") or port.get("name") or "*")
                            for port in endpoint_slice.get("ports") or ()
                        ]
                    )
                    or UNSET
                )
            ),
        ),
        Column(
            "Endpoints",
            object_cell(
                lambda endpoint_slice: (
                    truncated(
                        [
                            address
                            for endpoint in endpoint_slice.get("endpoints") or ()
                            for address in endpoint.get("addresses") or ()
                        ]
                    )
                    or UNSET
                )
            ),
        ),
        AGE,
    ),
    ("networking.k8s.io", "ingresses"): (
        NAME,
        Column("Class", text("spec.ingressClassName", NONE)),
        Column("Hosts", object_cell(_hosts)),
        Column("Address", object_cell(load_balancer)),
        Column(
            "Ports",
            object_cell(lambda ingress: "80, 443" if field_at(ingress, "spec.tls") else "80"),
        ),
        AGE,
    ),
    ("networking.k8s.io", "ingressclasses"): (
        named_default("ingressclass.kubernetes.io/is-default-class"),
        Column("Controller", text("spec.controller")),
        Column("Parameters", object_cell(_parameters)),
        AGE,
    ),
    ("networking.k8s.io", "networkpolicies"): (
        NAME,
        Column("Pod-Selector", selector("spec.podSelector")),
        AGE,
    ),
    ("networking.k8s.io", "ipaddresses"): (NAME, Column("ParentRef", object_cell(_parent))),
    ("networking.k8s.io", "servicecidrs"): (NAME, Column("CIDRs", joined("spec.cidrs")), AGE),
}
