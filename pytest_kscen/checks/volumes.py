"""Each volume's story: how often each condition changed while it was checked, and what that says of the storage.

An even count means that the volume came back each time it was shaken, an odd one that it did not. One that is gone without
our doing is broken whatever it counted, and one that nobody checked to the end is unknown.
"""

from __future__ import annotations

import math
import sys
from array import array
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_kscen.checks.excuses import excused
from pytest_kscen.checks.tally import ATTACH, ATTACH_AT_FIRST, DELETE
from pytest_kscen.checks.verdict import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kscen.checks.incidents import IncidentRecord
    from pytest_kscen.journal import Entry

STABLE, RECOVERED, BROKEN, INTERRUPTED = "stable", "recovered", "broken", "interrupted"
FROZEN, LIVENESS = _ENDS = "frozen", "liveness"


@dataclass(slots=True)
class Stuck:
    """A deletion that took too long by then."""

    at: float
    waited: float
    why: str
    excused: bool = False


@dataclass(slots=True)
class Unattached:
    """An attachment that was asked for, and failed."""

    at: float
    why: str
    refused: bool
    """By the API, so that the storage never heard of it."""
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
    placed_at: array[float] = field(default_factory=lambda: array("d"))
    placed_on: list[tuple[str, ...]] = field(default_factory=list)
    """Which nodes had its replicas, and since when each time. A long run has many volumes."""
    changed_at: dict[str, float] = field(default_factory=dict)
    """When each condition last changed."""
    waited_for: bool = False
    """Whether it had the time to become ready."""
    deleting: bool = False
    lost_at: float | None = None
    """When it went, or began to go, without our doing."""
    stuck: list[Stuck] = field(default_factory=list)
    """How it could not be deleted."""
    attached: int = 0
    unattached: list[Unattached] = field(default_factory=list)
    verdict: str = STABLE

    @property
    def nodes(self) -> list[str]:
        """All that ever held a replica."""
        return list(dict.fromkeys(node for nodes in self.placed_on for node in nodes))

    def nodes_between(self, begin: float, end: float) -> set[str]:
        """Those that held a replica at any time between."""
        stays = zip(self.placed_at, [*self.placed_at[1:], math.inf], self.placed_on, strict=False)
        return {node for came, went, nodes in stays if came <= end and went > begin for node in nodes}

    @property
    def unjudged(self) -> str:
        """Why nobody can tell how it was; empty if somebody can."""
        if self.crash:
            return f"the checker crashed: {self.crash}"
        if self.ready_at is None and not self.waited_for:
            return "it was not ready, and nobody waited for it"
        return "" if self.stopped_at is not None else "it was not checked to the end"

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "storage_class": self.storage_class,
            "transitions": self.transitions,
            "ready_at": self.ready_at,
            "stopped_at": self.stopped_at,
            "lost_at": self.lost_at,
            "stuck": [asdict(one) for one in self.stuck],
            "verdict": self.verdict,
        }


def volumes(journal: Iterable[Entry], conditions: Sequence[str], shaken: Sequence[IncidentRecord]) -> list[VolumeRecord]:
    """In the order of their creation. One may have the name of one that is gone: what is told is told of the latest."""
    found: list[VolumeRecord] = []
    latest: dict[str, VolumeRecord] = {}
    ends: dict[str, float] = {}
    for entry in journal:
        if entry.what == "volume":
            name = entry.data["volume"]
            latest[name] = VolumeRecord(name, sys.intern(entry.data["storage_class"]), dict.fromkeys(conditions, 0))
            found.append(latest[name])
        elif entry.what in _ENDS:
            ends[entry.what] = entry.at
        elif entry.what in _READ:
            _READ[entry.what](latest[entry.data["volume"]], entry)
        elif entry.what in _DEEDS and (deed := _DEEDS[entry.what].get(entry.data["action"])):
            deed(latest[entry.data["volume"]], entry)
    for volume in found:
        volume.stopped_at = ends.get(FROZEN) if volume.stopped_at is None else volume.stopped_at
        volume.waited_for |= LIVENESS in ends
        _judge(volume, shaken)
    return found


