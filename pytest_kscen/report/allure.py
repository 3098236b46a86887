"""Allure report of a run: one step for the run, with steps for each incident and each volume whose
state changed; journal, outcome and summary are attached.

Allure is imported when the first run is attached: it may not be installed. `attach` has to be
called inside the test, while Allure is active.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.judge.verdict import INVALID, UNKNOWN
from pytest_kscen.judge.volumes import BROKEN
from pytest_kscen.objects.arguments import in_words
from pytest_kscen.report.protocol import LARGEST_JOURNAL, Report
from pytest_kscen.report.story import kind_of_fault, stories
from pytest_kscen.report.summary import choose_stories, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.journal import Journal
    from pytest_kscen.judge.incidents import IncidentRecord
    from pytest_kscen.judge.outcome import Outcome
    from pytest_kscen.report.protocol import ReportedRun

STORIES = 20  # at least; every broken or unknown volume has one


class AllureReport(Report):
    name = "allure"

    def finish(self, run: ReportedRun) -> None:
        run.result.attach(f"run {run.position}")


class StepFailed(AssertionError):
    """Failure of a step, which Allure shows as failed.

    Raised inside the step and suppressed outside of it, so that the test continues.
    """


class StepUnknown(Exception):
    """Failure of a step, which Allure shows as broken.

    Raised inside the step and suppressed outside of it, so that the test continues.
    """


COLOURS = {INVALID: StepFailed, BROKEN: StepFailed, UNKNOWN: StepUnknown}
"""Exception that a step raises for each verdict, so that Allure gives it the verdict's colour."""


def attach(outcome: Outcome, journal: Journal, title: str) -> None:
    """Add the run to the report of the current test.

    To be called inside the test. A journal larger than LARGEST_JOURNAL is left out.
    """
    import allure

    text, json = allure.attachment_type.TEXT, allure.attachment_type.JSON
    with _step(
        f"{title}: {outcome.judged} after {in_words(outcome.lasted)}",
        outcome.judged,
        outcome.explain(),
    ):
        allure.attach("\n".join(summary(outcome)), "summary", text)
        allure.attach(outcome.as_json(), "outcome.json", json)
        if journal.size <= LARGEST_JOURNAL:
            allure.attach(journal.content(), "journal.jsonl", text)
        for incident in outcome.incidents:
            with allure.step(incident_in_words(incident)):
                for effect in incident.effects:
                    _line(effect)
        chosen, left_out = choose_stories(outcome, STORIES)
        lines = stories(journal, [volume.name for volume in chosen])
        for volume in chosen:
            with _step(f"{volume.verdict}: {volume.name}", volume.verdict, volume.unjudged):
                allure.attach("\n".join(lines[volume.name]), f"story of {volume.name}", text)
        if left_out:
            _line(
                f"{len(left_out)} more volumes moved. Print the story of any: "
                "`python -m pytest_kscen story FOLDER VOLUME`"
            )


def _line(text: str) -> None:
    import allure

    with allure.step(text):
        pass


@contextlib.contextmanager
def _step(title: str, verdict: str, why: str) -> Iterator[None]:
    import allure

    with contextlib.suppress(StepFailed, StepUnknown), allure.step(title):
        yield
        if verdict in COLOURS:
            raise COLOURS[verdict](why)


def incident_in_words(incident: IncidentRecord) -> str:
    """Return times, kind and nodes of an incident, for the title of its step.

    An incident that was active at the end lasts until "the end".
    """
    until = in_words(incident.removed_at) if incident.removed_at is not None else "the end"
    effect = "" if incident.had_effect else ", without an effect"
    kind = kind_of_fault(incident.profile, incident.variant)
    nodes = ", ".join(incident.targets.get("nodes", ()))
    return f"{in_words(incident.started_at)} to {until}: {kind} on {nodes or 'nothing'}{effect}"
