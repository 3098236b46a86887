"""The kernels of all machines of a cluster, as their agents' commands find them.

They outlive agents. A machine that loses its power forgets roles and connections; its disks
remember."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_kscen.models.storage.drbd.kernel import KernelServices
from pytest_kscen.models.storage.drbd.resource import DrbdResource
from pytest_kscen.models.storage.drbd.states import (
    ConnectionState,
    DiskState,
    DrbdRefused,
    PeerConnection,
    ReplicationState,
    ResourceStatus,
    Role,
)
from pytest_kscen.models.storage.drbd.timers import PARAMETERS, DrbdParameters, Timers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.machines import Machine, Machines
    from pytest_kscen.embedded.kubelet.network import Network
    from pytest_kscen.models.storage.drbd.replicas import DrbdReplica
    from pytest_kscen.models.storage.drbd.states import ResourceConfig

    Listener = Callable[[str, str], None]


# One node's view of a resource, as its kernel tells it: what has changed is told by faces,
# amounts are for whoever asks.


DISKLESS, UP_TO_DATE = (
    DiskState.DISKLESS,
    DiskState.UP_TO_DATE,
)  # an enumeration takes its time to find them
ESTABLISHED, CONNECTED = ReplicationState.ESTABLISHED, ConnectionState.CONNECTED

_connection_in_sync = lru_cache(maxsize=256)(PeerConnection)
"""One object for all connections that look the same, while nothing has to be got."""


def visible_status(volume: DrbdResource, node: str) -> ResourceStatus | None:
    """A status as if nobody had anything to get: what counts as a change."""
    if node not in volume.faces:
        replica = volume.replicas.get(node)
        if replica is None or replica.config is None:
            volume.faces[node] = None
        else:
            sees, links, resyncs, connections = (
                replica.sees,
                volume.mesh.links_from(node),
                volume.accord.resyncs,
                {},
            )
            for peer in replica.config.peers:
                seen = sees.get(peer)
                if seen is None:
                    connections[peer] = _connection_in_sync(
                        links[peer].shown
                    )  # a peer that is wanted has a link
                else:
                    replication = _replication(volume, node, peer) if resyncs else ESTABLISHED
                    connections[peer] = _connection_in_sync(
                        CONNECTED, seen.role, seen.disk, replication
                    )
            size = replica.size if volume.size is None else volume.size
            volume.faces[node] = ResourceStatus(
                replica.role, replica.disk, size, replica.quorum, replica.suspended, connections
            )
    return volume.faces[node]


def status_of(volume: DrbdResource, node: str, now: Callable[[], float]) -> ResourceStatus | None:
    if node in volume.statuses:
        return volume.statuses[node]
    found = visible_status(volume, node)
    if found is None:
        return None
    is_still = volume.is_still
    if not is_still or volume.is_dirty:
        instant = now()
        connections = {
            peer: _with_amounts(volume, node, peer, one, instant)
            for peer, one in found.connections.items()
        }
        found = ResourceStatus(*found[:-1], connections)
    if is_still:
        volume.statuses[node] = found
    return found


def out_of_sync_bytes(volume: DrbdResource, replica: DrbdReplica, now: float) -> float:
    """Bytes that a replica has to get."""
    resync = volume.accord.resyncs.get(replica.node)
    if resync:
        return resync.left(now)
    return min(float(replica.size), volume.writes.missing(replica) + replica.activity)


def _replication(volume: DrbdResource, node: str, peer: str) -> ReplicationState:
    mine, theirs = volume.accord.resyncs.get(node), volume.accord.resyncs.get(peer)
    if mine and mine.source == peer:
        return ReplicationState.SYNC_TARGET
    if theirs and theirs.source == node:
        return ReplicationState.SYNC_SOURCE
    return ESTABLISHED


def _with_amounts(
    volume: DrbdResource, node: str, peer: str, seen: PeerConnection, now: float
) -> PeerConnection:
    here, there = volume.replicas[node], volume.replicas.get(peer)
    out = 0.0
    if there and here.disk is not DISKLESS and there.disk is not DISKLESS:
        if seen.state is CONNECTED:
            out = max(out_of_sync_bytes(volume, here, now), out_of_sync_bytes(volume, there, now))
        elif here.disk is UP_TO_DATE:
            out = out_of_sync_bytes(volume, there, now)
    if not out:
        return seen
    percent = 100 * (1 - out / here.size) if here.size else 100.0
    return PeerConnection(*seen[:4], percent, math.ceil(out))


# What listeners hear: once for each instant in which a node's view of a resource has become
# another one.


class ChangeNotifier:
    """Collects what has changed, and tells it when the instant's other work is begun."""

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        self._soon = soon
        self._listeners: list[Listener] = []
        self._touched: dict[str, DrbdResource] = {}
        self._told: dict[str, dict[str, ResourceStatus]] = {}

    def join(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def of(self, volume: DrbdResource) -> None:
        if not self._touched:
            self._soon(self._tell)
        self._touched[volume.name] = volume

    def _tell(self) -> None:
        touched, self._touched = self._touched, {}
        for name, volume in touched.items():
            told = self._told.pop(name, {})
            faces = {
                node: seen for node in volume.replicas if (seen := visible_status(volume, node))
            }
            if faces:
                self._told[name] = faces
            for node in {**told, **faces}:
                if told.get(node) != faces.get(node):
                    for listener in self._listeners:
                        listener(node, name)


# Who may become Primary. All that hear of each other are asked, and all have to answer.


def promotion_refusal(volume: DrbdResource, replica: DrbdReplica) -> str:
    """Why it may not, or nothing."""
    if not replica.quorum:
        return "no quorum"
    partition = volume.mesh.reached(replica)
    if not any(one.disk is DiskState.UP_TO_DATE for one in (replica, *volume.mesh.peers(replica))):
        return "no UpToDate data here or with a connected peer"
    for other in partition:
        if (
            other is not replica
            and other.role is Role.PRIMARY
            and not _both_allow_two_primaries(replica, other)
        ):
            return f"{other.node} is Primary, and two primaries are not allowed"
    for other in partition:
        for peer, link in volume.mesh.links_from(other.node).items():
            if link.silent:
                return f"{peer} does not answer {other.node}"
    return ""


def _both_allow_two_primaries(one: DrbdReplica, other: DrbdReplica) -> bool:
    return bool(
        one.config and one.config.two_primaries and other.config and other.config.two_primaries
    )


class Drbd:
    """One per cluster. Its commands are given from within the running loop, as agents do."""

    def __init__(
        self,
        machines: Machines,
        network: Network,
        clock: Clock,
        chance: Chance,
        figures: DrbdParameters = PARAMETERS,
    ) -> None:
        self._machines = machines
        self._timers = Timers()
        self._news = ChangeNotifier(self._timers.soon)
        self._kernel = KernelServices(clock, network, chance, figures, self._timers, self._news.of)
        self._volumes: dict[str, DrbdResource] = {}
        self._dark: list[str] = []
        """Machines whose power went, and whose kernels have not noticed yet."""
        self._network_changed = False
        machines.on_change(self._see_machine)
        network.on_change(self._see_network)

    def on_change(self, listener: Listener) -> None:
        """Tell (node, resource) when that node's status is another one; amounts alone are no
        change.
        """
        self._news.join(listener)

    @property
    def pending(self) -> int:
        """Timers that are set: none in a cluster at rest."""
        return len(self._timers)

    # --- commands ---

    def up(self, node: str, resource: str, config: ResourceConfig) -> None:
        """Create, or adjust what is there.

        A new disk is Inconsistent; one that was there remembers its data.
        """
        self._timers.learn_loop()
        self._reach(node, resource)
        if resource not in self._volumes:
            self._volumes[resource] = DrbdResource(resource, self._kernel)
        self._volumes[resource].up(node, config)

    def down(self, node: str, resource: str, *, wipe: bool = False) -> None:
        """End it here, whatever its role; `wipe` forgets the data too.

        Nothing, where it is not known.
        """
        self._reach(node, resource)
        volume = self._volumes.get(resource)
        if volume and node in volume.replicas:
            volume.down(node, wipe=wipe)
            if volume.is_gone:
                self._volumes.pop(resource).end()

    def initialize(self, node: str, resource: str) -> None:
        """Declare a new disk UpToDate, by force. One that has data is left as it is."""
        volume, replica = self._running(node, resource)
        if not replica.diskful:
            raise DrbdRefused(f"{resource}: {node} has no disk to initialise")
        if replica.data:
            return
        if any(peer.data for peer in volume.mesh.peers(replica)):
            raise DrbdRefused(f"{resource}: a peer that {node} is connected to has data already")
        volume.initialize(node)

    def primary(self, node: str, resource: str) -> None:
        """Raises DrbdRefused, and why; asking again later may help."""
        volume, replica = self._running(node, resource)
        if replica.role is Role.PRIMARY:
            return
        if why := promotion_refusal(volume, replica):
            raise DrbdRefused(f"{resource}: {node} cannot become Primary: {why}")
        volume.promote(node)

    def secondary(self, node: str, resource: str) -> None:
        """Always allowed where the resource is up."""
        volume, replica = self._running(node, resource)
        if replica.role is Role.PRIMARY:
            volume.demote(node)

    def status(self, node: str, resource: str) -> ResourceStatus | None:
        """None where the resource is not up, or the machine has no power."""
        self._catch_up()
        volume = self._volumes.get(resource)
        return status_of(volume, node, self._kernel.clock.now) if volume else None

    def _reach(self, node: str, resource: str) -> None:
        self._catch_up()
        if not self._machines.has_power(node):
            raise DrbdRefused(f"{resource}: {node} has no power")

    def _running(self, node: str, resource: str) -> tuple[DrbdResource, DrbdReplica]:
        self._reach(node, resource)
        volume = self._volumes.get(resource)
        replica = volume.replicas.get(node) if volume else None
        if volume is None or replica is None or replica.config is None:
            raise DrbdRefused(f"{resource} is not up on {node}")
        return volume, replica

    # --- what happens to machines and between them ---

    def _see_machine(self, machine: Machine) -> None:
        if not machine.powered:
            self._dark.append(machine.name)
            self._timers.soon(self._catch_up)

    def _see_network(self) -> None:
        if not self._network_changed:
            self._network_changed = True
            self._timers.soon(self._catch_up)

    def _catch_up(self) -> None:
        """See all that has changed, once for each instant, or as soon as somebody asks."""
        if self._dark:
            dark, self._dark = self._dark, []
            for name in dark:
                self._lose_power(name)
        if self._network_changed:
            self._network_changed = False
            for volume in self._volumes.values():
                volume.look()

    def _lose_power(self, name: str) -> None:
        for volume in list(self._volumes.values()):
            replica = volume.replicas.get(name)
            if replica and replica.config:
                volume.lose_power(name)
