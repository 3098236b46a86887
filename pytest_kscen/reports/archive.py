"""A run's folder: journal, outcome, summary, the stories of volumes that moved, seed, options, the line that runs it again.

It is there from the run's beginning, with a journal that is written as things happen: a run that is killed leaves that. What
is judged comes when the run is over.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.checks.volumes import STABLE
from pytest_kscen.journal import is_being_written
from pytest_kscen.reports.command import JOURNAL
from pytest_kscen.reports.story import story
from pytest_kscen.reports.summary import summary

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable

    from pytest_kscen.checks.outcome import Outcome
    from pytest_kscen.journal import Journal

LONGEST = 150
STORIES = 50  # volumes that moved, at most; `python -m pytest_kscen story` tells any


def begin(folder: pathlib.Path, facts: dict[str, Any]) -> pathlib.Path:
    """Where the journal is to be written; an earlier run of the same test gives way, if it is over."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = folder / JOURNAL
    if is_being_written(journal):
        raise ValueError(f"a run that is still on writes to {folder}: wait for its end, or give another --kscen-archive")
    for stale in (journal, folder / "outcome.json", folder / "summary.txt", *folder.glob("stories/*.txt")):
        stale.unlink(missing_ok=True)
    (folder / "run.json").write_bytes(orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE, default=str))
    return journal


def finish(folder: pathlib.Path, journal: Journal, outcome: Outcome) -> None:
    """What came of it, for people and for programs."""
    (folder / "outcome.json").write_bytes(outcome.as_json())
    write_lines(folder / "summary.txt", summary(outcome))
    for volume in [one for one in outcome.volumes if one.verdict != STABLE][:STORIES]:
        (folder / "stories").mkdir(exist_ok=True)
        write_lines(folder / "stories" / f"{volume.name}.txt", story(journal, volume.name))


def write_lines(path: pathlib.Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def folder_name(test: str, number: int) -> str:
    """A test's id without what a file system would not like; the second run of one test and later ones carry their number.

    One that had to be changed or cut carries a piece of its hash, so that no two tests share a folder.
    """
    name = re.sub(r"[^\w.\-]+", "-", test.replace("::", "-").replace("/", "-")).strip("-")
    outside = name.startswith("..")
    name = name.lstrip("-.") if outside else name
    if "[" in test or outside or len(name) > LONGEST:
        name = f"{name[:LONGEST]}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
    return name if number == 1 else f"{name}-{number}"
