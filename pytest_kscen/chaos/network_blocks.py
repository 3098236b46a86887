"""Faults of network-block: CiliumNetworkPolicies in the parent that deny TCP between machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.clients import (
    NODE_A,
    NODE_B,
    ClusterClients,
    FaultImpossible,
    delete_and_wait,
)
from pytest_kscen.chaos.incidents import draw_variant
from pytest_kscen.chaos.profiles import DRBD, EVERYTHING, PAIR, SPLIT_BRAIN, NetworkBlock
from pytest_kscen.chaos.troubles import LINK, VOLUME, Reach, links_of
from pytest_kscen.objects.arguments import is_whole_number
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, POD_NAMESPACE
from pytest_kscen.objects.virtualization import VM_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.chaos.troubles import ReplicaLink
    from pytest_kscen.objects.resources import Obj


ALL_TCP: Obj = {"port": "1", "endPort": 65535, "protocol": "TCP"}
BYSTANDERS = [
    "host",
    "remote-node",
    "cluster",
    "world",
]  # entities that remain reachable: the parent, its DNS, and hosts outside


def deny_policy(
    name: str,
    namespace: str,
    side_a: Sequence[str],
    side_b: Sequence[str],
    *,
    ports: tuple[Sequence[int], Sequence[int]] = ((), ()),
    labels: Mapping[str, str],
) -> Obj:
    """Return a policy that denies TCP between two sides, both ways, and no traffic within a side.

    `ports` are the denied ports of either side; empty ones deny all ports. Any rule turns
    default-deny on for the machines of side A, so further rules allow all other traffic.
    """
    peers = {"matchLabels": {POD_NAMESPACE: namespace}}
    to_a, to_b = (
        [{"ports": [{"port": str(port), "protocol": "TCP"} for port in numbers] or [ALL_TCP]}]
        for numbers in ports
    )
    return {
        "apiVersion": CILIUM_NETWORK_POLICIES.api_version,
        "kind": CILIUM_NETWORK_POLICIES.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "endpointSelector": _machines(side_a),
            "ingress": [{"fromEntities": BYSTANDERS}, {"fromEndpoints": [peers]}],
            "egress": [{"toEntities": BYSTANDERS}, {"toEndpoints": [peers]}],
            "ingressDeny": [{"fromEndpoints": [_machines(side_b)], "toPorts": to_a}],
            "egressDeny": [{"toEndpoints": [_machines(side_b)], "toPorts": to_b}],
        },
    }


def _machines(names: Sequence[str]) -> Obj:
    return {"matchExpressions": [{"key": VM_LABEL, "operator": "In", "values": list(names)}]}


PORTS = "blocking-ports"  # only for faults that a test causes itself
HIGHEST_PORT, MOST_PORTS = 65535, 40  # Cilium's limit for one rule


@dataclass(frozen=True, slots=True)
class NetworkCut:
    """Cut between two sides: TCP to these ports of either side, or all TCP if there are none."""

    variant: str
    side_a: tuple[str, ...]
    side_b: tuple[str, ...]
    ports_a: tuple[int, ...] = ()
    ports_b: tuple[int, ...] = ()
    volume: str = ""

    profile: ClassVar[str] = NetworkBlock.name
    passes: ClassVar[bool] = False

    @property
    def targets(self) -> dict[str, list[str]]:
        machines = [*self.side_a, *self.side_b]
        found = {"nodes": machines, "vms": machines}
        if self.variant == SPLIT_BRAIN:
            found |= {"group_a": list(self.side_a), "group_b": list(self.side_b)}
        if ports := dict.fromkeys((*self.ports_a, *self.ports_b)):
            found["ports"] = [str(port) for port in ports]
        if self.volume:
            found["volumes"] = [self.volume]
        return found

    @property
    def reach(self) -> Reach:
        return Reach((LINK, VOLUME), self.side_a, self.side_b, self.volume)

    async def aim(self, clients: ClusterClients) -> NetworkCut:
        await clients.must_have([*self.side_a, *self.side_b])
        if self.variant == DRBD and not self.ports_a:
            # the link's ports are read from the cluster
            (node,), (peer,) = self.side_a, self.side_b
            links = [
                link
                for link in await links_of(clients, node)
                if (link.peer, link.volume) == (peer, self.volume)
            ]
            if not links:
                raise FaultImpossible(
                    f"the volume {self.volume!r} has no link between {node} and {peer}: "
                    "it needs a replica on each"
                )
            return block_of_link(links[0])
        return self

    async def inject(self, incident: Incident) -> None:
        await incident.put(
            incident.clients.in_parent, CILIUM_NETWORK_POLICIES, self.policy(incident)
        )

    async def heal(self, incident: Incident) -> None:
        policy = (
            incident.clients.in_parent,
            CILIUM_NETWORK_POLICIES,
            _name(incident),
            incident.clients.namespace,
        )
        await incident.look_for(*policy)
        await delete_and_wait(*policy)

    def policy(self, incident: Incident) -> Obj:
        labels = incident.labels
        if len(self.side_a) == len(self.side_b) == 1:
            labels |= {NODE_A: self.side_a[0], NODE_B: self.side_b[0]}
        ports = self.ports_a, self.ports_b
        return deny_policy(
            _name(incident),
            incident.clients.namespace,
            self.side_a,
            self.side_b,
            ports=ports,
            labels=labels,
        )


def block_of_link(link: ReplicaLink) -> NetworkCut:
    """Return the cut of one volume's link, in both directions.

    Each end has a port of its own, and either may have connected.
    """
    port_a, port_b = link.ports
    return NetworkCut(DRBD, (link.node,), (link.peer,), (port_a,), (port_b,), link.volume)


def _name(incident: Incident) -> str:
    return f"chaos-net-{incident.id}"


def valid_ports(ports: Iterable[int]) -> tuple[int, ...]:
    found = tuple(ports)
    if (
        not found
        or not all(is_whole_number(port) and port <= HIGHEST_PORT for port in found)
        or len(found) > MOST_PORTS
    ):
        raise ValueError(
            f"ports={found!r}: give 1 to {MOST_PORTS} numbers from 1 to {HIGHEST_PORT}"
        )
    return found


async def draw_block(profile: NetworkBlock, clients: ClusterClients, _: float) -> NetworkCut:
    """Draw the fault of the profile's next incident."""
    chance = clients.nested.chance
    machines = chance.shuffled(list(await clients.machines()))
    variant = draw_variant(chance, profile.variants, profile.weights)
    needed = profile.group_size + 1 if variant == SPLIT_BRAIN else PAIR
    if len(machines) < max(PAIR, needed):
        raise FaultImpossible(
            f"{variant} needs {max(PAIR, needed)} virtual machines, and there are {len(machines)}"
        )
    if variant == DRBD:
        machine = machines[0]
        found = await links_of(clients, machine)
        if not found:
            raise FaultImpossible(
                f"{DRBD}: no volume has a link between {machine} and another machine"
            )
        return block_of_link(clients.nested.chance.choice(found))
    size = 1 if variant == EVERYTHING else profile.group_size or (len(machines) + 1) // 2
    others = machines[1:PAIR] if variant == EVERYTHING else machines[size:]
    return NetworkCut(variant, tuple(machines[:size]), tuple(others))
