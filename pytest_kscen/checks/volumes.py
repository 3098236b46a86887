"""Each volume's story: how often each condition changed while it was checked, and what that says of the storage.

An even count means that the volume came back each time it was shaken, an odd one that it did not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.checks.verdict import INVALID, UNKNOWN, VALID, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_kscen.checks.incidents import IncidentRecord
    from pytest_kscen.journal import Entry

STABLE, RECOVERED, BROKEN, INTERRUPTED = "stable", "recovered", "broken", "interrupted"
GRACE = 120.0  # seconds after an incident during which what it shook may still be shaking


@dataclass(slots=True)
class Stuck:
    """A deletion that took too long by then."""

    at: float
    waited: float
    why: str
    excused: bool = False


@dataclass(slots=True)
class VolumeRecord:
    """One volume; times are seconds since the run began."""

    name: str
    storage_class: str
    transitions: dict[str, int] = field(default_factory=dict)
    ready_at: float | None = None
    stopped_at: float | None = None
    crash: str = ""
    nodes: list[str] = field(default_factory=list)
    stuck: list[Stuck] = field(default_factory=list)
    """How it could not be deleted."""
    verdict: str = STABLE

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "storage_class": self.storage_class,
            "transitions": self.transitions,
            "ready_at": self.ready_at,
            "stopped_at": self.stopped_at,
            "stuck": [asdict(one) for one in self.stuck],
            "verdict": self.verdict,
        }


def volumes(journal: Iterable[Entry], shaken: Sequence[IncidentRecord]) -> list[VolumeRecord]:
    found: dict[str, VolumeRecord] = {}
    frozen: float | None = None
    conditions: list[str] = []
    for entry in journal:
        if entry.what == "run-started":
            conditions = entry.data.get("conditions", [])
        elif entry.what == "volume":
            name = entry.data["volume"]
            found[name] = VolumeRecord(name, entry.data["storage_class"], dict.fromkeys(conditions, 0))
        elif entry.what == "frozen":
            frozen = entry.at
        elif entry.what in _READ:
            _READ[entry.what](found[entry.data["volume"]], entry)
    for volume in found.values():
        volume.stopped_at = frozen if volume.stopped_at is None else volume.stopped_at
        volume.verdict = _verdict(volume, shaken)
        for stuck in volume.stuck:
            stuck.excused = _excused(volume, stuck.at, shaken)
    return list(found.values())


def _checked(volume: VolumeRecord, entry: Entry) -> None:
    volume.ready_at = entry.at
    volume.transitions = dict.fromkeys(entry.data["conditions"], 0)


def _became_ready(volume: VolumeRecord, entry: Entry) -> None:
    """It may be so late that nobody checks it any more."""
    volume.ready_at = entry.at


def _changed(volume: VolumeRecord, entry: Entry) -> None:
    volume.transitions[entry.data["condition"]] += 1


def _stopped(volume: VolumeRecord, entry: Entry) -> None:
    volume.stopped_at = entry.at


def _placed(volume: VolumeRecord, entry: Entry) -> None:
    volume.nodes = list(dict.fromkeys([*volume.nodes, *entry.data["nodes"]]))


def _never_gone(volume: VolumeRecord, entry: Entry) -> None:
    volume.stuck.append(Stuck(entry.at, entry.data["waited"], entry.data["why"]))


def _crashed(volume: VolumeRecord, entry: Entry) -> None:
    volume.crash = entry.data["error"]


_READ: dict[str, Callable[[VolumeRecord, Entry], None]] = {
    "volume-placed": _placed,
    "ready": _became_ready,
    "checker-started": _checked,
    "condition-changed": _changed,
    "checker-stopped": _stopped,
    "check-crashed": _crashed,
    "never-ready": _stopped,
    "never-gone": _never_gone,
}


def judge(seen: Sequence[VolumeRecord]) -> Iterator[Finding]:
    broken = [volume.name for volume in seen if volume.verdict == BROKEN]
    why = f"{len(broken)} of {len(seen)} volumes did not keep the state they promise: {', '.join(broken)}"
    yield Finding("volumes", INVALID, why) if broken else Finding("volumes", VALID)
    yield from _deletions(seen)
    for volume in seen:
        if volume.crash:
            yield Finding(f"volume-checker:{volume.name}", UNKNOWN, f"the checker crashed: {volume.crash}")


def _deletions(seen: Sequence[VolumeRecord]) -> Iterator[Finding]:
    """One that took long is told even if it is excused."""
    stuck = {volume.name: volume.stuck[-1] for volume in seen if volume.stuck}
    blamed = {volume.name: one for volume in seen for one in volume.stuck if not one.excused}
    if blamed:
        yield Finding("deletion", INVALID, _not_gone(blamed))
    elif stuck:
        yield Finding("deletion", VALID, f"{_not_gone(stuck)}; incidents on their nodes excuse it")


def _not_gone(stuck: dict[str, Stuck]) -> str:
    return "; ".join(f"{name} was not gone {one.waited:g} s after its deletion began: {one.why}" for name, one in stuck.items())


def _verdict(volume: VolumeRecord, shaken: Sequence[IncidentRecord]) -> str:
    odd = any(count % 2 for count in volume.transitions.values())
    if volume.ready_at is None or odd:
        return INTERRUPTED if _excused(volume, volume.stopped_at, shaken) else BROKEN
    return RECOVERED if any(volume.transitions.values()) else STABLE


def _excused(volume: VolumeRecord, at: float | None, shaken: Sequence[IncidentRecord]) -> bool:
    """Whether an incident that may have touched it was on, or just over, when the volume was looked at."""
    if at is None:
        return False
    return any(
        not one.lasting
        and _touches(one, volume)
        and one.started_at <= at
        and (one.removed_at is None or at - one.removed_at < GRACE)
        for one in shaken
    )


def _touches(incident: IncidentRecord, volume: VolumeRecord) -> bool:
    """On one of its nodes; a volume of which nobody has said where it lives may have been touched by anything."""
    return not volume.nodes or not set(volume.nodes).isdisjoint(incident.targets.get("nodes", ()))
