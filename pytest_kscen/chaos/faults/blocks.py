"""The network between machines is blocked: a policy in the parent denies TCP between two sides, all of it or single ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.blame import Reach
from pytest_kscen.chaos.hands import NODE_A, NODE_B, Hands, Impossible, remove
from pytest_kscen.chaos.policies import cut
from pytest_kscen.chaos.replicas import links_of
from pytest_kscen.chaos.troubles import LINK, VOLUME
from pytest_kscen.objects.cilium import CILIUM_NETWORK_POLICIES
from pytest_kscen.objects.numbers import is_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.chaos.replicas import Link
    from pytest_kscen.objects.resources import Obj

EVERYTHING, DRBD, SPLIT_BRAIN = "blocking-everything", "blocking-drbd", "split-brain"
PORTS = "blocking-ports"  # by hand alone
HIGHEST_PORT, MOST_PORTS = 65535, 40  # Cilium takes no more in one rule


@dataclass(frozen=True, slots=True)
class Block:
    """Between two sides: all TCP, or what goes to these ports of either; no ports are all ports."""

    variant: str
    side_a: tuple[str, ...]
    side_b: tuple[str, ...]
    ports_a: tuple[int, ...] = ()
    ports_b: tuple[int, ...] = ()
    volume: str = ""

    profile: ClassVar[str] = "network-block"
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

    async def aim(self, hands: Hands) -> Block:
        await hands.must_have([*self.side_a, *self.side_b])
        if self.variant == DRBD and not self.ports_a:
            return await self._of_volume(hands)
        return self

    async def _of_volume(self, hands: Hands) -> Block:
        """As its link is found."""
        (node,), (peer,) = self.side_a, self.side_b
        links = [link for link in await links_of(hands, node) if (link.peer, link.volume) == (peer, self.volume)]
        if not links:
            raise Impossible(f"the volume {self.volume!r} has no link between {node} and {peer}: it needs a replica on each")
        return of_link(links[0])

    async def inject(self, incident: Incident) -> None:
        await incident.put(incident.hands.in_parent, CILIUM_NETWORK_POLICIES, self.policy(incident))

    async def heal(self, incident: Incident) -> None:
        policy = incident.hands.in_parent, CILIUM_NETWORK_POLICIES, _name(incident), incident.hands.namespace
        await incident.look_for(*policy)
        await remove(*policy)

    def policy(self, incident: Incident) -> Obj:
        labels = incident.labels
        if len(self.side_a) == len(self.side_b) == 1:
            labels |= {NODE_A: self.side_a[0], NODE_B: self.side_b[0]}
        ports = self.ports_a, self.ports_b
        return cut(_name(incident), incident.hands.namespace, self.side_a, self.side_b, ports=ports, labels=labels)


def of_link(link: Link) -> Block:
    """One volume's link alone, whichever end has dialled: ports are numbered on each node, so each end's are its own."""
    port_a, port_b = link.ports
    return Block(DRBD, (link.node,), (link.peer,), (port_a,), (port_b,), link.volume)


def _name(incident: Incident) -> str:
    return f"chaos-net-{incident.id}"


def valid_ports(ports: Iterable[int]) -> tuple[int, ...]:
    found = tuple(ports)
    if not found or not all(is_whole(port) and port <= HIGHEST_PORT for port in found) or len(found) > MOST_PORTS:
        raise ValueError(f"ports={found!r}: give 1 to {MOST_PORTS} numbers from 1 to {HIGHEST_PORT}")
    return found
