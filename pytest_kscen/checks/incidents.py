"""The incidents that a journal tells of, and whether each declared profile has had any that did something."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kscen.checks.sharing import shared
from pytest_kscen.checks.verdict import UNKNOWN, VALID, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kscen.journal import Entry


@dataclass(slots=True)
class IncidentRecord:
    """One incident; times are seconds since the run began."""

    id: str
    profile: str
    variant: str
    targets: dict[str, list[str]]
    started_at: float
    removed_at: float | None = None
    recovered_at: float | None = None
    effects: list[str] = field(default_factory=list)
    lasting: bool = False
    """Whether it was stated by hand and left on until the run was judged."""
    failed: str = ""
    """Why it could not be caused as it should."""
    not_undone: str = ""
    """Why nobody knows that it is undone."""
    unrecovered: list[str] = field(default_factory=list)
    """What was still as the incident had left it when nobody waited any longer."""
    perhaps: list[str] = field(default_factory=list)
    """What it may have done as well: nothing proves it."""
    overtaken: list[str] = field(default_factory=list)
    """Those that came over what it had shaken before that was well again: how long it would have taken nobody can tell."""
    gone: list[str] = field(default_factory=list)
    """What it had shaken, or perhaps, and went before it was well again: nobody saw it recover."""
    mingled: list[str] = field(default_factory=list)
    """Those whose traces it was left with, so that nobody can tell how long its own took."""
    spared: list[str] = field(default_factory=list)
    """Nodes among its targets to which nothing was done, because it was refused there, or came too late."""
    settled_at: float | None = None
    """When nothing of it was in trouble any more, as it was told: whatever came later is not its doing."""
    felt_by: tuple[str, ...] = ()
    """The volumes of which something was its effect."""
    perhaps_felt_by: tuple[str, ...] = ()

    @property
    def lasted(self) -> float | None:
        return None if self.removed_at is None else round(self.removed_at - self.started_at, 6)

    @property
    def recovery(self) -> float | None:
        """Seconds from its end until what it had touched was as before."""
        if self.recovered_at is None or self.removed_at is None:
            return None
        return max(0.0, round(self.recovered_at - self.removed_at, 6))

    @property
    def had_effect(self) -> bool:
        return bool(self.effects)

    @property
    def shaken(self) -> list[str]:
        """The nodes to which something was done."""
        return [node for node in self.targets.get("nodes", ()) if node not in self.spared]

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "profile": self.profile,
            "variant": self.variant,
            "targets": self.targets,
            "started_at": self.started_at,
            "removed_at": None if self.removed_at is None else round(self.removed_at, 6),
            "lasted": self.lasted,
            "recovered_at": self.recovered_at,
            "recovery": self.recovery,
            "had_effect": self.had_effect,
            "effects": self.effects,
            "lasting": self.lasting,
            "failed": self.failed,
            "not_undone": self.not_undone,
            "unrecovered": self.unrecovered,
            "perhaps": self.perhaps,
            "overtaken": self.overtaken,
            "gone": self.gone,
            "mingled": self.mingled,
            "spared": self.spared,
        }


def learn(found: dict[str, IncidentRecord], entry: Entry) -> None:
    """What the next entry says of any of them, by their ids."""
    if entry.what == "incident-started":
        data = entry.data
        targets = {shared(kind): [*map(shared, names)] for kind, names in data["targets"].items()}
        found[data["incident"]] = IncidentRecord(
            data["incident"], shared(data["profile"]), shared(data["variant"]), targets, entry.at
        )
    elif entry.what in _READ:
        _READ[entry.what](found[entry.data["incident"]], entry)


def _had_effect(incident: IncidentRecord, entry: Entry) -> None:
    """It may have been told as perhaps so, before it was proved."""
    effect = shared(entry.data["effect"])
    incident.effects.append(effect)
    incident.perhaps = [one for one in incident.perhaps if one != effect]
    incident.felt_by = _with_volume(incident.felt_by, entry)


def _with_volume(known: tuple[str, ...], entry: Entry) -> tuple[str, ...]:
    """And the one that the entry names, if any."""
    volume = entry.data.get("volume")
    return known if volume is None or volume in known else (*known, shared(volume))


def _ended(incident: IncidentRecord, entry: Entry) -> None:
    """So late that it has lasted no less than it did: the difference of two decimals may fall short of it."""
    incident.removed_at, lasted = entry.at, round(entry.at - incident.started_at, 6)
    while incident.removed_at - incident.started_at < lasted:
        incident.removed_at = math.nextafter(incident.removed_at, math.inf)


def _recovered(incident: IncidentRecord, entry: Entry) -> None:
    """It is told a little later: when it has stayed so."""
    incident.recovered_at = round((incident.removed_at or 0.0) + entry.data["took"], 6)
    incident.settled_at = entry.at


def _failed(incident: IncidentRecord, entry: Entry) -> None:
    incident.failed = entry.data["error"]


def _not_undone(incident: IncidentRecord, entry: Entry) -> None:
    incident.not_undone = entry.data["error"]


def _unrecovered(incident: IncidentRecord, entry: Entry) -> None:
    incident.unrecovered = entry.data["left"]


def _perhaps(incident: IncidentRecord, entry: Entry) -> None:
    incident.perhaps.append(shared(entry.data["effect"]))
    incident.perhaps_felt_by = _with_volume(incident.perhaps_felt_by, entry)


def _overtaken(incident: IncidentRecord, entry: Entry) -> None:
    incident.overtaken = [*map(shared, entry.data["by"])]


def _gone(incident: IncidentRecord, entry: Entry) -> None:
    incident.gone = entry.data["left"]
    incident.settled_at = entry.at


def _mingled(incident: IncidentRecord, entry: Entry) -> None:
    incident.mingled = [*map(shared, entry.data["others"])]
    incident.settled_at = entry.at


def _spared(incident: IncidentRecord, entry: Entry) -> None:
    """One that did nothing at all has not perhaps done something either."""
    incident.spared = entry.data["nodes"]
    if not incident.shaken:
        incident.perhaps.clear()


def _lasts(incident: IncidentRecord, _: Entry) -> None:
    incident.lasting = True


_READ: dict[str, Callable[[IncidentRecord, Entry], None]] = {
    "incident-effect": _had_effect,
    "incident-failed": _failed,
    "incident-ended": _ended,
    "incident-not-undone": _not_undone,
    "incident-recovered": _recovered,
    "incident-unrecovered": _unrecovered,
    "incident-perhaps": _perhaps,
    "incident-overtaken": _overtaken,
    "incident-gone": _gone,
    "incident-mingled": _mingled,
    "incident-spared": _spared,
    "incident-lasting": _lasts,
}


NOTICED_BY_VOLUMES = ("network-block", "network-degrade")
"""What is done to the network alone shows in what is replicated over it."""


def judge(declared: Sequence[str], seen: Sequence[IncidentRecord], *, has_volumes: bool = True) -> Iterator[Finding]:
    """A profile that did nothing proves nothing; a fault that may still be on proves too much.

    `has_volumes` is whether the run had any.
    """
    for profile in dict.fromkeys(declared):
        own = [incident for incident in seen if incident.profile == profile]
        if any(incident.had_effect for incident in own):
            yield Finding(f"chaos:{profile}", VALID)
        else:
            yield Finding(f"chaos:{profile}", UNKNOWN, _without_effect(profile, own, has_volumes=has_volumes))
    if stuck := [f"{incident.id}: {incident.not_undone}" for incident in seen if incident.not_undone]:
        yield Finding("chaos", UNKNOWN, f"nobody knows whether these faults are undone: {'; '.join(stuck)}")


def _without_effect(profile: str, own: Sequence[IncidentRecord], *, has_volumes: bool) -> str:
    failed = [incident for incident in own if incident.failed]
    said = f"none of the {len(own)} incidents of {profile} had an effect"
    if failed:
        return f"{said}, and {len(failed)} could not be caused: {failed[0].failed}"
    if not has_volumes and profile in NOTICED_BY_VOLUMES:
        return f"{said}, since there was no volume to notice one: declare volume_churn, or make volumes in the test"
    return f"{said}: run longer"
