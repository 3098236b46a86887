"""Decision of Cilium policies about a new flow between two parties.

Pure; follows Cilium's documentation. At each end that is a pod, the policies of its namespace that
select it are evaluated, in the flow's direction: a matching deny rule blocks the flow; without any
rule the flow passes; otherwise an allow rule must match.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.objects.resources import POD_NAMESPACE
from pytest_kscen.objects.selectors import Requirement, requirements_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.objects.resources import Obj


NAMESPACE_LABELS = "io.cilium.k8s.namespace.labels."  # prefix of the labels of a pod's namespace
CLUSTER = ("host", "remote-node", "kube-apiserver", "init", "health", "ingress", "unmanaged")
TRANSPORTS = ("TCP", "UDP", "SCTP")


@dataclass(frozen=True, slots=True)
class Pod:
    """Endpoint of a flow, with its labels, the labels of its namespace, and the namespace as a
    label.
    """

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
    """Party that is no pod: an entity such as `world` or `host`, and an address for rules about
    networks.
    """

    entity: str = "world"
    address: str = ""


Party: TypeAlias = Pod | ExternalParty
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
CidrRange: TypeAlias = tuple[IpNetwork, tuple[IpNetwork, ...]]
Selector: TypeAlias = tuple["Requirement", ...]


@dataclass(frozen=True, slots=True)
class PortRange:
    """Entry of the ports in toPorts, from `first` to `last`. Port 0 matches every port, and the
    protocol ANY matches TCP, UDP and SCTP.
    """

    first: int
    last: int
    protocol: str

    def match(self, protocol: str, port: int) -> bool:
        if protocol not in (TRANSPORTS if self.protocol == "ANY" else (self.protocol,)):
            return False
        return self.first == 0 or self.first <= port <= self.last


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Entry of ingress, egress or their denials; a field that is not given is None."""

    selectors: tuple[Selector, ...] | None
    entities: tuple[str, ...] | None
    networks: tuple[CidrRange, ...] | None
    ports: tuple[PortRange, ...] | None
    icmp: bool

    def matches(self, peer: Party, protocol: str, port: int) -> bool:
        """Return True if all given lists match, each by any of its entries. An empty rule matches
        nothing.
        """
        peers = (self.selectors, self.entities, self.networks)
        if all(one is None for one in (*peers, self.ports)) and not self.icmp:
            return False
        if protocol == "ICMP":
            matches_ports = self.icmp or self.ports is None
        elif self.ports is None:
            matches_ports = not self.icmp
        else:
            matches_ports = any(ports.match(protocol, port) for ports in self.ports)
        return matches_ports and (
            (
                self.selectors is None
                or (
                    isinstance(peer, Pod)
                    and any(_holds(selector, peer.labels) for selector in self.selectors)
                )
            )
            and (self.entities is None or any(_is_entity(peer, entity) for entity in self.entities))
            and (
                self.networks is None
                or any(_is_within(peer, *network) for network in self.networks)
            )
        )


@dataclass(frozen=True, slots=True)
class PolicyDirection:
    allow: tuple[PolicyRule, ...]
    deny: tuple[PolicyRule, ...]
    denies_the_rest: bool


@dataclass(frozen=True, slots=True)
class Policy:
    namespace: str
    subject: Selector
    ingress: PolicyDirection
    egress: PolicyDirection

    def selects(self, party: Pod) -> bool:
        return party.namespace == self.namespace and _holds(self.subject, party.labels)


def may_pass(
    policies: Sequence[Policy], source: Party, target: Party, protocol: str = "TCP", port: int = 0
) -> bool:
    """Return True if egress at the source and ingress at the target both allow the flow."""
    return _allows(
        [
            policy.egress
            for policy in policies
            if isinstance(source, Pod) and policy.selects(source)
        ],
        target,
        protocol,
        port,
    ) and _allows(
        [
            policy.ingress
            for policy in policies
            if isinstance(target, Pod) and policy.selects(target)
        ],
        source,
        protocol,
        port,
    )


