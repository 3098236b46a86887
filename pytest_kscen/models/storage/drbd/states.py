"""What is said to the kernels and what they answer: configurations, states by DRBD's own names,
and refusals.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple


class DrbdRefused(Exception):
    """The kernel said no, and why."""


class Role(StrEnum):
    PRIMARY = "Primary"
    SECONDARY = "Secondary"
    UNKNOWN = "Unknown"


class DiskState(StrEnum):
    DISKLESS = "Diskless"
    INCONSISTENT = "Inconsistent"
    """Has no whole data, or is being written over by a resync."""
    OUTDATED = "Outdated"
    """Whole, but others have written since."""
    CONSISTENT = "Consistent"
    """Whole, and not yet sure whether others have written since."""
    UP_TO_DATE = "UpToDate"
    UNKNOWN = "DUnknown"


class ConnectionState(StrEnum):
    """Of a connection."""

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
    """Every replica has a vote, with a disk or without."""
    TIE_BREAK = "tie-break"
    """Those with disks vote; the others decide when the voters are halved."""


class PeerConfig(NamedTuple):
    """Another replica of the same resource."""

    node_id: int
    port: int
    diskful: bool


@dataclass(slots=True)
class ResourceConfig:
    """What a node's agent asks of its kernel for one resource.

    Nobody changes one; it is not frozen, for many are made.
    """

    node_id: int
    port: int
    diskful: bool
    size: int
    """Bytes."""
    quorum: int = 0
    """0: none is asked for."""
    quorum_minimum_redundancy: int = 1
    two_primaries: bool = False
    peers: dict[str, PeerConfig] = field(default_factory=dict)
    """By the names of their nodes."""
    quorum_rule: QuorumRule = QuorumRule.VOTES
    disks: int = field(init=False, compare=False)
    """How many replicas have one, this one among them."""

    def __post_init__(self) -> None:
        self.disks = [self.diskful, *[peer.diskful for peer in self.peers.values()]].count(True)

    def is_agreed_with(self, other: ResourceConfig) -> bool:
        """Whether replicas agree on the same by either: who else may be Primary is asked when
        somebody is to become it.
        """
        return _agreement_key(self) == _agreement_key(other)


_agreement_key = attrgetter(
    *(one.name for one in fields(ResourceConfig) if one.compare and one.name != "two_primaries")
)


class PeerConnection(NamedTuple):
    """One node's view of its connection to a peer."""

    state: ConnectionState
    peer_role: Role = Role.UNKNOWN
    peer_disk: DiskState = DiskState.UNKNOWN
    replication: ReplicationState = ReplicationState.OFF
    percent_in_sync: float = 100.0
    out_of_sync: int = 0
    """Bytes."""


class ResourceStatus(NamedTuple):
    """One node's view of a resource."""

    role: Role
    disk_state: DiskState
    size: int
    quorum: bool
    suspended: bool
    """I/O freezes: no quorum, or no data that is up to date."""
    connections: dict[str, PeerConnection]
    """By the names of the peers' nodes."""


# May this replica go on? Pure: what it sees, and what it was told, decide. Either rule has a
# function.


VOTES = QuorumRule.VOTES  # an enumeration takes its time to find it


class VisibleReplicas(NamedTuple):
    """Whom a replica sees. It sees itself."""

    up_to_date: int
    """Disks that are UpToDate."""
    present: int
    """Disks that are not."""
    diskless: int
    """Replicas without disks."""
    quorate: int
    """Peers that are UpToDate and have quorum themselves."""


def has_enough_votes(config: ResourceConfig, sight: VisibleReplicas, *, had_quorum: bool) -> bool:
    """Whether it meets enough others that nobody can have written without one of them."""
    if config.quorum == 0:
        return True
    if config.quorum_rule is VOTES:
        return sight.up_to_date + sight.present + sight.diskless >= config.quorum
    if not config.diskful:
        return sight.quorate >= config.quorum_minimum_redundancy
    return sight.up_to_date + sight.present >= config.quorum or (
        had_quorum and _tie_is_broken(config, sight)
    )


def depends_on_previous_quorum(config: ResourceConfig) -> bool:
    """Whether it matters for a replica's votes who had quorum before, itself or another."""
    return config.quorum_rule is not VOTES


def has_quorum(config: ResourceConfig, sight: VisibleReplicas, *, had_quorum: bool) -> bool:
    if config.quorum == 0:
        return True
    enough_data = sight.up_to_date >= config.quorum_minimum_redundancy
    return enough_data and has_enough_votes(config, sight, had_quorum=had_quorum)


def _tie_is_broken(config: ResourceConfig, sight: VisibleReplicas) -> bool:
    halved = config.disks % 2 == 0 and sight.up_to_date + sight.present == config.quorum - 1
    return halved and 2 * sight.diskless > 1 + len(config.peers) - config.disks
