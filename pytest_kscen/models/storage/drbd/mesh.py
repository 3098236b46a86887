"""The connections of one resource: one for each pair of nodes of which one is configured for the
other.

Called by the resource when a replica, a machine or the network changes. Passes every event to the
connections that it concerns; decides nothing about disks, roles or quorum.
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
    ConnectionEvent.PEER_UP,
    ConnectionEvent.PEER_DOWN,
    ConnectionEvent.PATH_OPENED,
    ConnectionEvent.PATH_BLOCKED,
)  # looking up enumeration members is slow


class ConnectionMesh:
    """Connections of one resource, by their pairs of nodes in the order of the names.

    Calls `update_state` after each expired timer of a connection; other callers do that themselves.
    """

    def __init__(
        self,
        resource: str,
        replicas: dict[str, DrbdReplica],
        kernel: KernelServices,
        update_state: Callable[[], None],
    ) -> None:
        self.links: dict[tuple[str, str], PeerLink] = {}
        self._links_from: dict[str, dict[str, PeerLink]] = {}
        """The same links, by one end and then by the other."""
        self._resource = resource
        self._replicas = replicas
        self._kernel = kernel
        self._update_state = update_state

    def link(self, one: str, other: str) -> PeerLink | None:
        return self._links_from.get(one, NO_LINKS).get(other)

    def links_from(self, node: str) -> dict[str, PeerLink]:
        return self._links_from.get(node, NO_LINKS)

    def peers(self, replica: DrbdReplica) -> Iterator[DrbdReplica]:
        """Return the replicas that are connected to this one and receive its writes."""
        visible_peers = replica.visible_peers
        return (peer for peer in self._replicas.values() if visible_peers.get(peer.node) is peer)

    def unconnected(self, replica: DrbdReplica) -> list[DrbdReplica]:
        """Return all other replicas that are not connected to this one."""
        visible_peers = replica.visible_peers
        return [
            peer
            for peer in self._replicas.values()
            if visible_peers.get(peer.node) is not peer and peer is not replica
        ]

    def partition_of(self, replica: DrbdReplica) -> list[DrbdReplica]:
        """Return all replicas that are connected to this one, directly or by others; this one is
        the first.
        """
        found = {replica.node: replica}
        waiting = [replica]
        while waiting:
            for peer in self.peers(waiting.pop()):
                if peer.node not in found:
                    found[peer.node] = peer
                    waiting.append(peer)
        return list(found.values())

    def update_quality(self) -> bool:
        """Measure all paths again after a change of the network. Return True if a connection has
        become silent, or has recovered from silence.
        """
        changed = False
        for link in self.links.values():
            if link.flows is None:
                continue
            quality = measure_link(self._kernel.network, *link.flows)
            if quality != link.quality:
                was_silent = link.silent
                link.set_quality(quality)
                self._refresh(link, PATH_OPENED, PATH_BLOCKED)
                changed = changed or link.silent is not was_silent
        return changed

    def adjust(self, replica: DrbdReplica, before: ResourceConfig | None) -> None:
        """Update the links of a replica that came up, or whose peers or port have changed.
        `before` is None for a replica that was down.
        """
        peers, port = (replica.config.peers, replica.config.port) if replica.config else ({}, 0)
        if before and port == before.port and peers.keys() == before.peers.keys():
            return
        self.update_links(replica.node)
        for peer, link in self.links_from(replica.node).items():
            if before is None or (peer in peers) != (peer in before.peers):
                link.usable = False
                link.handle(PEER_DOWN, self._replicas)
            elif port == before.port:
                continue
            self._refresh(link, PEER_UP, PEER_DOWN)

    def disconnect(self, node: str) -> None:
        """Disconnect a replica that goes down in order. Peers that its farewell does not reach
        notice it by their ping timeout.
        """
        for link in self.links_from(node).values():
            self._refresh(link, PEER_UP, PEER_DOWN)
        self.update_links(node)

    def lose_power(self, node: str) -> None:
        """Leave the links of a machine without power as they look to the peers: the loss is noticed
        later, by the ping timeout.
        """
        for link in self.links_from(node).values():
            link.handle(ConnectionEvent.POWER_LOST, self._replicas)
            link.usable, link.flows = False, None

    def update_links(self, node: str) -> None:
        """Create and drop links as configured: one for each pair of which either end is configured
        for the other.
        """
        config, links = self._config(node), self.links_from(node)
        peers = config.peers if config else ()
        unused = []
        for peer in links:
            theirs = self._config(peer)
            if peer not in peers and (theirs is None or node not in theirs.peers):
                unused.append(peer)
        for peer in unused:
            self.links.pop(_sorted_ends(node, peer)).cancel_timer()
            for here, there in ((node, peer), (peer, node)):
                del self._links_from[here][there]
                if here in self._replicas:
                    self._replicas[here].visible_peers.pop(there, None)
        for peer in peers:
            if peer not in links:
                one, other = _sorted_ends(node, peer)
                stream = self._kernel.stream(self._resource, one, other)
                link = PeerLink(
                    (one, other),
                    stream,
                    self._kernel.timers,
                    self._kernel.parameters,
                    self._on_timeout,
                )
                self.links[one, other] = link
                for here, there in ((one, other), (other, one)):
                    self._links_from.setdefault(here, {})[there] = link

    def _refresh(
        self, link: PeerLink, usable_event: ConnectionEvent, unusable_event: ConnectionEvent
    ) -> None:
        """Recompute the flows of a link from both configurations. Handle `usable_event` or
        `unusable_event` if that has changed.
        """
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
            link.set_quality(measure_link(self._kernel.network, *flows) if flows else UNREACHABLE)
        usable = flows is not None and link.quality.open
        if usable != link.usable:
            link.usable = usable
            link.handle(usable_event if usable else unusable_event, self._replicas)

    def _config(self, node: str) -> ResourceConfig | None:
        replica = self._replicas.get(node)
        return replica.config if replica else None

    def _on_timeout(self, link: PeerLink, event: ConnectionEvent) -> None:
        if event is ConnectionEvent.HANDSHAKE_DONE:
            one, other = (self._replicas[end].data for end in link.ends)
            if 0 not in (one, other) and one != other:
                event = ConnectionEvent.UNRELATED_DATA
        link.handle(event, self._replicas)
        self._update_state()


def _sorted_ends(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)
