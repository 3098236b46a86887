"""When incidents excuse a volume: one that touched it was on, or just over, from its last change until it was looked at.

Whoever was left in peace in between is not excused by what came later. What is asked of it needs time, so there it counts how
much peace there was in all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.checks.incidents import IncidentRecord
    from pytest_kscen.checks.volumes import VolumeRecord

GRACE = 120.0  # seconds after an incident during which what it shook may still be shaking
CATCHING_UP = 30.0  # seconds after one that has cut none of its links, or after a replica was replaced, for what waited for it
BETWEEN = ("network-block", "network-degrade")  # the profiles of what is done to a network between two machines


def excused(volume: VolumeRecord, since: float, at: float, shaken: Sequence[IncidentRecord]) -> bool:
    """Whether there was no peace for it from one moment to the other, the first included."""
    reached = since
    for began, over in sorted(_unrest(volume, since, at, shaken)):
        if began <= reached:
            reached = max(reached, over)
    return reached > at


def peace(volume: VolumeRecord, since: float, at: float, shaken: Sequence[IncidentRecord]) -> float:
    """The seconds between in which nothing excuses it."""
    reached, seconds = since, 0.0
    for began, over in sorted(_unrest(volume, since, at, shaken)):
        seconds += max(0.0, min(began, at) - reached)
        reached = max(reached, over)
    return seconds + max(0.0, at - reached)


def _unrest(volume: VolumeRecord, since: float, at: float, shaken: Sequence[IncidentRecord]) -> Iterator[tuple[float, float]]:
    """A fault that is a lasting state excuses nothing, nor does one that never came to be; one that nobody undid may have.

    So does what we have done to the volume ourselves.
    """
    yield from ((began, over) for began, over in volume.taken if began <= at and over > since)
    for incident in shaken:
        came_to_be = incident.effects or incident.perhaps or incident.not_undone or not incident.failed
        if incident.lasting or not came_to_be:
            continue
        latest = math.inf if incident.removed_at is None else incident.removed_at + GRACE
        if incident.started_at > at or latest <= since:
            continue
        nodes = volume.nodes_between(incident.started_at, latest)
        if not nodes.isdisjoint(incident.shaken):
            yield incident.started_at, _over(incident, volume, nodes, since)


def _over(incident: IncidentRecord, volume: VolumeRecord, nodes: set[str], since: float) -> float:
    """Until when it may be why a volume on these nodes has not been well since then.

    What was cut may come back late, and a link that was to be made meanwhile later still. Destroyed pods
    cut none: others are in their place. Whoever stands on one side of a cut alone has lost no link by it.
    """
    if incident.removed_at is None:
        return math.inf
    late, soon = incident.removed_at + GRACE, incident.removed_at + CATCHING_UP
    if volume.name in incident.perhaps_felt_by:
        return late
    if "pods" in incident.targets and since > incident.removed_at and incident.settled_at is not None:
        return min(late, incident.settled_at)
    if volume.name in incident.felt_by:
        return late
    cuts_none = "pods" in incident.targets or any(nodes.isdisjoint(side) for side in _sides(incident))
    return soon if cuts_none else late


def _sides(incident: IncidentRecord) -> list[list[str]]:
    """Of a network between machines there are two."""
    targets = incident.targets
    if "group_a" in targets:
        return [targets["group_a"], targets["group_b"]]
    return [[node] for node in targets["nodes"]] if incident.profile in BETWEEN else [targets["nodes"]]
