"""The links of one resource: one for every pair of which an end is up and wants it, each fed
with what concerns it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.kubelet.network import Flow
from pytest_kscen.models.storage.drbd.connections import (
    UNREACHABLE,
    ConnectionEvent,
    PeerLink,
    measure_link,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.models.storage.drbd.kernel import KernelServices
    from pytest_kscen.models.storage.drbd.replicas import DrbdReplica
    from pytest_kscen.models.storage.drbd.states import ResourceConfig

NO_LINKS: dict[str, PeerLink] = {}
PEER_UP, PEER_DOWN, PATH_OPENED, PATH_BLOCKED = (
    ConnectionEvent.CAME,
    ConnectionEvent.LEFT,
    ConnectionEvent.OPENED,
    ConnectionEvent.SHUT,
)  # an enumeration takes its time to find them


class ConnectionMesh:
    """Who hears whom."""

    def __init__(
        self,
        resource: str,
        replicas: dict[str, DrbdReplica],
        kernel: KernelServices,
        agree: Callable[[], None],
    ) -> None:
        self.links: dict[tuple[str, str], PeerLink] = {}
        self._links_from: dict[str, dict[str, PeerLink]] = {}
        """The same, by one end and the other."""
        self._resource = resource
        self._replicas = replicas
        self._kernel = kernel
        self._agree = agree

    # --- who hears whom ---

    def link(self, one: str, other: str) -> PeerLink | None:
        return self._links_from.get(one, NO_LINKS).get(other)

    def links_from(self, node: str) -> dict[str, PeerLink]:
        """By their other ends."""
        return self._links_from.get(node, NO_LINKS)

    def peers(self, replica: DrbdReplica) -> Iterator[DrbdReplica]:
        """Those that it is really connected to: what one of them writes, the other gets."""
        sees = replica.sees
        return (peer for peer in self._replicas.values() if sees.get(peer.node) is peer)

    def others(self, replica: DrbdReplica) -> list[DrbdReplica]:
        """All but itself and those."""
        sees = replica.sees
        return [
            peer
            for peer in self._replicas.values()
            if sees.get(peer.node) is not peer and peer is not replica
        ]

    def reached(self, replica: DrbdReplica) -> list[DrbdReplica]:
        """All that hear of each other, this one first."""
        found = {replica.node: replica}
        waiting = [replica]
        while waiting:
            for peer in self.peers(waiting.pop()):
                if peer.node not in found:
                    found[peer.node] = peer
                    waiting.append(peer)
        return list(found.values())

    # --- what happens to them ---

    def look(self) -> bool:
        """See what the network has become; whether somebody has fallen silent by it, or is heard
        again.
        """
        changed = False
        for link in self.links.values():
            if link.flows is None:
                continue
            weather = measure_link(self._kernel.network, *link.flows)
            if weather != link.weather:
                was_silent = link.silent
                link.feel(weather)
                self._refresh(link, PATH_OPENED, PATH_BLOCKED)
                changed = changed or link.silent is not was_silent
        return changed

    def adjust(self, replica: DrbdReplica, before: ResourceConfig | None) -> None:
        """A replica came up, or has other peers or another port than before."""
        peers, port = (replica.config.peers, replica.config.port) if replica.config else ({}, 0)
        if before and port == before.port and peers.keys() == before.peers.keys():
            return
        self.fit(replica.node)
        for peer, link in self.links_from(replica.node).items():
            if before is None or (peer in peers) != (peer in before.peers):
                link.usable = False
                link.happen(PEER_DOWN, self._replicas)
            elif port == before.port:
                continue
            self._refresh(link, PEER_UP, PEER_DOWN)

    def leave(self, node: str) -> None:
        """A replica said goodbye; whom it does not reach notices in time."""
        for link in self.links_from(node).values():
            self._refresh(link, PEER_UP, PEER_DOWN)
        self.fit(node)

    def die(self, node: str) -> None:
        """A replica's power went. It still looks as it did."""
        for link in self.links_from(node).values():
            link.happen(ConnectionEvent.DIED, self._replicas)
            link.usable, link.flows = False, None

    def fit(self, node: str) -> None:
        """A link to everybody whom this one wants, or who wants it, and to nobody else."""
        config, links = self._config(node), self.links_from(node)
        peers = config.peers if config else ()
        for peer in [peer for peer in links if peer not in peers and not self._wants(peer, node)]:
            self._drop(node, peer)
        for peer in peers:
            if peer not in links:
                one, other = _ends(node, peer)
                stream = self._kernel.stream(self._resource, one, other)
                link = PeerLink(
                    (one, other), stream, self._kernel.timers, self._kernel.figures, self._ring
                )
                self.links[one, other] = link
                for here, there in ((one, other), (other, one)):
                    self._links_from.setdefault(here, {})[there] = link

    def _wants(self, node: str, peer: str) -> bool:
        config = self._config(node)
        return config is not None and peer in config.peers

    def _drop(self, one: str, other: str) -> None:
        self.links.pop(_ends(one, other)).end()
        for here, there in ((one, other), (other, one)):
            del self._links_from[here][there]
            if here in self._replicas:
                self._replicas[here].sees.pop(there, None)

    def _refresh(self, link: PeerLink, came: ConnectionEvent, went: ConnectionEvent) -> None:
        """Whether the ends can hear each other, and what follows if that has changed."""
        one, other = link.ends
        here, there = self._config(one), self._config(other)
        if here is None or there is None or other not in here.peers or one not in there.peers:
            flows: tuple[Flow, Flow] | None = None
        elif link.flows and (link.flows[0].port, link.flows[1].port) == (there.port, here.port):
            flows = link.flows
        else:
            flows = Flow(one, other, port=there.port), Flow(other, one, port=here.port)
        if flows != link.flows:
            link.flows = flows
            link.feel(measure_link(self._kernel.network, *flows) if flows else UNREACHABLE)
        usable = flows is not None and link.weather.open
        if usable != link.usable:
            link.usable = usable
            link.happen(came if usable else went, self._replicas)

    def _config(self, node: str) -> ResourceConfig | None:
        replica = self._replicas.get(node)
        return replica.config if replica else None

    def _ring(self, link: PeerLink, event: ConnectionEvent) -> None:
        if event is ConnectionEvent.MET and self._are_strangers(link):
            event = ConnectionEvent.UNRELATED
        link.happen(event, self._replicas)
        self._agree()

    def _are_strangers(self, link: PeerLink) -> bool:
        one, other = (self._replicas[end].data for end in link.ends)
        return 0 not in (one, other) and one != other


def _ends(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)
