"""Summary of a run: lines for the terminal, JUnit properties, recovery times of incidents.

Reports call `RunResult`; numbers and words come from the run's outcome alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.judge.verdict import CLEAR, CREATE, DELETE, READY, UNKNOWN
from pytest_kscen.judge.volumes import BROKEN, INTERRUPTED, RECOVERED, STABLE
from pytest_kscen.objects.arguments import in_words
from pytest_kscen.report.story import kind_of_fault

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.journal import Journal
    from pytest_kscen.judge.incidents import IncidentRecord
    from pytest_kscen.judge.outcome import Outcome
    from pytest_kscen.judge.volumes import VolumeRecord


@dataclass(frozen=True, slots=True)
class Recoveries:
    """Recovery times of incidents with an effect, and counts of incidents without a recovery time
    by reason. Each incident with an effect counts once.
    """

    times: list[float]
    overtaken: int
    unrecovered: int
    deleted_before_recovery: int
    overlapping: int
    unseen: int
    """Incidents whose recovery was not waited for, or that were active until the end."""

    @classmethod
    def of(cls, incidents: Iterable[IncidentRecord]) -> Recoveries:
        effective = [one for one in incidents if one.had_effect]
        times = [one.recovery for one in effective if one.recovery is not None]
        overtaken = sum(bool(one.overtaken) for one in effective)
        unrecovered = sum(bool(one.unrecovered) for one in effective)
        deleted = sum(bool(one.deleted_before_recovery) for one in effective)
        overlapping = sum(bool(one.overlapping) for one in effective)
        unseen = len(effective) - len(times) - overtaken - unrecovered - deleted - overlapping
        return cls(times, overtaken, unrecovered, deleted, overlapping, unseen)

    @property
    def longest(self) -> float:
        return max(self.times)

    def without_a_time(self) -> Iterator[str]:
        counts = {
            "overtaken": self.overtaken,
            "not recovered": self.unrecovered,
            "affected an object that was deleted before it recovered": self.deleted_before_recovery,
            "overlapped with another incident": self.overlapping,
            "not waited for": self.unseen,
        }
        yield from (f"{count} {word}" for word, count in counts.items() if count)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run, as reports receive it (`report.protocol.ReportedResult`).

    Its methods read the outcome; only `write_stories` and `attach` read the journal.
    """

    outcome: Outcome
    journal: Journal

    def brief(self) -> list[str]:
        return brief(self.outcome)

    def summary(self) -> list[str]:
        return summary(self.outcome)

    def properties(self) -> list[tuple[str, object]]:
        return properties(self.outcome)

    def as_json(self) -> bytes:
        return self.outcome.as_json()

    def write_stories(self, folder: pathlib.Path) -> None:
        from pytest_kscen.report.archive import write_stories

        write_stories(folder, self.journal, self.outcome)

    def attach(self, title: str) -> None:
        from pytest_kscen.report.allure import attach

        attach(self.outcome, self.journal, title)


MOST_ROWS = 20  # rows of unhealthy volumes in `brief`
MOST_NAMES = 5  # names of interrupted volumes in `brief`
WORST_FIRST = (BROKEN, UNKNOWN, INTERRUPTED, RECOVERED, STABLE)
TIMES = {"create": CREATE, "ready": READY, "delete": DELETE}


def summary(outcome: Outcome) -> list[str]:
    cut_short = [
        f"{action} {tally.stopped}" for action, tally in outcome.actions.items() if tally.stopped
    ]
    moved = [
        one for one in outcome.volumes if one.verdict != STABLE or any(one.transitions.values())
    ]
    return [
        *_verdict(outcome),
        *_volumes(outcome),
        *_times(outcome),
        *_errors(outcome),
        *([f"  cut short: {', '.join(cut_short)}"] if cut_short else []),
        *_incidents(outcome.incidents),
        *_cleared(outcome),
        *_transitions(moved),
        *_leftovers(outcome),
    ]


