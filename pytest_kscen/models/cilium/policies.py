"""Cilium's decision: whether policies let a new flow pass from one party to another. Pure, and as
its documents say.

For each end that is a pod, with the policies of its namespace that select it, in the flow's
direction there: a deny rule that matches ends it; without any rule the flow passes; else an allow
rule must match."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.objects.resources import POD_NAMESPACE
from pytest_kscen.objects.selectors import Requirement, requirements_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.objects.resources import Obj


NAMESPACE_LABELS = "io.cilium.k8s.namespace.labels."  # before a label of a pod's namespace
CLUSTER = ("host", "remote-node", "kube-apiserver", "init", "health", "ingress", "unmanaged")
TRANSPORTS = ("TCP", "UDP", "SCTP")


@dataclass(frozen=True, slots=True)
class Pod:
    """A party that policies select, with all labels by which a selector may know it."""

    namespace: str
    labels: Mapping[str, str]

    @classmethod
    def of(
        cls, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Pod:
        theirs = {NAMESPACE_LABELS + key: value for key, value in namespace_labels.items()}
        return cls(namespace, {**theirs, **labels, POD_NAMESPACE: namespace})


@dataclass(frozen=True, slots=True)
class ExternalParty:
    """A party that is no pod: an entity by its name, at an address."""

    entity: str = "world"
    address: str = ""


Party: TypeAlias = Pod | ExternalParty
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
CidrRange: TypeAlias = tuple[IpNetwork, tuple[IpNetwork, ...]]
Selector: TypeAlias = tuple["Requirement", ...]


@dataclass(frozen=True, slots=True)
class PortRange:
    """One entry of toPorts' ports."""

    first: int
    last: int
    protocol: str

    def match(self, protocol: str, port: int) -> bool:
        if protocol not in (TRANSPORTS if self.protocol == "ANY" else (self.protocol,)):
            return False
        return self.first == 0 or self.first <= port <= self.last


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """What stands in one entry of ingress, egress and their denials; None where a field is not
    given.
    """

    selectors: tuple[Selector, ...] | None
    entities: tuple[str, ...] | None
    networks: tuple[CidrRange, ...] | None
    ports: tuple[PortRange, ...] | None
    icmp: bool

    def matches(self, peer: Party, protocol: str, port: int) -> bool:
        """An empty rule matches nothing; a list matches by any of its entries; all lists that
        are given must match.
        """
        peers = (self.selectors, self.entities, self.networks)
        if all(one is None for one in (*peers, self.ports)) and not self.icmp:
            return False
        return (
            (self.selectors is None or _is_selected(peer, self.selectors))
            and (self.entities is None or any(_is_entity(peer, entity) for entity in self.entities))
            and (
                self.networks is None
                or any(_is_within(peer, *network) for network in self.networks)
            )
        ) and self._carries(protocol, port)

    def _carries(self, protocol: str, port: int) -> bool:
        if protocol == "ICMP":
            return self.icmp or self.ports is None
        if self.ports is None:
            return not self.icmp
        return any(ports.match(protocol, port) for ports in self.ports)


@dataclass(frozen=True, slots=True)
class PolicyDirection:
    """What a policy says of one direction."""

    allow: tuple[PolicyRule, ...]
    deny: tuple[PolicyRule, ...]
    denies_the_rest: bool


@dataclass(frozen=True, slots=True)
class Policy:
    """One spec of a CiliumNetworkPolicy."""

    namespace: str
    subject: Selector
    ingress: PolicyDirection
    egress: PolicyDirection

    def selects(self, party: Pod) -> bool:
        return party.namespace == self.namespace and _holds(self.subject, party.labels)


def may_pass(
    policies: Sequence[Policy], source: Party, target: Party, protocol: str = "TCP", port: int = 0
) -> bool:
    """Egress at the source and ingress at the target must both let it."""
    return _lets(
        [
            policy.egress
            for policy in policies
            if isinstance(source, Pod) and policy.selects(source)
        ],
        target,
        protocol,
        port,
    ) and _lets(
        [
            policy.ingress
            for policy in policies
            if isinstance(target, Pod) and policy.selects(target)
        ],
        source,
        protocol,
        port,
    )


def _lets(directions: Sequence[PolicyDirection], peer: Party, protocol: str, port: int) -> bool:
    if isinstance(peer, ExternalParty) and peer.entity == "host":
        return True  # the node that a pod runs on always reaches it
    if any(
        rule.matches(peer, protocol, port) for direction in directions for rule in direction.deny
    ):
        return False
    if not any(direction.denies_the_rest for direction in directions):
        return True
    return any(
        rule.matches(peer, protocol, port) for direction in directions for rule in direction.allow
    )


