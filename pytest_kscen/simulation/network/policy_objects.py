"""CiliumNetworkPolicies as they are written, read into what decides. A ValueError says that one makes no sense."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from pytest_kscen.objects.cilium import POD_NAMESPACE
from pytest_kscen.objects.selectors import Requirement, requirements_of
from pytest_kscen.simulation.network.policies import NAMESPACE_LABELS, Direction, Policy, Ports, Rule

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.network.policies import Network, Range, Selector

SOURCES = ("k8s:", "any:")  # where a label comes from, which may stand before a selector's key


def policies_of(obj: Obj) -> list[Policy]:
    """All that a CiliumNetworkPolicy says: its spec, and each of its specs."""
    namespace = obj["metadata"].get("namespace", "")
    specs = [obj.get("spec"), *(obj.get("specs") or ())]
    return [_policy(spec, namespace) for spec in specs if spec and spec.get("endpointSelector") is not None]


def _policy(spec: Obj, namespace: str) -> Policy:
    denied = spec.get("enableDefaultDeny") or {}
    ingress, egress = (
        _direction(spec, direction, peer, namespace, is_closed=denied.get(direction, True))
        for direction, peer in (("ingress", "from"), ("egress", "to"))
    )
    return Policy(namespace, _selector(spec["endpointSelector"]), ingress, egress)


def _direction(spec: Obj, name: str, peer: str, namespace: str, *, is_closed: bool) -> Direction:
    allow, deny = (tuple(_rule(rule, peer, namespace) for rule in spec.get(f"{name}{suffix}") or ()) for suffix in ("", "Deny"))
    return Direction(allow, deny, is_closed and bool(allow or deny))


def _rule(rule: Obj, peer: str, namespace: str) -> Rule:
    selectors, entities, listed = rule.get(f"{peer}Endpoints"), rule.get(f"{peer}Entities"), rule.get("toPorts")
    return Rule(
        selectors=None if selectors is None else tuple(_peers(selector, namespace) for selector in selectors),
        entities=None if entities is None else tuple(entities),
        networks=_networks(rule, peer),
        ports=tuple(_ports(one) for entry in listed for one in entry.get("ports") or ()) if listed else None,
        icmp=bool(rule.get("icmps")),
    )


def _networks(rule: Obj, peer: str) -> tuple[Range, ...] | None:
    plain, sets = rule.get(f"{peer}CIDR"), rule.get(f"{peer}CIDRSet")
    if plain is None and sets is None:
        return None
    return (
        *((_network(network), ()) for network in plain or ()),
        *((_network(one["cidr"]), tuple(map(_network, one.get("except") or ()))) for one in sets or () if "cidr" in one),
    )


def _network(text: str) -> Network:
    return ipaddress.ip_network(text, strict=False)


def _ports(entry: Obj) -> Ports:
    """A port by its name is one of no machine."""
    named = str(entry.get("port", "0"))
    first = int(named) if named.isdecimal() else -1
    return Ports(first, max(first, int(entry.get("endPort") or 0)), entry.get("protocol") or "ANY")


def _peers(selector: Obj, namespace: str) -> Selector:
    """A selector of peers that names no namespace means the policy's own."""
    read = _selector(selector)
    if any(part.key == POD_NAMESPACE or part.key.startswith(NAMESPACE_LABELS) for part in read):
        return read
    return (*read, Requirement(POD_NAMESPACE, "In", frozenset([namespace])))


def _selector(selector: Obj) -> Selector:
    return tuple(Requirement(_bare(part.key), part.operator, part.values) for part in requirements_of(selector))


def _bare(key: str) -> str:
    for source in SOURCES:
        key = key.removeprefix(source)
    return key
