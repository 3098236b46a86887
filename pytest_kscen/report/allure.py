"""A run in an Allure report: a step for it with one for each incident and each volume that
moved, and its papers attached.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.judge.verdict import INVALID, UNKNOWN
from pytest_kscen.judge.volumes import BROKEN
from pytest_kscen.objects.arguments import in_words
from pytest_kscen.report.story import kind_of_fault, stories
from pytest_kscen.report.summary import summary, to_tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.journal import Journal
    from pytest_kscen.judge.incidents import IncidentRecord
    from pytest_kscen.judge.outcome import Outcome

STORIES = 20  # or as many as volumes are broken or unknown, if these are more
LARGEST_JOURNAL = 20 * 1024 * 1024  # bytes; a report is loaded by a browser


class Failed(AssertionError):
    """Allure shows what ends with it as failed."""


class Unjudged(Exception):
    """Allure shows what ends with it as broken."""


COLOURS = {INVALID: Failed, BROKEN: Failed, UNKNOWN: Unjudged}
"""What a step ends with, so that it has the colour of its verdict."""


def attach(outcome: Outcome, journal: Journal, title: str) -> None:
    """To be called inside the test, while Allure listens."""
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
                    _say(effect)
        chosen, left_out = to_tell(outcome, STORIES)
        told = stories(journal, [one.name for one in chosen])
        for volume in chosen:
            with _step(f"{volume.verdict}: {volume.name}", volume.verdict, volume.unjudged):
                allure.attach("\n".join(told[volume.name]), f"the story of {volume.name}", text)
        if left_out:
            _say(
                f"and {len(left_out)} more that moved: `python -m pytest_kscen story "
                "FOLDER VOLUME` tells any"
            )


def _say(line: str) -> None:
    """Steps are Allure's lines."""
    import allure

    with allure.step(line):
        pass


@contextlib.contextmanager
def _step(title: str, verdict: str, why: str) -> Iterator[None]:
    import allure

    with contextlib.suppress(Failed, Unjudged), allure.step(title):
        yield
        if verdict in COLOURS:
            raise COLOURS[verdict](why)


def incident_in_words(incident: IncidentRecord) -> str:
    until = in_words(incident.removed_at) if incident.removed_at is not None else "the end"
    effect = "" if incident.had_effect else ", without an effect"
    kind = kind_of_fault(incident.profile, incident.variant)
    nodes = ", ".join(incident.targets.get("nodes", ()))
    return f"{in_words(incident.started_at)} to {until}: {kind} on {nodes or 'nothing'}{effect}"
