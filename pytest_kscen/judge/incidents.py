"""Incidents of a journal: the effects of each profile, and the tolerance windows of volumes.

`outcome` fills the records entry by entry and judges the profiles; `volumes` uses the windows, of
incidents and of deleted replicas. Must not read anything but entries of the journal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_kscen.judge import entries
from pytest_kscen.judge.entries import shared, shared_names
from pytest_kscen.judge.verdict import UNKNOWN, VALID, Finding
from pytest_kscen.objects.arguments import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kscen.journal import Entry
    from pytest_kscen.judge.entries import Reader
    from pytest_kscen.judge.volumes import VolumeRecord


@dataclass(slots=True)
class IncidentRecord:
    """Incident of one profile, filled from the journal entry by entry.

    Times are seconds since the run began. A field without an entry keeps its default, so the
    record of a killed run is usable.
    """

    id: str
    profile: str
    variant: str
    targets: dict[str, list[str]]
    started_at: float
    removed_at: float | None = None
    recovered_at: float | None = None
    effects: list[str] = field(default_factory=list)
    lasting: bool = False
    """True if a test caused it and left it active until the run was judged."""
    failed: str = ""
    """Error of an incomplete injection; empty if it was complete."""
    not_undone: str = ""
    """Error of the last attempt to undo it; empty if it is undone."""
    unrecovered: list[str] = field(default_factory=list)
    """Troubles that remained at the end of the recovery time."""
    possible_effects: list[str] = field(default_factory=list)
    """Effects that it may have had, without proof."""
    overtaken: list[str] = field(default_factory=list)
    """Incidents that affected the same objects before they recovered: there is no recovery time."""
    deleted_before_recovery: list[str] = field(default_factory=list)
    """Affected objects that were deleted before they recovered."""
    overlapping: list[str] = field(default_factory=list)
    """Incidents with effects that cannot be distinguished from its own: there is no recovery time.
    """
    refused_nodes: list[str] = field(default_factory=list)
    """Target nodes without a fault, because the request was refused or came too late."""
    settled_at: float | None = None
    """Seconds at which its last trouble ended; None while unknown."""
    affected_volumes: tuple[str, ...] = ()
    """Volumes on which it had an effect."""
    possibly_affected_volumes: tuple[str, ...] = ()
    sides: tuple[tuple[str, ...], ...] = ()
    """Nodes on the two sides of a cut; one side with all nodes if it cuts nothing."""
    powers_off: bool = False
    """True if its machines are off until it ends."""

    @property
    def lasted(self) -> float | None:
        return None if self.removed_at is None else round(self.removed_at - self.started_at, 6)

    @property
    def recovery(self) -> float | None:
        """Return the seconds from its end until its objects recovered.

        None if it has no end or no recovery; 0 if the objects recovered while it was active.
        """
        if self.recovered_at is None or self.removed_at is None:
            return None
        return max(0.0, round(self.recovered_at - self.removed_at, 6))

    @property
    def had_effect(self) -> bool:
        return bool(self.effects)

    @property
    def affected_nodes(self) -> list[str]:
        return [node for node in self.targets.get("nodes", ()) if node not in self.refused_nodes]

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
            "possible_effects": self.possible_effects,
            "overtaken": self.overtaken,
            "deleted_before_recovery": self.deleted_before_recovery,
            "overlapping": self.overlapping,
            "refused_nodes": self.refused_nodes,
        }


def update_incidents(found: dict[str, IncidentRecord], entry: Entry) -> None:
    """Update the incident of the journal's next entry, by the incident's id.

    Entries of other kinds are ignored. Raise KeyError if no earlier entry has started the
    incident.
    """
    if entry.what == "incident-started":
        data = entry.data
        targets = {shared(kind): [*map(shared, names)] for kind, names in data["targets"].items()}
        found[data["incident"]] = IncidentRecord(
            data["incident"], shared(data["profile"]), shared(data["variant"]), targets, entry.at
        )
        found[data["incident"]].sides = tuple(shared_names(*side) for side in data.get("sides", ()))
        found[data["incident"]].powers_off = data.get("powers_off", False)
    elif entry.what in _READERS:
        _READERS[entry.what](found[entry.data["incident"]], entry)


def _had_effect(incident: IncidentRecord, entry: Entry) -> None:
    """Record a proven effect, and remove it from the possible ones.

    The observer may report both: first that an effect is possible, later that it is proven.
    """
    effect = shared(entry.data["effect"])
    incident.effects.append(effect)
    incident.possible_effects = [one for one in incident.possible_effects if one != effect]
    incident.affected_volumes = _with_volume(incident.affected_volumes, entry)


def _with_volume(known: tuple[str, ...], entry: Entry) -> tuple[str, ...]:
    volume = entry.data.get("volume")
    return known if volume is None or volume in known else (*known, shared(volume))


def _ended(incident: IncidentRecord, entry: Entry) -> None:
    """Record the end, rounded up so that the duration is never shorter than the recorded one.

    The difference of two floats may be shorter than its own rounding: the end moves by the
    smallest step until it is not.
    """
    incident.removed_at, lasted = entry.at, round(entry.at - incident.started_at, 6)
    while incident.removed_at - incident.started_at < lasted:
        incident.removed_at = math.nextafter(incident.removed_at, math.inf)


def _refused(incident: IncidentRecord, entry: Entry) -> None:
    """Record nodes without a fault, because the request was refused or came too late.

    Without any other node the incident has no possible effects.
    """
    incident.refused_nodes = entry.data["nodes"]
    if not incident.affected_nodes:
        incident.possible_effects.clear()


_READERS: dict[str, Reader] = {
    "incident-effect": _had_effect,
    "incident-failed": entries.assign(failed=entries.field("error")),
    "incident-ended": _ended,
    "incident-not-undone": entries.assign(not_undone=entries.field("error")),
    "incident-recovered": entries.assign(
        recovered_at=lambda incident, entry: round(
            (incident.removed_at or 0.0) + entry.data["took"], 6
        ),
        settled_at=entries.time,  # the entry comes once the recovery has lasted
    ),
    "incident-unrecovered": entries.assign(unrecovered=entries.field("left")),
    "incident-possible-effect": entries.assign(
        possible_effects=lambda incident, entry: [
            *incident.possible_effects,
            shared(entry.data["effect"]),
        ],
        possibly_affected_volumes=lambda incident, entry: _with_volume(
            incident.possibly_affected_volumes, entry
        ),
    ),
    "incident-overtaken": entries.assign(overtaken=entries.names("by")),
    "incident-target-deleted": entries.assign(
        deleted_before_recovery=entries.field("left"), settled_at=entries.time
    ),
    "incident-overlapping": entries.assign(
        overlapping=entries.names("others"), settled_at=entries.time
    ),
    "incident-refused": _refused,
    "incident-lasting": entries.assign(lasting=entries.true),
}


def judge(
    declared: Sequence[str],
    seen: Sequence[IncidentRecord],
    *,
    link_profiles: Sequence[str] = (),
    has_volumes: bool = True,
    lasted: float = 0.0,
) -> Iterator[Finding]:
    """Judge whether each declared profile had an effect, and whether all faults are undone.

    Effects of `link_profiles` show only on volumes; `has_volumes` is whether the run had any.
    `lasted` is the run's length in seconds.
    """
    for profile in dict.fromkeys(declared):
        own = [incident for incident in seen if incident.profile == profile]
        if any(incident.had_effect for incident in own):
            yield Finding(f"chaos:{profile}", VALID)
            continue
        count = "1 incident" if len(own) == 1 else f"{len(own)} incidents"
        why = f"{count} of {profile}, none with an effect"
        if not own:
            why = (
                f"no incident of {profile} in {in_words(lasted)}: run longer, or set a "
                "shorter period="
            )
        elif failed := [incident.failed for incident in own if incident.failed]:
            why += f", and {len(failed)} could not be caused: {failed[0]}"
        elif profile in link_profiles and not has_volumes:
            why += (
                ", since there was no volume to show one: declare volume_churn, or "
                "create volumes in the test"
            )
        else:
            why += ": run longer"
        yield Finding(f"chaos:{profile}", UNKNOWN, why)
    if stuck := [
        f"{incident.id}: {incident.not_undone}" for incident in seen if incident.not_undone
    ]:
        yield Finding(
            "chaos", UNKNOWN, f"it is unknown whether these faults are undone: {'; '.join(stuck)}"
        )


TOLERANCE_AFTER_CUT = 120.0
"""Seconds after an incident in which the links that it cut may still be reconnecting."""
TOLERANCE_AFTER_OTHERS = 30.0
"""Seconds after an incident that cut none of the volume's links, and after a replica's return."""


def is_tolerated(
    volume: VolumeRecord, since: float, at: float, incidents: Sequence[IncidentRecord]
) -> bool:
    """Return True if tolerance windows cover all of [since, at] without a gap.

    Several incidents may cover it together. Times are seconds since the run began.
    """
    reached = since
    for began, over in sorted(_tolerance_windows(volume, since, at, incidents)):
        if began <= reached:
            reached = max(reached, over)
    return reached > at


def undisturbed_seconds(
    volume: VolumeRecord, since: float, at: float, incidents: Sequence[IncidentRecord]
) -> float:
    """Return the seconds of [since, at] outside of all tolerance windows.

    Only failures within this time count against the storage; overlapping windows count once.
    """
    reached, seconds = since, 0.0
    for began, over in sorted(_tolerance_windows(volume, since, at, incidents)):
        seconds += max(0.0, min(began, at) - reached)
        reached = max(reached, over)
    return seconds + max(0.0, at - reached)


def _tolerance_windows(
    volume: VolumeRecord, since: float, at: float, incidents: Sequence[IncidentRecord]
) -> Iterator[tuple[float, float]]:
    """Yield windows that overlap [since, at]: of replicas that the run deleted, and of incidents.

    A lasting fault has no window, nor has a fault that was never caused. A fault that was not
    undone has one, since it may have been caused.
    """
    yield from (
        (began, over) for began, over in volume.replica_windows if began <= at and over > since
    )
    for incident in incidents:
        may_have_happened = (
            incident.effects
            or incident.possible_effects
            or incident.not_undone
            or not incident.failed
        )
        if incident.lasting or not may_have_happened:
            continue
        latest = (
            math.inf if incident.removed_at is None else incident.removed_at + TOLERANCE_AFTER_CUT
        )
        if incident.started_at > at or latest <= since:
            continue
        nodes = volume.nodes_between(incident.started_at, latest)
        if not nodes.isdisjoint(incident.affected_nodes):
            end = math.inf if incident.removed_at is None else incident.removed_at
            overlap = Overlap(incident, end, volume.name, nodes, since)
            rule = next(rule for rule in TOLERANCE_WINDOWS if rule.holds(overlap))
            yield incident.started_at, math.inf if end == math.inf else rule.end(overlap)


class Overlap(NamedTuple):
    """Incident and a volume with replicas on its nodes, whose failure began at `since`.

    Rows of TOLERANCE_WINDOWS receive it; times are seconds since the run began.
    """

    incident: IncidentRecord
    removed_at: float
    """End of the incident; infinite while it is active."""
    volume: str
    nodes: set[str]
    since: float

    @property
    def after_cut(self) -> float:
        return self.removed_at + TOLERANCE_AFTER_CUT

    @property
    def after_others(self) -> float:
        return self.removed_at + TOLERANCE_AFTER_OTHERS


class ToleranceRule(NamedTuple):
    """Row of the table of tolerance windows: the first row that holds gives the window's end."""

    condition: str
    holds: Callable[[Overlap], bool]
    end: Callable[[Overlap], float]


