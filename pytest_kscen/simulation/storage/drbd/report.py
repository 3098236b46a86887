"""One node's view of a resource, as its kernel tells it: what has changed is told by faces, amounts are for whoever asks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.drbd.words import Connection, Disk, Replication, State, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.simulation.storage.drbd.replicas import Replica
    from pytest_kscen.simulation.storage.drbd.volume import Volume

DISKLESS, UP_TO_DATE = Disk.DISKLESS, Disk.UP_TO_DATE  # an enumeration takes its time to find them
ESTABLISHED, CONNECTED = Replication.ESTABLISHED, State.CONNECTED

_clean = lru_cache(maxsize=256)(Connection)
"""One object for all connections that look the same, while nothing has to be got."""


def face(volume: Volume, node: str) -> Status | None:
    """A status as if nobody had anything to get: what counts as a change."""
    if node not in volume.faces:
        volume.faces[node] = _look_at(volume, node)
    return volume.faces[node]


def _look_at(volume: Volume, node: str) -> Status | None:
    replica = volume.replicas.get(node)
    if replica is None or replica.config is None:
        return None
    sees, links, resyncs, connections = replica.sees, volume.mesh.links_from(node), volume.accord.resyncs, {}
    for peer in replica.config.peers:
        seen = sees.get(peer)
        if seen is None:
            connections[peer] = _clean(links[peer].shown)  # a peer that is wanted has a link
        else:
            replication = _replication(volume, node, peer) if resyncs else ESTABLISHED
            connections[peer] = _clean(CONNECTED, seen.role, seen.disk, replication)
    size = replica.size if volume.size is None else volume.size
    return Status(replica.role, replica.disk, size, replica.quorum, replica.suspended, connections)


def status(volume: Volume, node: str, now: Callable[[], float]) -> Status | None:
    if node in volume.statuses:
        return volume.statuses[node]
    found = face(volume, node)
    if found is None:
        return None
    is_still = volume.is_still
    if not is_still or volume.is_dirty:
        instant = now()
        connections = {peer: _with_amounts(volume, node, peer, one, instant) for peer, one in found.connections.items()}
        found = Status(*found[:-1], connections)
    if is_still:
        volume.statuses[node] = found
    return found


def dirt(volume: Volume, replica: Replica, now: float) -> float:
    """Bytes that a replica has to get."""
    resync = volume.accord.resyncs.get(replica.node)
    if resync:
        return resync.left(now)
    return min(float(replica.size), volume.writes.missing(replica) + replica.activity)


def _replication(volume: Volume, node: str, peer: str) -> Replication:
    mine, theirs = volume.accord.resyncs.get(node), volume.accord.resyncs.get(peer)
    if mine and mine.source == peer:
        return Replication.SYNC_TARGET
    if theirs and theirs.source == node:
        return Replication.SYNC_SOURCE
    return ESTABLISHED


def _with_amounts(volume: Volume, node: str, peer: str, seen: Connection, now: float) -> Connection:
    here, there = volume.replicas[node], volume.replicas.get(peer)
    out = 0.0
    if there and here.disk is not DISKLESS and there.disk is not DISKLESS:
        if seen.state is CONNECTED:
            out = max(dirt(volume, here, now), dirt(volume, there, now))
        elif here.disk is UP_TO_DATE:
            out = dirt(volume, there, now)
    if not out:
        return seen
    percent = 100 * (1 - out / here.size) if here.size else 100.0
    return Connection(*seen[:4], percent, math.ceil(out))