def _allows(directions: Sequence[PolicyDirection], peer: Party, protocol: str, port: int) -> bool:
    if isinstance(peer, ExternalParty) and peer.entity == "host":
        return True  # a node always reaches its own pods
    if any(
        rule.matches(peer, protocol, port) for direction in directions for rule in direction.deny
    ):
        return False
    if not any(direction.denies_the_rest for direction in directions):
        return True
    return any(
        rule.matches(peer, protocol, port) for direction in directions for rule in direction.allow
    )


def _is_entity(peer: Party, entity: str) -> bool:
    if entity == "all":
        return True
    if isinstance(peer, Pod):
        return entity == "cluster"
    return peer.entity == entity or (entity == "cluster" and peer.entity in CLUSTER)


def _is_within(peer: Party, network: IpNetwork, exceptions: tuple[IpNetwork, ...]) -> bool:
    """Return True if an external address is in a network. Pods are matched by their labels
    alone.
    """
    if isinstance(peer, Pod) or not peer.address:
        return False
    address = ipaddress.ip_address(peer.address)
    return address in network and not any(address in one for one in exceptions)


def _holds(selector: Selector, labels: Mapping[str, str]) -> bool:
    return all(requirement.holds(labels) for requirement in selector)


SOURCES = ("k8s:", "any:")  # label sources, as optional prefixes of a selector's key


def policies_of(obj: Obj) -> list[Policy]:
    """Return the policies of a CiliumNetworkPolicy: its spec, and each of its specs. Raises
    ValueError for an address or a port that cannot be read.
    """
    namespace = obj["metadata"].get("namespace", "")
    specs = [obj.get("spec"), *(obj.get("specs") or ())]
    policies = []
    for spec in specs:
        if not spec or spec.get("endpointSelector") is None:
            continue
        default_deny, directions = spec.get("enableDefaultDeny") or {}, []
        for direction, peer in (("ingress", "from"), ("egress", "to")):
            allow, deny = (
                tuple(_rule(rule, peer, namespace) for rule in spec.get(field) or ())
                for field in (direction, f"{direction}Deny")
            )
            is_closed = default_deny.get(direction, True) and bool(allow or deny)
            directions.append(PolicyDirection(allow, deny, is_closed))
        policies.append(Policy(namespace, _selector(spec["endpointSelector"]), *directions))
    return policies


def _rule(rule: Obj, peer: str, namespace: str) -> PolicyRule:
    selectors, entities, to_ports = (
        rule.get(f"{peer}Endpoints"),
        rule.get(f"{peer}Entities"),
        rule.get("toPorts"),
    )
    plain, sets = rule.get(f"{peer}CIDR"), rule.get(f"{peer}CIDRSet")
    networks = (
        *((_network(network), ()) for network in plain or ()),
        *(
            (_network(one["cidr"]), tuple(map(_network, one.get("except") or ())))
            for one in sets or ()
            if "cidr" in one
        ),
    )
    return PolicyRule(
        selectors=None
        if selectors is None
        else tuple(_peers(selector, namespace) for selector in selectors),
        entities=None if entities is None else tuple(entities),
        networks=None if plain is None and sets is None else networks,
        ports=tuple(_ports(one) for entry in to_ports for one in entry.get("ports") or ())
        if to_ports
        else None,
        icmp=bool(rule.get("icmps")),
    )


def _network(text: str) -> IpNetwork:
    return ipaddress.ip_network(text, strict=False)


def _ports(entry: Obj) -> PortRange:
    """Return a port range. A port given by name matches nothing, since machines name no ports."""
    named = str(entry.get("port", "0"))
    first = int(named) if named.isdecimal() else -1
    return PortRange(
        first, max(first, int(entry.get("endPort") or 0)), entry.get("protocol") or "ANY"
    )


def _peers(selector: Obj, namespace: str) -> Selector:
    """Return a selector of peers. One that names no namespace means the policy's own."""
    read = _selector(selector)
    if any(part.key == POD_NAMESPACE or part.key.startswith(NAMESPACE_LABELS) for part in read):
        return read
    return (*read, Requirement(POD_NAMESPACE, "In", frozenset([namespace])))


def _selector(selector: Obj) -> Selector:
    read = []
    for part in requirements_of(selector):
        key = part.key
        for source in SOURCES:
            key = key.removeprefix(source)
        read.append(Requirement(key, part.operator, part.values))
    return tuple(read)
