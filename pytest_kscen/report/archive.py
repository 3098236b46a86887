"""A run's folder: journal, outcome, summary, the stories of volumes that moved, seed, options, the
line that runs it again.

It is there from when nothing refuses the run, with a journal that is written as things happen: a
run that is killed leaves that. What is judged comes when the run is over."""

from __future__ import annotations

import contextlib
import hashlib
import re
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.journal import JournalTaken, is_being_written, schema
from pytest_kscen.report.story import stories
from pytest_kscen.report.summary import summary, to_tell

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Iterator

    from pytest_kscen.journal import Journal
    from pytest_kscen.judge.outcome import Outcome

JOURNAL = "journal.jsonl"


FACTS = "run.json"
LONGEST = 150
AMBIGUOUS = re.compile(r"[^\w./:]")  # what another name may have as well, once it is changed
STORIES = 50  # or as many as volumes are broken or unknown, if these are more
LEFT_OUT = "LEFT-OUT.txt"  # among the stories; no volume may have this name


def check_free(folder: pathlib.Path) -> None:
    """Nobody who is still on writes there."""
    if is_being_written(folder / JOURNAL):
        raise _taken(folder)


def begin(folder: pathlib.Path, facts: dict[str, Any], journal: Journal) -> None:
    """The journal goes on in this folder; what was left there of this run of the test gives way,
    and what was of later ones.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def give_way() -> None:
        """First what was judged: a run that is killed meanwhile has no other's outcome."""
        _clear(folder)
        for later in [*_later_runs(folder, facts["test"])]:
            _remove(later)
        (folder / FACTS).unlink(missing_ok=True)

    try:
        journal.keep_in(folder / JOURNAL, give_way)
    except JournalTaken:
        raise _taken(folder) from None
    (folder / FACTS).write_bytes(
        orjson.dumps(
            {**schema.stamp(), **facts},
            option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
            default=str,
        )
    )


def _taken(folder: pathlib.Path) -> ValueError:
    return ValueError(
        f"a run that is still on writes to {folder}: wait for its end, or give another "
        "--kscen-archive"
    )


def _clear(folder: pathlib.Path) -> None:
    """Of what comes when a run is over."""
    for stale in (folder / "outcome.json", folder / "summary.txt", *folder.glob("stories/*.txt")):
        stale.unlink(missing_ok=True)


def _later_runs(folder: pathlib.Path, test: str) -> Iterator[pathlib.Path]:
    """Of the same test: what is there of them before they have begun is an earlier session's."""
    number = _number(folder, test)
    for other in folder.parent.glob(f"{folder_name(test, 1)}-*") if number else ():
        if (
            _number(other, test) > number
            and _is_of(other, test)
            and not is_being_written(other / JOURNAL)
        ):
            yield other


def _number(folder: pathlib.Path, test: str) -> int:
    """Which run of the test has a folder of this name; 0 if none has."""
    first, last = folder_name(test, 1), folder.name.rpartition("-")[2]
    number = 1 if folder.name == first else int(last) if last.isdecimal() else 0
    return number if number and folder.name == folder_name(test, number) else 0


def _is_of(folder: pathlib.Path, test: str) -> bool:
    """Whether we have made it, for this test."""
    with contextlib.suppress(OSError, ValueError):
        facts = orjson.loads((folder / FACTS).read_bytes())
        return not folder.is_symlink() and isinstance(facts, dict) and facts.get("test") == test
    return False


def _remove(folder: pathlib.Path) -> None:
    """What is ours; somebody else's files stay, and where they are."""
    _clear(folder)
    for stale in (folder / JOURNAL, folder / FACTS):
        stale.unlink(missing_ok=True)
    for place in (folder / "stories", folder):
        with contextlib.suppress(OSError):
            place.rmdir()


def finish(folder: pathlib.Path, journal: Journal, outcome: Outcome) -> None:
    """What came of it, for people and for programs."""
    (folder / "outcome.json").write_bytes(outcome.as_json())
    write_lines(folder / "summary.txt", summary(outcome))
    chosen, left_out = to_tell(outcome, STORIES)
    if chosen:
        (folder / "stories").mkdir(exist_ok=True)
    for name, told in stories(journal, [one.name for one in chosen]).items():
        write_lines(folder / "stories" / f"{name}.txt", told)
    if left_out:
        how = (
            "`python -m pytest_kscen story FOLDER VOLUME` tells that of any of these "
            f"{len(left_out)} volumes, which moved too:"
        )
        write_lines(
            folder / "stories" / LEFT_OUT,
            [how, *(f"{one.verdict:<11} {one.name}" for one in left_out)],
        )


def write_lines(path: pathlib.Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def folder_name(test: str, number: int) -> str:
    """A test's id without what a file system would not like; the second run of one test and later
    ones carry their number.

    One that had to be changed or cut carries a piece of its hash, so that no two tests share a
    folder."""
    name = re.sub(r"[^\w.\-]+", "-", test.replace("::", "-").replace("/", "-")).strip("-")
    outside = name.startswith("..")
    name = name.lstrip("-.") if outside else name
    if AMBIGUOUS.search(test) or outside or len(name) > LONGEST:
        name = f"{name[:LONGEST]}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
    return name if number == 1 else f"{name}-{number}"