TOLERANCE_WINDOWS = (
    ToleranceRule(
        "it has a possible effect on the volume",
        lambda one: one.volume in one.incident.possibly_affected_volumes,
        lambda one: one.after_cut,
    ),
    ToleranceRule(
        "it deleted pods, and the failure began after its end",
        lambda one: (
            "pods" in one.incident.targets
            and one.since > one.removed_at
            and one.incident.settled_at is not None
        ),
        lambda one: min(one.after_cut, one.incident.settled_at or 0.0),
    ),
    ToleranceRule(
        "it has an effect on the volume",
        lambda one: one.volume in one.incident.affected_volumes,
        lambda one: one.after_cut,
    ),
    ToleranceRule(
        "it deleted pods, or the volume has no replica on one of its sides",
        lambda one: (
            "pods" in one.incident.targets
            or any(one.nodes.isdisjoint(side) for side in one.incident.sides)
        ),
        lambda one: one.after_others,
    ),
    ToleranceRule("otherwise", lambda _: True, lambda one: one.after_cut),
)
"""Ends of the window in which an incident tolerates a failure of a volume on its nodes.

docs/storage.md shows the same table. An active incident has no end.
"""


Span: TypeAlias = tuple[float, float]
"""Begin and end of a tolerance window, in seconds since the run began."""


def spans_of(entry: Entry) -> tuple[Span, ...]:
    """Return the tolerance window of a replica that the run has deleted.

    A refused deletion has none, unless its response was lost: it may have been done.
    """
    data = entry.data
    if data["result"].startswith("failed: ") and not data.get("possibly_done"):
        return ()
    return ((entry.at - data["took"], entry.at + data.get("patience", TOLERANCE_AFTER_OTHERS)),)


def end_spans(spans: tuple[Span, ...], at: float) -> tuple[Span, ...]:
    """Return the windows cut short, since the replica is replaced at `at`.

    TOLERANCE_AFTER_OTHERS seconds remain for the volume to catch up.
    """
    return tuple((since, min(until, at + TOLERANCE_AFTER_OTHERS)) for since, until in spans)
