"""May this replica go on? Pure: what it sees, and what it was told, decide. Either rule has a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.simulation.storage.drbd.words import QuorumRule

if TYPE_CHECKING:
    from pytest_kscen.simulation.storage.drbd.words import Config

VOTES = QuorumRule.VOTES  # an enumeration takes its time to find it


class Sight(NamedTuple):
    """Whom a replica sees. It sees itself."""

    up_to_date: int
    """Disks that are UpToDate."""
    present: int
    """Disks that are not."""
    diskless: int
    """Replicas without disks."""
    quorate: int
    """Peers that are UpToDate and have quorum themselves."""


def has_votes(config: Config, sight: Sight, *, had_quorum: bool) -> bool:
    """Whether it meets enough others that nobody can have written without one of them."""
    if config.quorum == 0:
        return True
    if config.quorum_rule is VOTES:
        return sight.up_to_date + sight.present + sight.diskless >= config.quorum
    if not config.diskful:
        return sight.quorate >= config.quorum_minimum_redundancy
    return sight.up_to_date + sight.present >= config.quorum or (had_quorum and _tie_is_broken(config, sight))


def goes_by_quorum(config: Config) -> bool:
    """Whether it matters for a replica's votes who had quorum before, itself or another."""
    return config.quorum_rule is not VOTES


def has_quorum(config: Config, sight: Sight, *, had_quorum: bool) -> bool:
    if config.quorum == 0:
        return True
    enough_data = sight.up_to_date >= config.quorum_minimum_redundancy
    return enough_data and has_votes(config, sight, had_quorum=had_quorum)


def _tie_is_broken(config: Config, sight: Sight) -> bool:
    halved = config.disks % 2 == 0 and sight.up_to_date + sight.present == config.quorum - 1
    return halved and 2 * sight.diskless > 1 + len(config.peers) - config.disks
