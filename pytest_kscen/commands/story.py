"""`python -m pytest_kscen story FOLDER [VOLUME]`: print the story of one volume, or list the
volumes of a run.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from typing import TYPE_CHECKING

from pytest_kscen.journal import JournalDamaged, read
from pytest_kscen.judge.outcome import judge
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.report.archive import JOURNAL
from pytest_kscen.report.story import story

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.journal import Entry
    from pytest_kscen.judge.outcome import Outcome

MOST = 20  # names in a message


class Unknown(Exception):
    """Volume or folder that does not exist; the message lists those that do."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen story", description="One volume's story."
    )
    parser.add_argument(
        "folder", type=pathlib.Path, help="the folder of a run, as --kscen-archive keeps it"
    )
    parser.add_argument(
        "volume",
        nargs="?",
        help="the volume's name, or how it begins; without it the volumes are listed",
    )
    chosen = parser.parse_args(arguments)
    try:
        tell(_told(chosen.folder, chosen.volume))
    except (Unknown, JournalDamaged) as unknown:
        print(unknown, file=sys.stderr)
        return 1
    return 0


def tell(lines: Iterable[str]) -> None:
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe; no error when Python flushes at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(folder: pathlib.Path, wanted: str | None) -> Iterable[str]:
    path, journal = read_in(folder)
    outcome = judge(journal, path)
    volumes = outcome.volumes
    if not volumes and (crashed := _crashes(outcome)):
        raise Unknown(crashed[0])
    if wanted is None:
        return [f"{one.verdict:<11} {one.name}" for one in volumes] or [
            f"the run has no volume; lines in its journal: {len(journal)}"
        ]
    return story(journal, _one_of(list(dict.fromkeys(one.name for one in volumes)), wanted))


def _crashes(outcome: Outcome) -> list[str]:
    """Return why the volumes are unknown."""
    return [one.why for one in outcome.findings if one.check == "volumes" and "crashed" in one.why]


def read_in(folder: pathlib.Path) -> tuple[pathlib.Path, list[Entry]]:
    """The journal in a run's folder, and what it says."""
    try:
        path = journal_in(folder)
        return path, read(path)
    except OSError as error:
        raise Unknown(
            f"{error.filename or folder / JOURNAL} cannot be read: {error.strerror or error}"
        ) from None


def journal_in(folder: pathlib.Path) -> pathlib.Path:
    if (path := folder / JOURNAL).is_file():
        return path
    if path.is_dir():
        raise Unknown(f"{path} cannot be read: it is a folder")
    if runs := _runs_in(folder):
        raise Unknown(f"{folder} has the folders of runs: name one of them: {_some(runs)}")
    raise Unknown(
        f"{folder} is no folder of a run, for it has no "
        f"{JOURNAL}{_what_there_is(folder.name, _runs_in(folder.parent))}"
    )


def _runs_in(folder: pathlib.Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob(f"*/{JOURNAL}"))


def _one_of(names: list[str], wanted: str) -> str:
    found = [name for name in names if name == wanted] or [
        name for name in names if name.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise Unknown(f"{len(found)} volumes begin with {wanted!r}: {_some(found)}")
    raise Unknown(f"the run has no volume {wanted!r}{_what_there_is(wanted, names)}")


def _what_there_is(wanted: str, names: list[str]) -> str:
    return f"{nearest(wanted, names)}; there are {_some(names)}" if names else "; there are none"


def _some(names: list[str]) -> str:
    return ", ".join(
        [*names[:MOST], *([f"and {len(names) - MOST} more"] if len(names) > MOST else [])]
    )
