"""One node's view of a resource, as its kernel tells it: what has changed is told by faces, amounts are for whoever asks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.storage.drbd.words import Connection, Disk, Replication, Role, State, Status

if TYPE_CHECKING:
    from pytest_kscen.simulation.storage.drbd.replicas import Replica
    from pytest_kscen.simulation.storage.drbd.volume import Volume


class Side(NamedTuple):
    """A connection without its amounts."""

    state: State
    role: Role
    disk: Disk
    replication: Replication


class Face(NamedTuple):
    """A status without its amounts: what counts as a change."""

    role: Role
    disk: Disk
    size: int
    quorum: bool
    suspended: bool
    sides: dict[str, Side]


def face(volume: Volume, node: str) -> Face | None:
    if node not in volume.faces:
        volume.faces[node] = _look_at(volume, node)
    return volume.faces[node]


def _look_at(volume: Volume, node: str) -> Face | None:
    replica = volume.replicas.get(node)
    if replica is None or replica.config is None:
        return None
    sides = {peer: _side(volume, replica, peer) for peer in replica.config.peers}
    return Face(replica.role, replica.disk, _size(volume, replica), replica.quorum, replica.suspended, sides)


def status(volume: Volume, node: str, now: float) -> Status | None:
    if node in volume.statuses:
        return volume.statuses[node]
    seen = face(volume, node)
    if seen is None:
        return None
    if volume.is_clean:
        connections = {peer: Connection(*side) for peer, side in seen.sides.items()}
    else:
        connections = {peer: _with_amounts(volume, node, peer, side, now) for peer, side in seen.sides.items()}
    found = Status(seen.role, seen.disk, seen.size, seen.quorum, seen.suspended, connections)
    if volume.is_still:
        volume.statuses[node] = found
    return found


def dirt(volume: Volume, replica: Replica, now: float) -> float:
    """Bytes that a replica has to get."""
    resync = volume.accord.resyncs.get(replica.node)
    if resync:
        return resync.left(now)
    return min(float(replica.size), volume.writes.missing(replica) + replica.activity)


def _size(volume: Volume, replica: Replica) -> int:
    """All disks have grown before the device does."""
    return min((one.size for one in volume.replicas.values() if one.diskful), default=replica.size)


def _side(volume: Volume, replica: Replica, peer: str) -> Side:
    link = volume.mesh.link(replica.node, peer)
    assert link, "a peer that is wanted has a link"
    seen = volume.mesh.seen_over(link, replica, peer)
    if seen is None:
        return Side(link.shown, Role.UNKNOWN, Disk.UNKNOWN, Replication.OFF)
    return Side(link.shown, seen.role, seen.disk, _replication(volume, replica.node, peer))


def _replication(volume: Volume, node: str, peer: str) -> Replication:
    if not volume.accord.resyncs:
        return Replication.ESTABLISHED
    mine, theirs = volume.accord.resyncs.get(node), volume.accord.resyncs.get(peer)
    if mine and mine.source == peer:
        return Replication.SYNC_TARGET
    if theirs and theirs.source == node:
        return Replication.SYNC_SOURCE
    return Replication.ESTABLISHED


def _with_amounts(volume: Volume, node: str, peer: str, side: Side, now: float) -> Connection:
    here, there = volume.replicas[node], volume.replicas.get(peer)
    out = 0.0
    if there and here.diskful and there.diskful:
        if side.state is State.CONNECTED:
            out = max(dirt(volume, here, now), dirt(volume, there, now))
        elif here.disk is Disk.UP_TO_DATE:
            out = dirt(volume, there, now)
    percent = 100 * (1 - out / here.size) if here.size else 100.0
    return Connection(side.state, side.role, side.disk, side.replication, percent, math.ceil(out))
