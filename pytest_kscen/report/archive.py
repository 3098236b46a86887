"""Archive folder of a run: journal, record of changes, outcome, summary, stories of volumes whose
state changed, and the facts to repeat the run (seed, options, command).

`pytest_kscen judge` and `story` read these folders later. Nothing outside of a run's own folder
may be written or removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.journal import JournalTaken, is_being_written, schema
from pytest_kscen.report.protocol import Report
from pytest_kscen.report.story import stories
from pytest_kscen.report.summary import choose_stories

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Iterator
    from typing import Self

    from pytest_kscen.journal import Journal
    from pytest_kscen.judge.outcome import Outcome
    from pytest_kscen.report.protocol import ReportedResult, ReportedRun, ReportedSession

JOURNAL = "journal.jsonl"
CHANGES = "changes.jsonl.gz"
FACTS = "run.json"
LONGEST_NAME = 150
AMBIGUOUS = re.compile(r"[^\w./:]")  # replaced characters, by which two ids may get one name
STORIES = 50  # at least; every broken or unknown volume has one
LEFT_OUT = "LEFT-OUT.txt"  # among the stories; no volume may have this name


class ArchiveReport(Report):
    """Archive of a session's runs: one folder per run below --kscen-archive.

    The folder is made when the run has passed all checks, and the journal moves there: a killed run
    leaves its journal. Results are written when the run is over.
    """

    name = "archive"

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root

    @classmethod
    def for_session(cls, session: ReportedSession) -> Self | None:
        return cls(session.archive) if session.archive else None

    def prepare(self, run: ReportedRun) -> None:
        """Refuse a run if another run still writes to its folder.

        Raise ValueError with the folder and --kscen-archive.
        """
        folder = self._folder(run)
        if is_being_written(folder / JOURNAL):
            raise _taken(folder)

    def start(self, run: ReportedRun) -> None:
        test = run.test
        facts = {
            "test": test.id,
            "seed": test.seed,
            "options": test.options,
            "command": test.command,
            "command_folder": test.folder,
        }
        if run.journal:
            begin(self._folder(run), facts, run.journal)
            if run.changes:
                run.changes.keep_in(self._folder(run) / CHANGES)

    def finish(self, run: ReportedRun) -> None:
        if run.journal and run.journal.path:
            write_results(run.journal.path.parent, run.result)

    def _folder(self, run: ReportedRun) -> pathlib.Path:
        return self._root / folder_name(run.test.id, run.number)


def begin(folder: pathlib.Path, facts: dict[str, Any], journal: Journal) -> None:
    """Continue the journal in this folder, and write the run's facts beside it.

    Files of an earlier session are removed: this run's, and the folders of later runs of the same
    test. Results are removed first: if the run is killed now, its folder must not hold another
    run's outcome.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def remove_earlier() -> None:
        _remove_results(folder)
        for later in [*_later_runs(folder, facts["test"])]:
            _remove(later)
        (folder / FACTS).unlink(missing_ok=True)

    try:
        journal.keep_in(folder / JOURNAL, remove_earlier)
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
        f"another run still writes to {folder}. Wait for its end, or choose another --kscen-archive"
    )


def _remove_results(folder: pathlib.Path) -> None:
    written = (folder / CHANGES, folder / "outcome.json", folder / "summary.txt")
    for stale in (*written, *folder.glob("stories/*.txt")):
        stale.unlink(missing_ok=True)


def _later_runs(folder: pathlib.Path, test: str) -> Iterator[pathlib.Path]:
    """Yield folders of the test's later runs, which an earlier session left.

    Folders of other tests and programs are left out, and folders that a run still writes to.
    """
    number = _number(folder, test)
    for other in folder.parent.glob(f"{folder_name(test, 1)}-*") if number else ():
        if (
            _number(other, test) > number
            and _belongs_to(other, test)
            and not is_being_written(other / JOURNAL)
        ):
            yield other


def _number(folder: pathlib.Path, test: str) -> int:
    """Return the number of the test's run with this folder name; 0 if there is none.

    The first run's folder has no number in its name, but the test's own name may end with one.
    """
    first, last = folder_name(test, 1), folder.name.rpartition("-")[2]
    number = 1 if folder.name == first else int(last) if last.isdecimal() else 0
    return number if number and folder.name == folder_name(test, number) else 0


def _belongs_to(folder: pathlib.Path, test: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        facts = orjson.loads((folder / FACTS).read_bytes())
        return not folder.is_symlink() and isinstance(facts, dict) and facts.get("test") == test
    return False


def _remove(folder: pathlib.Path) -> None:
    """Remove this plugin's files; a folder with any other file in it stays.

    Files that a person has added are never removed.
    """
    _remove_results(folder)
    for stale in (folder / JOURNAL, folder / CHANGES, folder / FACTS):
        stale.unlink(missing_ok=True)
    for place in (folder / "stories", folder):
        with contextlib.suppress(OSError):
            place.rmdir()


def write_results(folder: pathlib.Path, result: ReportedResult) -> None:
    (folder / "outcome.json").write_bytes(result.as_json())
    write_lines(folder / "summary.txt", result.summary())
    result.write_stories(folder)


def write_stories(folder: pathlib.Path, journal: Journal, outcome: Outcome) -> None:
    """Write the stories of volumes whose state changed, the worst first, and a list of the others.

    At most STORIES are written, but always all broken or unknown volumes. Without a story there is
    no folder.
    """
    chosen, left_out = choose_stories(outcome, STORIES)
    if chosen:
        (folder / "stories").mkdir(exist_ok=True)
    for name, lines in stories(journal, [volume.name for volume in chosen]).items():
        write_lines(folder / "stories" / f"{name}.txt", lines)
    if left_out:
        headline = (
            f"{len(left_out)} more volumes moved. Print the story of any: "
            "`python -m pytest_kscen story FOLDER VOLUME`"
        )
        write_lines(
            folder / "stories" / LEFT_OUT,
            [headline, *(f"{volume.verdict:<11} {volume.name}" for volume in left_out)],
        )


def write_lines(path: pathlib.Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def folder_name(test: str, number: int) -> str:
    """Return the name of the folder of a test's first, second, ... run.

    It is the test's id without characters that file systems refuse. A changed or shortened id gets
    a part of its hash, so that no two tests share a folder. Second and later runs of a test get
    their number.
    """
    name = re.sub(r"[^\w.\-]+", "-", test.replace("::", "-").replace("/", "-")).strip("-")
    outside = name.startswith("..")
    name = name.lstrip("-.") if outside else name
    if AMBIGUOUS.search(test) or outside or len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
    return name if number == 1 else f"{name}-{number}"
