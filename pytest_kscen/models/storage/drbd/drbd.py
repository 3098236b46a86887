"""DRBD of all machines of a cluster: the commands of agents to their nodes' kernels.

Kernels outlive agents. A machine that loses its power forgets roles and connections; its disks keep
their data. Listeners are notified of changed statuses; amounts are computed on request only.
"""

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


# constants, because looking up enumeration members is slow
DISKLESS, UP_TO_DATE = DiskState.DISKLESS, DiskState.UP_TO_DATE
ESTABLISHED, CONNECTED = ReplicationState.ESTABLISHED, ConnectionState.CONNECTED

_connection_in_sync = lru_cache(maxsize=256)(PeerConnection)
"""Cached constructor: connections without missing data that look the same are one object."""


def visible_status(volume: DrbdResource, node: str) -> ResourceStatus | None:
    """Return a node's status without amounts, or None where the resource is down. Two statuses that
    differ are a change for listeners; progress of a resync is none.
    """
    if node not in volume.visible_statuses:
        replica = volume.replicas.get(node)
        if replica is None or replica.config is None:
            volume.visible_statuses[node] = None
        else:
            visible_peers, links, resyncs, connections = (
                replica.visible_peers,
                volume.mesh.links_from(node),
                volume.resolver.resyncs,
                {},
            )
            for peer in replica.config.peers:
                seen = visible_peers.get(peer)
                if seen is None:
                    # a configured peer always has a link
                    connections[peer] = _connection_in_sync(links[peer].state)
                else:
                    replication = _replication(volume, node, peer) if resyncs else ESTABLISHED
                    connections[peer] = _connection_in_sync(
                        CONNECTED, seen.role, seen.disk, replication
                    )
            size = replica.size if volume.size is None else volume.size
            volume.visible_statuses[node] = ResourceStatus(
                replica.role, replica.disk, size, replica.quorum, replica.suspended, connections
            )
    return volume.visible_statuses[node]


def status_of(volume: DrbdResource, node: str, now: Callable[[], float]) -> ResourceStatus | None:
    """Return a node's status with amounts at this instant, or None where the resource is down. The
    result is cached while no amount moves.
    """
    if node in volume.statuses:
        return volume.statuses[node]
    found = visible_status(volume, node)
    if found is None:
        return None
    is_static = volume.is_static
    if not is_static or volume.has_missing_data:
        instant = now()
        connections = {
            peer: _with_amounts(volume, node, peer, one, instant)
            for peer, one in found.connections.items()
        }
        found = ResourceStatus(*found[:-1], connections)
    if is_static:
        volume.statuses[node] = found
    return found


def out_of_sync_bytes(volume: DrbdResource, replica: DrbdReplica, now: float) -> float:
    """Return the bytes that a replica still has to receive, by its resync if one is under way."""
    resync = volume.resolver.resyncs.get(replica.node)
    if resync:
        return resync.remaining(now)
    return min(float(replica.size), volume.writes.missing(replica) + replica.activity)


def _replication(volume: DrbdResource, node: str, peer: str) -> ReplicationState:
    own_resync, peer_resync = volume.resolver.resyncs.get(node), volume.resolver.resyncs.get(peer)
    if own_resync and own_resync.source == peer:
        return ReplicationState.SYNC_TARGET
    if peer_resync and peer_resync.source == node:
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