def brief(outcome: Outcome) -> list[str]:
    """Return the lines for a terminal without -v: unhealthy volumes, at most MOST_ROWS.

    The last line about volumes states how many are left out, and where they are shown.
    """
    unhealthy = [one for one in outcome.volumes if one.verdict in {BROKEN, UNKNOWN}]
    left_out = len(unhealthy) - MOST_ROWS
    more = (
        f"  and {left_out} more; -v shows all, and so does the run's summary.txt "
        "(--kscen-archive DIR)"
    )
    return [
        *_verdict(outcome),
        *_volumes(outcome),
        *_errors(outcome),
        *_profiles(outcome.incidents),
        *_cleared(outcome),
        *_interrupted(outcome),
        *list(_transitions(unhealthy))[:MOST_ROWS],
        *([more] if left_out > 0 else []),
        *_leftovers(outcome),
    ]


def _verdict(outcome: Outcome) -> Iterator[str]:
    early = ", stopped early" if outcome.stopped_early else ""
    seed = f"; seed {outcome.seed}" if outcome.seed else ""
    yield f"{outcome.judged} after {in_words(outcome.lasted)} of cluster time{early}{seed}"
    for finding in outcome.findings:
        if finding.why:
            yield f"  {finding.check} is {finding.verdict}: {finding.why}"


def _volumes(outcome: Outcome) -> Iterator[str]:
    if not (len(outcome.volumes) or CREATE in outcome.actions):
        return
    created = outcome.actions[CREATE].done if CREATE in outcome.actions else 0
    errors = sum(tally.failed for tally in outcome.actions.values())
    counts = {
        verdict: sum(one.verdict == verdict for one in outcome.volumes)
        for verdict in reversed(WORST_FIRST)
    }
    share = f" ({counts[INTERRUPTED] / len(outcome.volumes):.0%})" if counts[INTERRUPTED] else ""
    words = {INTERRUPTED: f"{INTERRUPTED}{share}"}
    counted = ", ".join(
        f"{count} {words.get(verdict, verdict)}"
        for verdict, count in counts.items()
        if count or verdict != UNKNOWN
    )
    yield f"  volumes: {created} created, {_plural(errors, 'error')}: {counted}"


def _times(outcome: Outcome) -> Iterator[str]:
    times = [
        (
            f"{word} {tally.average:.1f} s on average ({tally.longest:.1f} s at most, "
            f"{tally.total:.1f} s in all)"
        )
        for word, action in TIMES.items()
        if (tally := outcome.actions.get(action)) and tally.done
    ]
    if times:
        yield f"  times: {'; '.join(times)}"


def _errors(outcome: Outcome) -> Iterator[str]:
    for action, tally in outcome.actions.items():
        if tally.failed:
            yield f"  {_plural(tally.failed, 'error')}: {action} {tally.refusal}"


def _incidents(seen: Sequence[IncidentRecord]) -> Iterator[str]:
    kinds = dict.fromkeys((incident.profile, incident.variant) for incident in seen)
    for profile, variant in kinds:
        own = [
            incident
            for incident in seen
            if (incident.profile, incident.variant) == (profile, variant)
        ]
        yield f"  {kind_of_fault(profile, variant)}: {_incident_counts(own, average=True)}"


def _profiles(seen: Sequence[IncidentRecord]) -> Iterator[str]:
    for profile in dict.fromkeys(incident.profile for incident in seen):
        own = [incident for incident in seen if incident.profile == profile]
        yield f"  {profile}: {_incident_counts(own)}"


def _incident_counts(own: Sequence[IncidentRecord], *, average: bool = False) -> str:
    recoveries, recovered = Recoveries.of(own), []
    if times := recoveries.times:
        mean = f"{sum(times) / len(times):.1f} s on average, " if average else ""
        recovered = [f"{len(times)} recovered in {mean}{recoveries.longest:.1f} s at most"]
    effective = (
        f"{_plural(len(own), 'incident')}, {sum(incident.had_effect for incident in own)} "
        "with an effect"
    )
    return "; ".join([effective, *recovered, *recoveries.without_a_time()])


