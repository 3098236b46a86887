"""Configurations, states by DRBD's own names, refusals, and the two quorum rules.

Used by agents as well as by the model. Pure data and functions: nothing here has state or time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple


class DrbdRefused(Exception):
    """Refusal of a command by the kernel; its text gives the reason. A later attempt may
    succeed.
    """


class Role(StrEnum):
    PRIMARY = "Primary"
    SECONDARY = "Secondary"
    UNKNOWN = "Unknown"


class DiskState(StrEnum):
    DISKLESS = "Diskless"
    INCONSISTENT = "Inconsistent"
    """Incomplete data, or data that a resync overwrites."""
    OUTDATED = "Outdated"
    """Complete, but other replicas have newer data."""
    CONSISTENT = "Consistent"
    """Complete; other replicas may have newer data."""
    UP_TO_DATE = "UpToDate"
    UNKNOWN = "DUnknown"


class ConnectionState(StrEnum):
    STAND_ALONE = "StandAlone"
    CONNECTING = "Connecting"
    CONNECTED = "Connected"


class ReplicationState(StrEnum):
    OFF = "Off"
    ESTABLISHED = "Established"
    SYNC_SOURCE = "SyncSource"
    SYNC_TARGET = "SyncTarget"


class QuorumRule(StrEnum):
    VOTES = "votes"
    """Votes of all replicas are counted, with a disk or without."""
    TIE_BREAK = "tie-break"
    """Replicas with disks vote; diskless ones decide when exactly half of the voters is reached."""


class PeerConfig(NamedTuple):
    node_id: int
    port: int
    diskful: bool


@dataclass(slots=True)
class ResourceConfig:
    """Configuration of one resource on one node, as an agent gives it to its kernel.

    Must not be changed; it is not frozen only because many are made.
    """

    node_id: int
    port: int
    diskful: bool
    size: int
    """Bytes."""
    quorum: int = 0
    """Votes needed; 0 switches quorum off."""
    quorum_minimum_redundancy: int = 1
    two_primaries: bool = False
    peers: dict[str, PeerConfig] = field(default_factory=dict)
    """Peers by the names of their nodes."""
    quorum_rule: QuorumRule = QuorumRule.VOTES
    disks: int = field(init=False, compare=False)
    """Number of replicas with a disk, this one included."""

    def __post_init__(self) -> None:
        self.disks = [self.diskful, *[peer.diskful for peer in self.peers.values()]].count(True)

    def has_same_effect_as(self, other: ResourceConfig) -> bool:
        """Return True if both configurations lead to the same common state. `two_primaries` does
        not count: it matters only to a later promotion.
        """
        return _agreement_key(self) == _agreement_key(other)


_agreement_key = attrgetter(
    *(one.name for one in fields(ResourceConfig) if one.compare and one.name != "two_primaries")
)


class PeerConnection(NamedTuple):
    """Connection to one peer as one node sees it: the peer's role and disk are the last ones
    known.
    """

    state: ConnectionState
    peer_role: Role = Role.UNKNOWN
    peer_disk: DiskState = DiskState.UNKNOWN
    replication: ReplicationState = ReplicationState.OFF
    percent_in_sync: float = 100.0
    out_of_sync: int = 0
    """Bytes that either end misses."""


class ResourceStatus(NamedTuple):
    """Status of a resource as one node sees it, without the peers' own views. Equal statuses are no
    change for listeners.
    """

    role: Role
    disk_state: DiskState
    size: int
    quorum: bool
    suspended: bool
    """I/O is frozen: there is no quorum, or no data that is UpToDate."""
    connections: dict[str, PeerConnection]
    """Connections by the names of the peers' nodes."""


VOTES = QuorumRule.VOTES  # looking up enumeration members is slow


class VisibleReplicas(NamedTuple):
    """Numbers of replicas that are visible to one replica, itself included, by their contribution
    to quorum.
    """

    up_to_date: int
    """Replicas whose disks are UpToDate."""
    present: int
    """Replicas with disks that are not UpToDate."""
    diskless: int
    """Replicas without disks."""
    quorate: int
    """UpToDate peers that have quorum themselves."""


def has_enough_votes(config: ResourceConfig, visible: VisibleReplicas, *, had_quorum: bool) -> bool:
    """Return True if enough replicas are visible: no newer data can exist without one of them.

    The tie-break rule keeps an existing quorum if half of the voters and most diskless replicas are
    visible; it never grants a new quorum.
    """
    if config.quorum == 0:
        return True
    if config.quorum_rule is VOTES:
        return visible.up_to_date + visible.present + visible.diskless >= config.quorum
    if not config.diskful:
        return visible.quorate >= config.quorum_minimum_redundancy
    votes = visible.up_to_date + visible.present
    if votes >= config.quorum or not had_quorum:
        return votes >= config.quorum
    halved = config.disks % 2 == 0 and votes == config.quorum - 1
    return halved and 2 * visible.diskless > 1 + len(config.peers) - config.disks


def depends_on_previous_quorum(config: ResourceConfig) -> bool:
    """Return True if a replica's quorum depends on the quorum that it or a peer had before."""
    return config.quorum_rule is not VOTES


def has_quorum(config: ResourceConfig, visible: VisibleReplicas, *, had_quorum: bool) -> bool:
    if config.quorum == 0:
        return True
    enough_data = visible.up_to_date >= config.quorum_minimum_redundancy
    return enough_data and has_enough_votes(config, visible, had_quorum=had_quorum)