def _is_selected(peer: Party, selectors: tuple[Selector, ...]) -> bool:
    return isinstance(peer, Pod) and any(_holds(selector, peer.labels) for selector in selectors)


def _is_entity(peer: Party, entity: str) -> bool:
    if entity == "all":
        return True
    if isinstance(peer, Pod):
        return entity == "cluster"
    return peer.entity == entity or (entity == "cluster" and peer.entity in CLUSTER)


def _is_within(peer: Party, network: IpNetwork, exceptions: tuple[IpNetwork, ...]) -> bool:
    """Networks are for parties outside: pods are known by their labels alone."""
    if isinstance(peer, Pod) or not peer.address:
        return False
    address = ipaddress.ip_address(peer.address)
    return address in network and not any(address in one for one in exceptions)


def _holds(selector: Selector, labels: Mapping[str, str]) -> bool:
    return all(requirement.holds(labels) for requirement in selector)


# CiliumNetworkPolicies as they are written, read into what decides. A ValueError says that one
# makes no sense.


SOURCES = ("k8s:", "any:")  # where a label comes from, which may stand before a selector's key


def policies_of(obj: Obj) -> list[Policy]:
    """All that a CiliumNetworkPolicy says: its spec, and each of its specs."""
    namespace = obj["metadata"].get("namespace", "")
    specs = [obj.get("spec"), *(obj.get("specs") or ())]
    return [
        _policy(spec, namespace)
        for spec in specs
        if spec and spec.get("endpointSelector") is not None
    ]


def _policy(spec: Obj, namespace: str) -> Policy:
    denied = spec.get("enableDefaultDeny") or {}
    ingress, egress = (
        _direction(spec, direction, peer, namespace, is_closed=denied.get(direction, True))
        for direction, peer in (("ingress", "from"), ("egress", "to"))
    )
    return Policy(namespace, _selector(spec["endpointSelector"]), ingress, egress)


def _direction(
    spec: Obj, name: str, peer: str, namespace: str, *, is_closed: bool
) -> PolicyDirection:
    allow, deny = (
        tuple(_rule(rule, peer, namespace) for rule in spec.get(f"{name}{suffix}") or ())
        for suffix in ("", "Deny")
    )
    return PolicyDirection(allow, deny, is_closed and bool(allow or deny))


def _rule(rule: Obj, peer: str, namespace: str) -> PolicyRule:
    selectors, entities, listed = (
        rule.get(f"{peer}Endpoints"),
        rule.get(f"{peer}Entities"),
        rule.get("toPorts"),
    )
    return PolicyRule(
        selectors=None
        if selectors is None
        else tuple(_peers(selector, namespace) for selector in selectors),
        entities=None if entities is None else tuple(entities),
        networks=_networks(rule, peer),
        ports=tuple(_ports(one) for entry in listed for one in entry.get("ports") or ())
        if listed
        else None,
        icmp=bool(rule.get("icmps")),
    )


def _networks(rule: Obj, peer: str) -> tuple[CidrRange, ...] | None:
    plain, sets = rule.get(f"{peer}CIDR"), rule.get(f"{peer}CIDRSet")
    if plain is None and sets is None:
        return None
    return (
        *((_network(network), ()) for network in plain or ()),
        *(
            (_network(one["cidr"]), tuple(map(_network, one.get("except") or ())))
            for one in sets or ()
            if "cidr" in one
        ),
    )


def _network(text: str) -> IpNetwork:
    return ipaddress.ip_network(text, strict=False)


def _ports(entry: Obj) -> PortRange:
    """A port by its name is one of no machine."""
    named = str(entry.get("port", "0"))
    first = int(named) if named.isdecimal() else -1
    return PortRange(
        first, max(first, int(entry.get("endPort") or 0)), entry.get("protocol") or "ANY"
    )


def _peers(selector: Obj, namespace: str) -> Selector:
    """A selector of peers that names no namespace means the policy's own."""
    read = _selector(selector)
    if any(part.key == POD_NAMESPACE or part.key.startswith(NAMESPACE_LABELS) for part in read):
        return read
    return (*read, Requirement(POD_NAMESPACE, "In", frozenset([namespace])))


def _selector(selector: Obj) -> Selector:
    return tuple(
        Requirement(_bare(part.key), part.operator, part.values)
        for part in requirements_of(selector)
    )


def _bare(key: str) -> str:
    for source in SOURCES:
        key = key.removeprefix(source)
    return key