def _cleared(outcome: Outcome) -> Iterator[str]:
    """Yield the count of objects that were deleted before the run.

    On an existing cluster these are objects of earlier runs; on a cluster of the session also all
    chaos objects.
    """
    if (tally := outcome.actions.get(CLEAR)) and tally.done:
        yield f"  cleared away before the run: {_plural(tally.done, 'object')}"


def _interrupted(outcome: Outcome) -> Iterator[str]:
    if names := [one.name for one in outcome.volumes.interrupted]:
        more = len(names) - MOST_NAMES
        shown = ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        yield f"  {INTERRUPTED}: {shown}"


def _transitions(volumes: Iterable[VolumeRecord]) -> Iterator[str]:
    for one in worst_first(volumes):
        counted = "never ready"
        if one.ready_at is not None:
            counted = ", ".join(f"{name} {count}" for name, count in one.transitions.items())
        yield f"  {one.verdict:<11} {one.name} ({one.storage_class}): {counted}"


def worst_first(volumes: Iterable[VolumeRecord]) -> list[VolumeRecord]:
    return sorted(
        volumes,
        key=lambda one: (WORST_FIRST.index(one.verdict), -sum(one.transitions.values()), one.name),
    )


def choose_stories(outcome: Outcome, most: int) -> tuple[list[VolumeRecord], list[VolumeRecord]]:
    """Return the volumes whose stories are written, and the remaining ones, the worst first.

    `most` volumes with a changed state are chosen, but always all broken or unknown volumes.
    """
    moved = worst_first(one for one in outcome.volumes if one.verdict != STABLE)
    most = max(most, sum(one.verdict in {BROKEN, UNKNOWN} for one in moved))
    return moved[:most], moved[most:]


def _leftovers(outcome: Outcome) -> Iterator[str]:
    if outcome.leftovers:
        yield f"  left behind: {', '.join(outcome.leftovers)}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def properties(outcome: Outcome) -> list[tuple[str, object]]:
    """Return a run's JUnit properties, with numbers that a CI server can plot over time.

    Names are stable. Without a recovery `kscen.recovery.longest` is left out.
    """
    recoveries = Recoveries.of(outcome.incidents)
    return [
        ("kscen.verdict", outcome.judged),
        ("kscen.seed", outcome.seed),
        ("kscen.lasted", outcome.lasted),
        ("kscen.stopped_early", str(outcome.stopped_early).lower()),
        ("kscen.volumes", len(outcome.volumes)),
        ("kscen.volumes.stable", len(outcome.volumes.stable)),
        ("kscen.volumes.recovered", len(outcome.volumes.recovered)),
        ("kscen.volumes.broken", len(outcome.volumes.broken)),
        ("kscen.volumes.interrupted", len(outcome.volumes.interrupted)),
        ("kscen.volumes.unknown", len(outcome.volumes.unknown)),
        ("kscen.transitions", outcome.volumes.total_transitions),
        ("kscen.errors", sum(tally.failed for tally in outcome.actions.values())),
        ("kscen.cut_short", sum(tally.stopped for tally in outcome.actions.values())),
        ("kscen.incidents", len(outcome.incidents)),
        ("kscen.incidents.effective", sum(one.had_effect for one in outcome.incidents)),
        ("kscen.incidents.recovered", len(recoveries.times)),
        ("kscen.incidents.overtaken", recoveries.overtaken),
        ("kscen.incidents.unrecovered", recoveries.unrecovered),
        ("kscen.incidents.deleted_before_recovery", recoveries.deleted_before_recovery),
        ("kscen.incidents.overlapping", recoveries.overlapping),
        *([("kscen.recovery.longest", round(recoveries.longest, 3))] if recoveries.times else []),
        ("kscen.leftovers", len(outcome.leftovers)),
    ]
