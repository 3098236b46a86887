"""Volumes of a journal: history of each volume's conditions, and its verdict.

An even number of changes means that the condition came back each time, an odd one that it did not.
`docs/storage.md` has the rules as a table; `VERDICTS` is the same table.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.judge import entries
from pytest_kscen.judge.entries import shared, shared_names
from pytest_kscen.judge.incidents import end_spans, is_tolerated, spans_of, undisturbed_seconds
from pytest_kscen.judge.verdict import (
    ATTACH,
    ATTACH_AT_FIRST,
    DELETE,
    DETACH,
    DETACH_EVERYWHERE,
    RESIZE,
    TAKE,
    UNKNOWN,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kscen.journal import Entry
    from pytest_kscen.judge.entries import Reader
    from pytest_kscen.judge.incidents import IncidentRecord, Span
    from pytest_kscen.judge.start_and_end import RunStart

STABLE, RECOVERED, BROKEN, INTERRUPTED = "stable", "recovered", "broken", "interrupted"
FROZEN, LIVENESS = _ENDS = "frozen", "liveness"
CRASHED = "crashed"
REQUIRED_TIME = 60.0  # seconds of undisturbed time in which a storage can do what is requested


@dataclass(slots=True)
class OverdueDeletion:
    """Deletion that was not done `waited` seconds after it began, as observed at `at`.

    `excused` is set by `VolumeHistories.judged`, once all incidents of the run are known.
    """

    at: float
    waited: float
    why: str
    excused: bool = False


@dataclass(slots=True)
class FailedOperation:
    """Requested operation that failed, or was cut short by the end of its actor.

    Times are seconds since the run began. `excused` is set by `VolumeHistories.judged`.
    """

    at: float
    waited: float
    """Seconds that the storage had for it: since the API accepted it, if that is recorded."""
    why: str
    refused: bool
    """True if the API refused it, or the storage was not required to do it."""
    cut: bool = False
    excused: bool = False

    @property
    def is_failure(self) -> bool:
        return not (self.refused or self.excused)


@dataclass(slots=True)
class VolumeRecord:
    """Volume, filled from the journal entry by entry.

    Times are seconds since the run began. Rare facts are in tuples, which need no memory while
    empty: a run has thousands of volumes.
    """

    name: str
    storage_class: str
    transitions: dict[str, int] = field(default_factory=dict)
    ready_at: float | None = None
    stopped_at: float | None = None
    crash: str = ""
    placed_at: array[float] = field(default_factory=lambda: array("d"))
    placed_on: tuple[tuple[str, ...], ...] = ()
    """Nodes of its replicas since each time of `placed_at`."""
    replica_windows: tuple[Span, ...] = ()
    """Tolerance windows of replicas that the run deleted."""
    odd_since: tuple[tuple[str, float], ...] = ()
    """Conditions that have changed an odd number of times, each with the time of its last change.
    """
    waited_for: bool = False
    """True if the run waited for it to become ready."""
    deleting_at: float | None = None
    off: bool = False
    """True if all machines with its replicas were off at the end, so its status is outdated."""
    lost_only_our_disks: bool = False
    """True if it was never ready, and only disks that the run deleted tolerate that."""
    lost_at: float | None = None
    """Time at which it disappeared, or began to be deleted, without a request of the run."""
    overdue_deletions: tuple[OverdueDeletion, ...] = ()
    """Deletions that took too long."""
    attached: int = 0
    """Number of observed attachments, including those of its creation."""
    requested_at: dict[str, float] = field(default_factory=dict)
    """Times of requests by node, for attachments of its creation that are not ready yet."""
    unanswered: int = 0
    """Number of requested attachments that had enough time and did not become ready."""
    unattached: tuple[FailedOperation, ...] = ()
    undetached: tuple[FailedOperation, ...] = ()
    unresized: tuple[FailedOperation, ...] = ()
    healed: bool = False
    """True if it was ready after all faults were undone."""
    verdict: str = STABLE

    @property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(node for nodes in self.placed_on for node in nodes))

    def nodes_between(self, begin: float, end: float) -> set[str]:
        """Return the nodes that had a replica at any time of [begin, end].

        The last placement before `begin` counts, because it is current at `begin`.
        """
        first = max(0, bisect_right(self.placed_at, begin) - 1)
        return set().union(*self.placed_on[first : bisect_right(self.placed_at, end)])

    @property
    def deleting(self) -> bool:
        return self.deleting_at is not None

    def has_returned(self, condition: str) -> bool:
        """Return True if the condition was lost and observed again.

        A volume that was never ready must have become ready after all faults were undone.
        """
        if self.ready_at is None:
            return self.healed
        count = self.transitions.get(condition, 0)
        return count > 1 or (count > 0 and self.healed)

    def lacks(self, condition: str) -> bool:
        """Return True if the condition was lost and did not come back; a volume that was never
        ready lacks all.
        """
        return self.ready_at is None or self.transitions.get(condition, 0) % 2 > 0

    @property
    def unjudged(self) -> str:
        """Return the reason why its state is unknown; empty if it is known.

        Reports show the text in parentheses after the volume's name.
        """
        if self.lost_only_our_disks:
            return "it was not ready before the run deleted some of its disks"
        return self.unchecked or (
            "all machines with its replicas are off, so its conditions are out of date"
            if self.off
            else ""
        )

    @property
    def unchecked(self) -> str:
        if self.crash:
            return f"the checker crashed: {self.crash}"
        if self.ready_at is None and not self.waited_for:
            return "it was not ready, and the run did not wait for it"
        return "" if self.stopped_at is not None else "it was not checked to the end"

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "storage_class": self.storage_class,
            "nodes": self.nodes,
            "transitions": self.transitions,
            "ready_at": self.ready_at,
            "stopped_at": self.stopped_at,
            "lost_at": self.lost_at,
            "crash": self.crash,
            "attached": self.attached,
            "requested_at": self.requested_at,
            **{
                name: [asdict(one) for one in getattr(self, name)]
                for name in ("unattached", "undetached", "unresized", "overdue_deletions")
            },
            "verdict": self.verdict,
        }


class VolumeHistories:
    """Histories of all volumes, filled entry by entry.

    A name may be reused after a deletion: entries belong to its latest volume.
    """

    def __init__(self, start: RunStart) -> None:
        """Read conditions from `start`, which is filled before any volume is in the journal."""
        self._start = start
        self._found: list[VolumeRecord] = []
        self._latest: dict[str, VolumeRecord] = {}
        self._ends: dict[str, float] = {}
        self._is_cut_short = False
        """True if an actor of the run crashed while volumes were created: later waits prove
        nothing.
        """

    def update(self, entry: Entry) -> None:
        """Update the volume of the journal's next entry; entries of other kinds are ignored.

        Raise KeyError for a volume that no earlier entry has created.
        """
        what, data = entry.what, entry.data
        if what == "volume":
            record = VolumeRecord(
                shared(data["volume"]),
                shared(data["storage_class"]),
                _uncounted(self._start.conditions),
            )
            self._latest[record.name] = record
            self._found.append(record)
        elif what in _ENDS:
            self._ends[what] = entry.at
            for volume in self._found if what == LIVENESS else ():
                volume.healed = (
                    not volume.deleting
                    and volume.lost_at is None
                    and volume.name not in entry.data["late"]
                )
                if volume.healed and volume.ready_at is None and not volume.waited_for:
                    volume.ready_at = entry.at
        elif what == CRASHED:
            self._is_cut_short |= FROZEN not in self._ends
        elif what in _READERS:
            _READERS[what](self._latest[data["volume"]], entry)
        elif what in _ACTION_READERS and (read := _ACTION_READERS[what].get(data["action"])):
            read(self._latest[data["volume"]], entry)

    @property
    def has_any(self) -> bool:
        return bool(self._found)

    def judged(self, incidents: Sequence[IncidentRecord]) -> list[VolumeRecord]:
        """Return all volumes with their verdicts, in the order of their creation.

        To be called once, after the last entry: it sets the fields that depend on all
        incidents.
        """
        for volume in self._found:
            volume.stopped_at = (
                self._ends.get(FROZEN) if volume.stopped_at is None else volume.stopped_at
            )
            volume.waited_for |= LIVENESS in self._ends and not self._is_cut_short
            volume.off = _is_off(volume, incidents)
            volume.verdict = next(
                rule.verdict for rule in VERDICTS if rule.holds(volume, incidents)
            )
            for stuck in volume.overdue_deletions:
                stuck.excused = (
                    undisturbed_seconds(volume, stuck.at - stuck.waited, stuck.at, incidents)
                    < REQUIRED_TIME
                )
            for one in (*volume.unattached, *volume.undetached, *volume.unresized):
                one.excused = not _had_time(volume, one.at - one.waited, one.at, incidents)
            until = volume.stopped_at or 0.0
            volume.unanswered = sum(
                _had_time(volume, max(since, volume.ready_at or 0.0), until, incidents)
                for since in volume.requested_at.values()
            )
        return self._found


def _uncounted(conditions: Iterable[str]) -> dict[str, int]:
    return dict.fromkeys(map(shared, conditions), 0)


def _replicas_placed(volume: VolumeRecord, entry: Entry) -> None:
    volume.placed_at.append(entry.at)
    volume.placed_on += (shared_names(*entry.data["nodes"]),)


def _condition_changed(volume: VolumeRecord, entry: Entry) -> None:
    """Count a change of a condition; update `odd_since`."""
    condition = shared(entry.data["condition"])
    volume.transitions[condition] += 1
    volume.odd_since = tuple(one for one in volume.odd_since if one[0] != condition)
    if volume.transitions[condition] % 2:
        volume.odd_since += ((condition, entry.at),)


def _attached(volume: VolumeRecord, entry: Entry) -> None:
    """Count an attachment when it is ready, and keep its request until then.

    The action `attach` ends when the attachment is ready. `attach at first` ends when it is
    requested: the entry `attached` follows.
    """
    if entry.what == "attached":
        volume.attached += 1
        volume.requested_at.pop(entry.data["node"], None)
    elif entry.data["result"] != "done":
        volume.unattached += _failed_operation(entry)
    elif entry.data["action"] == ATTACH:
        volume.attached += 1
    else:
        volume.requested_at[shared(entry.data["node"])] = entry.at


def _resized(volume: VolumeRecord, entry: Entry) -> None:
    """Record a failed resize; the time after the volume's deletion began does not count.

    A resize that began after that is left out.
    """
    for one in _failed_operation(entry):
        late = 0.0 if volume.deleting_at is None else one.at - volume.deleting_at
        if late < one.waited or not late:
            volume.unresized += (
                replace(one, at=one.at - late, waited=one.waited - late, cut=one.cut or late > 0),
            )


def _replica_deleted(volume: VolumeRecord, entry: Entry) -> None:
    """Record a deleted replica.

    The window of a volume that was never ready begins with the run, because it has to form anew
    without the disk.
    """
    spans = spans_of(entry)
    if volume.deleting:
        spans = end_spans(spans, entry.at)
    elif volume.ready_at is None and "patience" in entry.data:
        spans = tuple((0.0, until) for _, until in spans)
    volume.replica_windows += spans


def _failed_operation(entry: Entry) -> tuple[FailedOperation, ...]:
    """Return the failed operation of an entry that has ended; empty if it succeeded.

    A failure other than a timeout counts as refused. A stopped operation is cut short, and counts
    as refused if it has a reason.
    """
    result, _, why = entry.data["result"].partition(": ")
    if result == "done":
        return ()
    waited = entry.data.get("available", entry.data["took"])
    if result == "stopped":
        return (FailedOperation(entry.at, waited, why, refused=bool(why), cut=True),)
    return (FailedOperation(entry.at, waited, why, not why.startswith("TimeoutError")),)


_READERS: dict[str, Reader] = {
    "volume-placed": _replicas_placed,
    "volume-disappeared": entries.assign(
        lost_at=lambda volume, entry: volume.lost_at if volume.deleting else entry.at
    ),
    "replicas-restored": entries.assign(
        replica_windows=lambda volume, entry: end_spans(volume.replica_windows, entry.at)
    ),
    "attached": _attached,
    "ready": entries.assign(ready_at=entries.time),  # it may come after the last check
    "checker-started": entries.assign(
        ready_at=entries.time,
        transitions=lambda _, entry: _uncounted(entry.data["conditions"]),
        odd_since=lambda *_: (),
    ),
    "condition-changed": _condition_changed,
    "checker-stopped": entries.assign(stopped_at=entries.time),
    "check-crashed": entries.assign(crash=entries.field("error")),
    "never-ready": entries.assign(waited_for=entries.true, stopped_at=entries.time),
    "never-gone": entries.assign(
        overdue_deletions=lambda volume, entry: (
            *volume.overdue_deletions,
            OverdueDeletion(entry.at, entry.data["waited"], entry.data["why"]),
        )
    ),
}
_DETACHMENT = entries.assign(
    # The final detachment continues a detachment that was cut short.
    undetached=lambda volume, entry: (
        *volume.undetached,
        *(one for one in _failed_operation(entry) if not one.cut),
    )
)
_ACTION_READERS: dict[str, dict[str, Reader]] = {
    "began": {
        DELETE: entries.assign(  # a volume that is being deleted needs no replica
            deleting_at=entries.time,
            replica_windows=lambda volume, entry: end_spans(volume.replica_windows, entry.at),
        ),
        DETACH: lambda volume, entry: volume.requested_at.pop(entry.data["node"], None),
    },
    "ended": {
        ATTACH: _attached,
        ATTACH_AT_FIRST: _attached,
        DETACH: _DETACHMENT,
        DETACH_EVERYWHERE: _DETACHMENT,
        RESIZE: _resized,
        TAKE: _replica_deleted,
    },
}


def _had_time(
    volume: VolumeRecord, since: float, at: float, incidents: Sequence[IncidentRecord]
) -> bool:
    was_ready = volume.ready_at is not None and volume.ready_at <= since
    return was_ready and undisturbed_seconds(volume, since, at, incidents) >= REQUIRED_TIME


def _had_time_to_form(
    volume: VolumeRecord, until: float, incidents: Sequence[IncidentRecord]
) -> bool:
    """Return True if it had enough undisturbed time since it first had a replica.

    Less than REQUIRED_TIME is enough if no part is tolerated: the replica itself came late.
    """
    since = min([until, *volume.placed_at[:1]])
    return undisturbed_seconds(volume, since, until, incidents) >= min(REQUIRED_TIME, until - since)


def _is_off(volume: VolumeRecord, incidents: Sequence[IncidentRecord]) -> bool:
    """Return True if machines with all of its replicas were off at the end.

    Only incidents that a test left active count: the others had ended.
    """
    end = volume.stopped_at or 0.0
    stops = [
        one
        for one in incidents
        if one.powers_off and one.lasting and one.had_effect and one.started_at < end
    ]
    there = volume.nodes_between(end, end)
    return bool(there) and there.issubset(node for one in stops for node in one.affected_nodes)


def _lacks_only_deleted_disks(volume: VolumeRecord, incidents: Sequence[IncidentRecord]) -> bool:
    """Return True, and mark the volume, if it is tolerated by the run's deleted replicas alone.

    A volume that is ready after all faults were undone needs no tolerance.
    """
    volume.lost_only_our_disks = (
        volume.ready_at is None
        and not volume.healed
        and _had_time_to_form(replace(volume, replica_windows=()), _end_of(volume), incidents)
    )
    return volume.lost_only_our_disks


def _end_of(volume: VolumeRecord) -> float:
    return volume.stopped_at or 0.0


class VerdictRule(NamedTuple):
    """Row of the table of verdicts: the first row that holds for a volume decides."""

    condition: str
    verdict: str
    holds: Callable[[VolumeRecord, Sequence[IncidentRecord]], bool]


VERDICTS = (
    VerdictRule(
        "disappeared without a request", BROKEN, lambda volume, _: volume.lost_at is not None
    ),
    VerdictRule(
        "not checked to the end",
        UNKNOWN,
        lambda volume, _: bool(volume.unchecked) or volume.stopped_at is None,
    ),
    VerdictRule(
        "never ready, with enough undisturbed time",
        BROKEN,
        lambda volume, incidents: (
            volume.ready_at is None and _had_time_to_form(volume, _end_of(volume), incidents)
        ),
    ),
    VerdictRule("never ready, and the run deleted its disks", UNKNOWN, _lacks_only_deleted_disks),
    VerdictRule("never ready", INTERRUPTED, lambda volume, _: volume.ready_at is None),
    VerdictRule(
        "a condition is lost, not tolerated",
        BROKEN,
        lambda volume, incidents: (
            not all(
                is_tolerated(volume, since, _end_of(volume), incidents)
                for _, since in volume.odd_since
            )
        ),
    ),
    VerdictRule("a condition is lost", INTERRUPTED, lambda volume, _: bool(volume.odd_since)),
    VerdictRule("its machines are off", UNKNOWN, lambda volume, _: volume.off),
    VerdictRule(
        "a condition was lost and came back",
        RECOVERED,
        lambda volume, _: any(volume.transitions.values()),
    ),
    VerdictRule("otherwise", STABLE, lambda _, __: True),
)
"""Verdicts of a volume, the first row that holds. docs/storage.md shows the same table."""