class ChangeNotifier:
    """Collector of changed resources, which notifies listeners once per instant.

    A listener is called with node and resource for each node whose visible status differs from the
    one of the last notification.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._call_soon = call_soon
        self._listeners: list[Listener] = []
        self._changed: dict[str, DrbdResource] = {}
        self._notified: dict[str, dict[str, ResourceStatus]] = {}

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def mark_changed(self, volume: DrbdResource) -> None:
        if not self._changed:
            self._call_soon(self._notify)
        self._changed[volume.name] = volume

    def _notify(self) -> None:
        changed, self._changed = self._changed, {}
        for name, volume in changed.items():
            notified = self._notified.pop(name, {})
            visible_statuses = {
                node: seen for node in volume.replicas if (seen := visible_status(volume, node))
            }
            if visible_statuses:
                self._notified[name] = visible_statuses
            for node in {**notified, **visible_statuses}:
                if notified.get(node) != visible_statuses.get(node):
                    for listener in self._listeners:
                        listener(node, name)


def promotion_refusal(volume: DrbdResource, replica: DrbdReplica) -> str:
    """Return the reason for which a replica may not become Primary, or an empty string. All
    replicas of its partition have to answer, as in DRBD's state change over all nodes.
    """
    if not replica.quorum:
        return "no quorum"
    partition = volume.mesh.partition_of(replica)
    if not any(one.disk is DiskState.UP_TO_DATE for one in (replica, *volume.mesh.peers(replica))):
        return "no UpToDate data here or with a connected peer"
    for other in partition:
        if other is not replica and other.role is Role.PRIMARY:
            configs = (replica.config, other.config)
            if not all(config and config.two_primaries for config in configs):
                return f"{other.node} is Primary, and two primaries are not allowed"
    for other in partition:
        for peer, link in volume.mesh.links_from(other.node).items():
            if link.silent:
                return f"{peer} does not answer {other.node}"
    return ""


class Drbd:
    """DRBD of one cluster. Commands must come from within the running event loop, as agents give
    them.

    A command on a machine without power raises DrbdRefused.
    """

    def __init__(
        self,
        machines: Machines,
        network: Network,
        clock: Clock,
        chance: Chance,
        parameters: DrbdParameters = PARAMETERS,
    ) -> None:
        self._machines = machines
        self._timers = Timers()
        self._notifier = ChangeNotifier(self._timers.call_soon)
        self._kernel = KernelServices(
            clock, network, chance, parameters, self._timers, self._notifier.mark_changed
        )
        self._volumes: dict[str, DrbdResource] = {}
        self._powered_off: list[str] = []
        """Machines that were powered off, and whose resources have not been updated yet."""
        self._network_changed = False

        def machine_changed(machine: Machine) -> None:
            if not machine.powered:
                self._powered_off.append(machine.name)
                self._timers.call_soon(self._apply_changes)

        def network_may_have_changed() -> None:
            if not self._network_changed:
                self._network_changed = True
                self._timers.call_soon(self._apply_changes)

        machines.on_change(machine_changed)
        network.on_change(network_may_have_changed)

    def on_change(self, listener: Listener) -> None:
        """Call the listener with node and resource when that node's status changes. Changed amounts
        alone are no change.
        """
        self._notifier.add_listener(listener)

    @property
    def pending(self) -> int:
        return len(self._timers)

    def up(self, node: str, resource: str, config: ResourceConfig) -> None:
        """Create the resource on a node, or adjust it to another configuration.

        A new disk is Inconsistent; an existing disk keeps its data.
        """
        self._timers.bind_loop()
        self._require_power(node, resource)
        if resource not in self._volumes:
            self._volumes[resource] = DrbdResource(resource, self._kernel)
        self._volumes[resource].up(node, config)

    def down(self, node: str, resource: str, *, wipe: bool = False) -> None:
        """Stop the resource on a node, whatever its role; `wipe` removes the data too. Does nothing
        where the resource is unknown.
        """
        self._require_power(node, resource)
        volume = self._volumes.get(resource)
        if volume and node in volume.replicas:
            volume.down(node, wipe=wipe)
            if volume.is_removed:
                self._volumes.pop(resource).dismantle()

    def initialize(self, node: str, resource: str) -> None:
        """Declare a new disk UpToDate by force; a disk with data stays as it is. Refused without a
        disk, and where a connected peer already has data.
        """
        volume, replica = self._running_replica(node, resource)
        if not replica.diskful:
            raise DrbdRefused(f"{resource}: {node} has no disk to initialise")
        if replica.data:
            return
        if any(peer.data for peer in volume.mesh.peers(replica)):
            raise DrbdRefused(f"{resource}: a peer that {node} is connected to has data already")
        volume.initialize(node)

    def primary(self, node: str, resource: str) -> None:
        """Promote a replica. Raises DrbdRefused with the reason, such as another Primary or missing
        quorum; a later attempt may succeed.
        """
        volume, replica = self._running_replica(node, resource)
        if replica.role is Role.PRIMARY:
            return
        if why := promotion_refusal(volume, replica):
            raise DrbdRefused(f"{resource}: {node} cannot become Primary: {why}")
        volume.promote(node)

    def secondary(self, node: str, resource: str) -> None:
        volume, replica = self._running_replica(node, resource)
        if replica.role is Role.PRIMARY:
            volume.demote(node)

    def status(self, node: str, resource: str) -> ResourceStatus | None:
        """Return a node's status, or None where the resource is down or the machine has no
        power.
        """
        self._apply_changes()
        volume = self._volumes.get(resource)
        return status_of(volume, node, self._kernel.clock.now) if volume else None

    def _require_power(self, node: str, resource: str) -> None:
        self._apply_changes()
        if not self._machines.has_power(node):
            raise DrbdRefused(f"{resource}: {node} has no power")

    def _running_replica(self, node: str, resource: str) -> tuple[DrbdResource, DrbdReplica]:
        self._require_power(node, resource)
        volume = self._volumes.get(resource)
        replica = volume.replicas.get(node) if volume else None
        if volume is None or replica is None or replica.config is None:
            raise DrbdRefused(f"{resource} is not up on {node}")
        return volume, replica

    def _apply_changes(self) -> None:
        """Apply all changes of power and network since the last call. Called once per instant after
        a change, and before every command.
        """
        if self._powered_off:
            powered_off, self._powered_off = self._powered_off, []
            for name in powered_off:
                for volume in list(self._volumes.values()):
                    replica = volume.replicas.get(name)
                    if replica and replica.config:
                        volume.lose_power(name)
        if self._network_changed:
            self._network_changed = False
            for volume in self._volumes.values():
                volume.update_network()
