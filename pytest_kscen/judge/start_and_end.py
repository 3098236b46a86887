"""Start and end of a run: seed and plan, crashes of actors and checks, liveness, leftovers.

`RunStart` and `RunEnd` are filled entry by entry, and judged after the last entry. `outcome` calls
both. Must not read anything but entries of the journal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.judge import entries
from pytest_kscen.judge.entries import shared
from pytest_kscen.judge.incidents import end_spans, spans_of
from pytest_kscen.judge.verdict import INVALID, TAKE, UNKNOWN, VALID, Finding
from pytest_kscen.objects.arguments import in_words

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from pytest_kscen.journal import Entry
    from pytest_kscen.judge.entries import Reader
    from pytest_kscen.judge.incidents import Span


EVERYTHING = "everything"
CLUSTER = "cluster"  # component of a crash that is the embedded cluster itself
VOLUMES = "replicatedvolume"  # prefix of the names of volumes, replicas and attachments


@dataclass(slots=True)
class RunEnd:
    """Facts of the journal about a run's end: cleanup, crashes, liveness and leftovers.

    `update_run_end` fills it entry by entry, and `judge_end` reads it after the last one.
    """

    label: str = ""
    """Label of all objects that the run has created."""
    frozen_at: float | None = None
    last_entry_at: float = 0.0
    """Time of the last entry."""
    stopped_early: bool = False
    volumes_abandoned: bool = False
    """True if a person ended the run without deleting its volumes."""
    late: list[str] | None = None
    """Volumes that did not become ready again; None if that could not be judged."""
    replica_windows: dict[str, tuple[Span, ...]] = field(default_factory=dict)
    """Tolerance windows by volume: replicas that the run has deleted."""
    excused: list[str] = field(default_factory=list)
    """Late volumes that still had time to replace their deleted replicas."""
    ready: dict[str, None] = field(default_factory=dict)
    """Names of volumes that were ready at any time, in the order of becoming ready."""
    had_incidents: bool = False
    """True if the run had any incident."""
    lasting: list[str] = field(default_factory=list)
    """Incidents that a test left active until the run was judged."""
    leftovers: list[str] | None = None
    """Objects that were left; None if the run ended before it listed them."""
    crashes: list[str] = field(default_factory=list)
    """Actors that crashed, with their errors."""
    observer_crashes: list[str] = field(default_factory=list)
    """Crashes of the observer of effects."""
    uncleaned_nodes: dict[str, str] = field(default_factory=dict)
    """Nodes that may still have faults, of this run or an earlier one; with the error."""
    cluster_crashed: bool = False
    """True if the embedded cluster crashed: findings about the storage are then unknown."""
    made: dict[str, None] = field(default_factory=dict)
    """Resources with objects that the run created or tried to create."""
    unlisted: dict[str, str] = field(default_factory=dict)
    """Resources that could not be listed at the run's end, with the errors."""

    @property
    def lasted(self) -> float:
        """Return the seconds until the counters were frozen, or until a killed run's last entry."""
        return self.last_entry_at if self.frozen_at is None else self.frozen_at

    @property
    def is_truncated(self) -> bool:
        """Return True if the journal breaks off before the run's end has begun.

        The run was killed, or is still running.
        """
        return self.frozen_at is None and self.late is None and self.leftovers is None

    @property
    def abandoned(self) -> list[str]:
        """Return the leftovers that a person chose to leave, by Ctrl-C during the cleanup.

        Only volumes, their replicas and their attachments can be left so.
        """
        return [
            one
            for one in self.leftovers or ()
            if self.volumes_abandoned and one.startswith(VOLUMES)
        ]

    @property
    def possibly_left(self) -> dict[str, str]:
        """Return resources that could not be listed and may have leftovers, with the reasons.

        Resources without objects of the run are left out.
        """
        return {
            resource: why
            for resource, why in self.unlisted.items()
            if resource in {EVERYTHING, *self.made}
        }