def _checked(volume: VolumeRecord, entry: Entry) -> None:
    volume.ready_at = entry.at
    volume.transitions = dict.fromkeys(map(sys.intern, entry.data["conditions"]), 0)


def _became_ready(volume: VolumeRecord, entry: Entry) -> None:
    """It may be so late that nobody checks it any more."""
    volume.ready_at = entry.at


def _changed(volume: VolumeRecord, entry: Entry) -> None:
    condition = sys.intern(entry.data["condition"])
    volume.transitions[condition] += 1
    volume.changed_at[condition] = entry.at


def _stopped(volume: VolumeRecord, entry: Entry) -> None:
    volume.stopped_at = entry.at


def _never_ready(volume: VolumeRecord, entry: Entry) -> None:
    volume.waited_for, volume.stopped_at = True, entry.at


def _placed(volume: VolumeRecord, entry: Entry) -> None:
    volume.placed_at.append(entry.at)
    volume.placed_on.append(_seats(*map(sys.intern, entry.data["nodes"])))  # few names, told of many volumes


@lru_cache(maxsize=1024)
def _seats(*nodes: str) -> tuple[str, ...]:
    """The same ones for all who are there."""
    return nodes


def _went(volume: VolumeRecord, entry: Entry) -> None:
    if not volume.deleting:
        volume.lost_at = entry.at


def _never_gone(volume: VolumeRecord, entry: Entry) -> None:
    volume.stuck.append(Stuck(entry.at, entry.data["waited"], entry.data["why"]))


def _crashed(volume: VolumeRecord, entry: Entry) -> None:
    volume.crash = entry.data["error"]


def _deletes(volume: VolumeRecord, _: Entry) -> None:
    volume.deleting = True


def _attached(volume: VolumeRecord, entry: Entry) -> None:
    if entry.data["result"] == "done":
        volume.attached += 1
    else:
        _requested(volume, entry)


def _requested(volume: VolumeRecord, entry: Entry) -> None:
    result, _, why = entry.data["result"].partition(": ")
    if result == "failed":
        volume.unattached.append(Unattached(entry.at, why, not why.startswith("TimeoutError")))


_Reading = dict[str, "Callable[[VolumeRecord, Entry], None]"]
_READ: _Reading = {
    "volume-placed": _placed,
    "volume-went": _went,
    "ready": _became_ready,
    "checker-started": _checked,
    "condition-changed": _changed,
    "checker-stopped": _stopped,
    "check-crashed": _crashed,
    "never-ready": _never_ready,
    "never-gone": _never_gone,
}
_DEEDS: dict[str, _Reading] = {
    "began": {DELETE: _deletes},
    "ended": {ATTACH: _attached, ATTACH_AT_FIRST: _requested},
}


def _judge(volume: VolumeRecord, shaken: Sequence[IncidentRecord]) -> None:
    volume.verdict = _verdict(volume, shaken)
    failed: list[Stuck | Unattached] = [*volume.stuck, *volume.unattached]
    for one in failed:
        one.excused = excused(volume, one.at, one.at, shaken)


def _verdict(volume: VolumeRecord, shaken: Sequence[IncidentRecord]) -> str:
    if volume.lost_at is not None:
        return BROKEN
    if volume.unjudged or volume.stopped_at is None:
        return UNKNOWN
    odd = [volume.changed_at[condition] for condition, count in volume.transitions.items() if count % 2]
    if doubtful := odd if volume.ready_at is not None else [volume.stopped_at]:
        told = all(excused(volume, since, volume.stopped_at, shaken) for since in doubtful)
        return INTERRUPTED if told else BROKEN
    return RECOVERED if any(volume.transitions.values()) else STABLE
