"""A run as JUnit properties: what a CI server's history can draw lines of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.reports.recoveries import Recoveries

if TYPE_CHECKING:
    from pytest_kscen.checks.outcome import Outcome


def properties(outcome: Outcome) -> list[tuple[str, object]]:
    """Names and values; those of a test's second run carry its number."""
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
        ("kscen.incidents.gone", recoveries.gone),
        ("kscen.incidents.mingled", recoveries.mingled),
        *([("kscen.recovery.longest", round(recoveries.longest, 3))] if recoveries.times else []),
        ("kscen.leftovers", len(outcome.leftovers)),
    ]