def update_run_end(ending: RunEnd, entry: Entry) -> None:
    ending.last_entry_at = entry.at
    if entry.what in _READERS:
        _READERS[entry.what](ending, entry)


def _object_requested(ending: RunEnd, entry: Entry) -> None:
    """Record the resource of a request that may have created an object, even if it was refused."""
    if entry.data["verb"] in {"create", "apply"}:
        ending.made[entry.data["resource"]] = None


def _replica_deleted_or_restored(ending: RunEnd, entry: Entry) -> None:
    """Begin the tolerance window of a deleted replica, or end it when all are replaced.

    `replicas-restored` also follows deletions that were refused, which have no window.
    """
    if entry.what == "ended" and entry.data["action"] != TAKE:
        return
    name = shared(entry.data["volume"])
    spans = ending.replica_windows.get(name, ())
    spans = spans + spans_of(entry) if entry.what == "ended" else end_spans(spans, entry.at)
    if spans:
        ending.replica_windows[name] = spans


_READERS: dict[str, Reader] = {
    "run-started": entries.assign(label=lambda _, entry: entry.data.get("label", "")),
    "frozen": entries.assign(frozen_at=entries.time),
    "stopped-early": entries.assign(stopped_early=entries.true),
    "volumes-abandoned": entries.assign(volumes_abandoned=entries.true),
    "crashed": entries.assign(
        crashes=lambda ending, entry: [
            *ending.crashes,
            f"{entry.data['component']}: {entry.data['error']}",
        ],
        cluster_crashed=lambda ending, entry: (
            ending.cluster_crashed or entry.data["component"] == CLUSTER
        ),
    ),
    "observer-crashed": lambda ending, entry: ending.observer_crashes.append(entry.data["error"]),
    "not-swept": lambda ending, entry: ending.uncleaned_nodes.update(
        dict.fromkeys(entry.data["nodes"], entry.data["why"])
    ),
    "ready": lambda ending, entry: ending.ready.setdefault(shared(entry.data["volume"])),
    "incident-started": entries.assign(had_incidents=entries.true),
    "incident-lasting": lambda ending, entry: ending.lasting.append(entry.data["incident"]),
    "wrote": _object_requested,
    "refused": _object_requested,
    "ended": _replica_deleted_or_restored,
    "replicas-restored": _replica_deleted_or_restored,
    "liveness": entries.assign(
        late=entries.field("late"),
        excused=lambda ending, entry: [
            name
            for name in ending.late
            if any(until > entry.at for _, until in ending.replica_windows.get(name, ()))
        ],
    ),
    "not-listed": lambda ending, entry: ending.unlisted.update(
        {entry.data["resource"]: entry.data["why"]}
    ),
    "leftovers": entries.assign(leftovers=entries.field("objects")),
}


def judge_end(ending: RunEnd) -> Iterator[Finding]:
    if ending.is_truncated:
        yield Finding(
            "journal",
            UNKNOWN,
            f"it breaks off after {in_words(ending.last_entry_at)}, before the run ended: "
            "its process was killed, or is still running",
        )
    if ending.crashes:
        yield Finding("actors", UNKNOWN, f"crashed: {'; '.join(ending.crashes)}")
    if ending.observer_crashes:
        yield Finding(
            "effects",
            UNKNOWN,
            f"some may be missing, since their observer crashed (times: "
            f"{len(ending.observer_crashes)}); its first error: {ending.observer_crashes[0]}",
        )
    if ending.uncleaned_nodes:
        places = "; ".join(f"{node}: {why}" for node, why in ending.uncleaned_nodes.items())
        yield Finding(
            "calm",
            UNKNOWN,
            "faults may still be on nodes that could not be cleaned up; the next run on this "
            f"cluster tries again: {places}",
        )
    yield _liveness(ending)
    names = ", ".join(ending.leftovers or ())
    verdict, why = VALID, ""
    if names and ending.leftovers == ending.abandoned:
        verdict = UNKNOWN
        why = f"left behind, since the run did not wait for their deletion: {names}"
    elif names:
        verdict, why = INVALID, f"still there: {names}"
    elif ending.leftovers is None:
        remedy = f"; find them by the label {ending.label}" if ending.label else ""
        verdict, why = UNKNOWN, f"the run ended before it listed them{remedy}"
    elif ending.possibly_left:
        places = "; ".join(f"{resource}: {why}" for resource, why in ending.possibly_left.items())
        verdict, why = UNKNOWN, f"these could not be listed: {places}"
    yield Finding("leftovers", verdict, why)


