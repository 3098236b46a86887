"""Cilium's decision: whether policies let a new flow pass from one party to another. Pure, and as its documents say.

For each end that is a pod, with the policies of its namespace that select it, in the flow's direction there:
a deny rule that matches ends it; without any rule the flow passes; else an allow rule must match.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_kscen.objects.cilium import POD_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kscen.objects.selectors import Requirement

NAMESPACE_LABELS = "io.cilium.k8s.namespace.labels."  # before a label of a pod's namespace
CLUSTER = ("host", "remote-node", "kube-apiserver", "init", "health", "ingress", "unmanaged")
TRANSPORTS = ("TCP", "UDP", "SCTP")


@dataclass(frozen=True, slots=True)
class Pod:
    """A party that policies select, with all labels by which a selector may know it."""

    namespace: str
    labels: Mapping[str, str]

    @classmethod
    def of(cls, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> Pod:
        theirs = {NAMESPACE_LABELS + key: value for key, value in namespace_labels.items()}
        return cls(namespace, {**theirs, **labels, POD_NAMESPACE: namespace})


@dataclass(frozen=True, slots=True)
class Outside:
    """A party that is no pod: an entity by its name, at an address."""

    entity: str = "world"
    address: str = ""


Party: TypeAlias = Pod | Outside
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Range: TypeAlias = tuple[Network, tuple[Network, ...]]
Selector: TypeAlias = tuple["Requirement", ...]


@dataclass(frozen=True, slots=True)
class Ports:
    """One entry of toPorts' ports."""

    first: int
    last: int
    protocol: str

    def match(self, protocol: str, port: int) -> bool:
        if protocol not in (TRANSPORTS if self.protocol == "ANY" else (self.protocol,)):
            return False
        return self.first == 0 or self.first <= port <= self.last


@dataclass(frozen=True, slots=True)
class Rule:
    """What stands in one entry of ingress, egress and their denials; None where a field is not given."""

    selectors: tuple[Selector, ...] | None
    entities: tuple[str, ...] | None
    networks: tuple[Range, ...] | None
    ports: tuple[Ports, ...] | None
    icmp: bool

    def matches(self, peer: Party, protocol: str, port: int) -> bool:
        """An empty rule matches nothing; a list matches by any of its entries; all lists that are given must match."""
        peers = (self.selectors, self.entities, self.networks)
        if all(one is None for one in (*peers, self.ports)) and not self.icmp:
            return False
        return self._has(peer) and self._carries(protocol, port)

    def _has(self, peer: Party) -> bool:
        return (
            (self.selectors is None or _is_selected(peer, self.selectors))
            and (self.entities is None or any(_is_entity(peer, entity) for entity in self.entities))
            and (self.networks is None or any(_is_within(peer, *network) for network in self.networks))
        )

    def _carries(self, protocol: str, port: int) -> bool:
        if protocol == "ICMP":
            return self.icmp or self.ports is None
        if self.ports is None:
            return not self.icmp
        return any(ports.match(protocol, port) for ports in self.ports)


@dataclass(frozen=True, slots=True)
class Direction:
    """What a policy says of one direction."""

    allow: tuple[Rule, ...]
    deny: tuple[Rule, ...]
    denies_the_rest: bool


@dataclass(frozen=True, slots=True)
class Policy:
    """One spec of a CiliumNetworkPolicy."""

    namespace: str
    subject: Selector
    ingress: Direction
    egress: Direction

    def selects(self, party: Pod) -> bool:
        return party.namespace == self.namespace and _holds(self.subject, party.labels)


def may_pass(policies: Sequence[Policy], source: Party, target: Party, protocol: str = "TCP", port: int = 0) -> bool:
    """Egress at the source and ingress at the target must both let it."""
    return _lets(
        [policy.egress for policy in policies if isinstance(source, Pod) and policy.selects(source)], target, protocol, port
    ) and _lets(
        [policy.ingress for policy in policies if isinstance(target, Pod) and policy.selects(target)], source, protocol, port
    )


def _lets(directions: Sequence[Direction], peer: Party, protocol: str, port: int) -> bool:
    if isinstance(peer, Outside) and peer.entity == "host":
        return True  # the node that a pod runs on always reaches it
    if any(rule.matches(peer, protocol, port) for direction in directions for rule in direction.deny):
        return False
    if not any(direction.denies_the_rest for direction in directions):
        return True
    return any(rule.matches(peer, protocol, port) for direction in directions for rule in direction.allow)


def _is_selected(peer: Party, selectors: tuple[Selector, ...]) -> bool:
    return isinstance(peer, Pod) and any(_holds(selector, peer.labels) for selector in selectors)


def _is_entity(peer: Party, entity: str) -> bool:
    if entity == "all":
        return True
    if isinstance(peer, Pod):
        return entity == "cluster"
    return peer.entity == entity or (entity == "cluster" and peer.entity in CLUSTER)


def _is_within(peer: Party, network: Network, exceptions: tuple[Network, ...]) -> bool:
    """Networks are for parties outside: pods are known by their labels alone."""
    if isinstance(peer, Pod) or not peer.address:
        return False
    address = ipaddress.ip_address(peer.address)
    return address in network and not any(address in one for one in exceptions)


def _holds(selector: Selector, labels: Mapping[str, str]) -> bool:
    return all(requirement.holds(labels) for requirement in selector)
