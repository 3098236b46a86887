"""Who may become Primary. All that hear of each other are asked, and all have to answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.drbd.words import Disk, Role

if TYPE_CHECKING:
    from pytest_kscen.simulation.storage.drbd.replicas import Replica
    from pytest_kscen.simulation.storage.drbd.volume import Volume


def refusal(volume: Volume, replica: Replica) -> str:
    """Why it may not, or nothing."""
    if not replica.quorum:
        return "no quorum"
    partition = volume.mesh.reached(replica)
    if not any(one.disk is Disk.UP_TO_DATE for one in (replica, *volume.mesh.peers(replica))):
        return "no UpToDate data here or with a connected peer"
    for other in partition:
        if other is not replica and other.role is Role.PRIMARY and not _both_may(replica, other):
            return f"{other.node} is Primary, and two primaries are not allowed"
    for other in partition:
        for peer, link in volume.mesh.links_from(other.node).items():
            if link.silent:
                return f"{peer} does not answer {other.node}"
    return ""


def _both_may(one: Replica, other: Replica) -> bool:
    return bool(one.config and one.config.two_primaries and other.config and other.config.two_primaries)