def _liveness(ending: RunEnd) -> Finding:
    if ending.late is None:
        return Finding(
            "liveness",
            UNKNOWN,
            "it was not observed whether the remaining volumes became ready again",
        )
    if failures := [name for name in ending.late if name not in ending.excused]:
        circumstances = "although all faults were undone"
        if ending.lasting:
            circumstances = f"while {', '.join(ending.lasting)} lasted"
        elif not ending.had_incidents:
            circumstances = "although there was no fault"
            if ending.replica_windows:
                circumstances += " except for the replicas that the run deleted"
        again = [name for name in failures if name in ending.ready]
        never = [name for name in failures if name not in ending.ready]
        reasons = [
            *([f"not ready again {circumstances}: {', '.join(again)}"] if again else []),
            *([f"never ready, {circumstances}: {', '.join(never)}"] if never else []),
        ]
        return Finding("liveness", INVALID, "; ".join(reasons))
    if ending.late:
        why = (
            "not ready yet, and the time to replace the replicas that the run deleted is not over: "
            f"{', '.join(ending.late)}"
        )
        return Finding("liveness", UNKNOWN, why)
    return Finding("liveness", VALID)


@dataclass(slots=True)
class RunStart:
    """Facts of the journal about a run's start: its seed, and the plan that it declares.

    `update_run_start` fills it before any volume or incident appears in the journal.
    """

    seed: str = ""
    replayable: bool = True
    chaos: list[str] | None = None
    """Declared profiles; None if the journal has no start."""
    churn: bool = False
    conditions: tuple[str, ...] = ()
    """Conditions that are watched of each volume."""
    link_profiles: list[str] = field(default_factory=list)
    """Declared profiles that cut links between nodes, so that only volumes show their effect."""


def update_run_start(start: RunStart, entry: Entry) -> None:
    if entry.what == "run-started":
        start.seed = entry.data["seed"]
        start.chaos, start.churn = entry.data["chaos"], entry.data["churn"]
        start.link_profiles = entry.data.get("link_profiles", [])
        start.conditions = tuple(entry.data["conditions"])
    elif entry.what == "not-replayable":
        start.replayable = False


def judge_start(start: RunStart) -> Iterator[Finding]:
    if start.chaos is None:
        yield Finding("journal", UNKNOWN, "it has no 'run-started', so the plan is unknown")


@dataclass(frozen=True, slots=True)
class CheckCrash:
    """Crash of one check, with the journal's line at which it happened.

    Without an entry, the check had read the whole journal.
    """

    error: Exception
    line: int = 0
    entry: Entry | None = None

    def message(self, path: pathlib.Path | None) -> str:
        """Return the finding's text; `path` is the journal's, if it was read from a file.

        A KeyError is explained: the entry lacks a field, or refers to an undefined object.
        """
        crash = f"the check crashed: {self.error!r}"
        if self.entry is None:
            return crash
        place = f"line {self.line} of the journal" if path is None else f"{path}:{self.line}"
        crash += f" at {place}"
        if not isinstance(self.error, KeyError) or not self.error.args:
            return crash
        missing, data = self.error.args[0], self.entry.data
        if named := [name for name, value in data.items() if value == missing]:
            return f"{crash}: no earlier line defines the {named[0]} {missing!r}"
        return crash if missing in data else f"{crash}: it has no {missing!r}"
