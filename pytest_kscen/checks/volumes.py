"""Each volume's story: how often each condition changed while it was checked, and what that says of the storage.

An even count means that the volume came back each time it was shaken, an odd one that it did not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.checks.verdict import INVALID, VALID, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.checks.incidents import IncidentRecord
    from pytest_kscen.journal import Entry

STABLE, RECOVERED, BROKEN, INTERRUPTED = "stable", "recovered", "broken", "interrupted"
GRACE = 120.0  # seconds after an incident during which what it shook may still be shaking


@dataclass(slots=True)
class VolumeRecord:
    """One volume; times are seconds since the run began."""

    name: str
    storage_class: str
    transitions: dict[str, int] = field(default_factory=dict)
    ready_at: float | None = None
    stopped_at: float | None = None
    never_ready: bool = False
    verdict: str = STABLE

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "storage_class": self.storage_class,
            "transitions": self.transitions,
            "ready_at": self.ready_at,
            "stopped_at": self.stopped_at,
            "verdict": self.verdict,
        }


def volumes(journal: Iterable[Entry], shaken: Sequence[IncidentRecord]) -> list[VolumeRecord]:
    found: dict[str, VolumeRecord] = {}
    for entry in journal:
        data = entry.data
        match entry.what:
            case "volume":
                found[data["volume"]] = VolumeRecord(data["volume"], data["storage_class"])
            case "checker-started":
                found[data["volume"]].ready_at = entry.at
                found[data["volume"]].transitions = dict.fromkeys(data["conditions"], 0)
            case "condition-changed":
                found[data["volume"]].transitions[data["condition"]] += 1
            case "checker-stopped":
                found[data["volume"]].stopped_at = entry.at
            case "never-ready":
                found[data["volume"]].never_ready = True
                found[data["volume"]].stopped_at = entry.at
    for volume in found.values():
        volume.verdict = _verdict(volume, shaken)
    return list(found.values())


def judge(seen: Sequence[VolumeRecord]) -> Iterator[Finding]:
    broken = [volume.name for volume in seen if volume.verdict == BROKEN]
    why = f"{len(broken)} of {len(seen)} volumes did not keep the state they promise: {', '.join(broken)}"
    yield Finding("volumes", INVALID, why) if broken else Finding("volumes", VALID)


def _verdict(volume: VolumeRecord, shaken: Sequence[IncidentRecord]) -> str:
    odd = any(count % 2 for count in volume.transitions.values())
    if volume.never_ready or odd:
        return INTERRUPTED if _excused(volume, shaken) else BROKEN
    return RECOVERED if any(volume.transitions.values()) else STABLE


def _excused(volume: VolumeRecord, shaken: Sequence[IncidentRecord]) -> bool:
    """Whether an incident was on, or over for less than the grace, when the volume was last looked at."""
    at = volume.stopped_at
    if at is None:
        return False
    return any(one.started_at <= at and (one.removed_at is None or at - one.removed_at < GRACE) for one in shaken)
