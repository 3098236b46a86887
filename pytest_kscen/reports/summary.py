"""A run in a few lines for people: what was created, how long things took, what shook it, what moved, what stayed behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.checks.tally import CREATE, DELETE, READY
from pytest_kscen.checks.verdict import UNKNOWN
from pytest_kscen.checks.volumes import BROKEN, INTERRUPTED, RECOVERED, STABLE
from pytest_kscen.objects.durations import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.checks.incidents import IncidentRecord
    from pytest_kscen.checks.outcome import Outcome
    from pytest_kscen.checks.volumes import VolumeRecord

MOST_ROWS = 20  # of volumes; the outcome in the run's folder has all
WORST_FIRST = (BROKEN, UNKNOWN, INTERRUPTED, RECOVERED, STABLE)
TIMES = {"create": CREATE, "ready": READY, "delete": DELETE}


def summary(outcome: Outcome) -> list[str]:
    early = ", stopped early" if outcome.stopped_early else ""
    lines = [f"{outcome.judged} after {in_words(outcome.lasted)} of cluster time{early}; seed {outcome.seed}"]
    lines += [f"  {finding.check} is {finding.verdict}: {finding.why}" for finding in outcome.findings if finding.why]
    if len(outcome.volumes) or CREATE in outcome.actions:
        lines += [_volumes(outcome), *_times(outcome)]
    lines += _incidents(outcome.incidents)
    lines += _transitions(outcome.volumes)
    if outcome.leftovers:
        lines.append(f"  left behind: {', '.join(outcome.leftovers)}")
    return lines


def _volumes(outcome: Outcome) -> str:
    created = outcome.actions[CREATE].done if CREATE in outcome.actions else 0
    errors = sum(tally.failed for tally in outcome.actions.values())
    counts = {verdict: sum(one.verdict == verdict for one in outcome.volumes) for verdict in reversed(WORST_FIRST)}
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count or verdict != UNKNOWN)
    return f"  volumes: {created} created, {_plural(errors, 'error')}: {counted}"


def _times(outcome: Outcome) -> Iterator[str]:
    told = [
        f"{word} {tally.average:.1f} s on average ({tally.longest:.1f} s at most, {tally.total:.1f} s in all)"
        for word, action in TIMES.items()
        if (tally := outcome.actions.get(action)) and tally.done
    ]
    if told:
        yield f"  times: {'; '.join(told)}"
    if failed := {action: tally.failed for action, tally in outcome.actions.items() if tally.failed}:
        yield f"  errors: {', '.join(f'{action} {count}' for action, count in failed.items())}"


def _incidents(seen: Sequence[IncidentRecord]) -> Iterator[str]:
    kinds = dict.fromkeys((incident.profile, incident.variant) for incident in seen)
    for profile, variant in kinds:
        own = [incident for incident in seen if incident.variant == variant]
        effective = sum(incident.had_effect for incident in own)
        name = variant if profile == variant else f"{profile} {variant}"
        yield f"  {name}: {_plural(len(own), 'incident')}, {effective} with an effect{_recovery(own)}"


def _recovery(own: Iterable[IncidentRecord]) -> str:
    times = [incident.recovery for incident in own if incident.had_effect and incident.recovery is not None]
    if not times:
        return ""
    return f"; recovered in {sum(times) / len(times):.1f} s on average, {max(times):.1f} s at most"


def _transitions(volumes: Sequence[VolumeRecord]) -> Iterator[str]:
    """The volumes that moved, the worst first."""
    moved = [one for one in volumes if one.verdict != STABLE or any(one.transitions.values())]
    moved.sort(key=lambda one: (WORST_FIRST.index(one.verdict), -sum(one.transitions.values()), one.name))
    for one in moved[:MOST_ROWS]:
        counted = ", ".join(f"{name} {count}" for name, count in one.transitions.items()) or "never ready"
        yield f"  {one.verdict:<11} {one.name} ({one.storage_class}): {counted}"
    if len(moved) > MOST_ROWS:
        yield f"  and {len(moved) - MOST_ROWS} more that moved; the run's outcome.json (--kscen-archive DIR) has all"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
