"""When incidents excuse a volume: one that touched it was on, or just over, from its last change until it was looked at.

Whoever was left in peace in between is not excused by what came later.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kscen.checks.incidents import IncidentRecord
    from pytest_kscen.checks.volumes import VolumeRecord

GRACE = 120.0  # seconds after an incident during which what it shook may still be shaking


def excused(volume: VolumeRecord, since: float, at: float, shaken: Sequence[IncidentRecord]) -> bool:
    """Whether there was no peace for it from one moment to the other, the first included."""
    reached = since
    for began, over in sorted(_unrest(volume, since, at, shaken)):
        if began <= reached:
            reached = max(reached, over)
    return reached > at


def _unrest(volume: VolumeRecord, since: float, at: float, shaken: Sequence[IncidentRecord]) -> Iterator[tuple[float, float]]:
    """A fault that is a lasting state excuses nothing, nor does one that never came to be."""
    for incident in shaken:
        over = math.inf if incident.removed_at is None else incident.removed_at + GRACE
        if over <= since or incident.started_at > at:
            continue
        came_to_be = incident.effects or incident.perhaps or not incident.failed
        nodes = volume.nodes_between(incident.started_at, over)
        if came_to_be and not incident.lasting and not nodes.isdisjoint(incident.targets.get("nodes", ())):
            yield incident.started_at, over
