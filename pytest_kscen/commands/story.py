"""`python -m pytest_kscen story FOLDER [VOLUME]`: print the story of one volume, or list the
volumes of a run.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import TYPE_CHECKING

from pytest_kscen.commands.output import print_lines
from pytest_kscen.journal import JournalDamaged, read
from pytest_kscen.judge.outcome import judge
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.report.archive import JOURNAL
from pytest_kscen.report.story import story

if TYPE_CHECKING:
    from pytest_kscen.journal import Entry

MOST = 5  # names in a message
MOST_VOLUMES = 10  # volumes in a message, one per line


class LookupFailed(Exception):
    """Report a volume or folder that does not exist, or cannot be read.

    The message lists existing ones; commands print it and exit with an error.
    """


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
        help="the volume's name or a prefix of it; without it the volumes are listed",
    )
    chosen = parser.parse_args(arguments)
    try:
        path, journal = read_journal(chosen.folder)
        outcome = judge(journal, path)
        volumes = {one.name: f"{one.verdict:<11} {one.name}" for one in outcome.volumes}
        crashed = [
            finding.why
            for finding in outcome.findings
            if finding.check == "volumes" and "crashed" in finding.why
        ]
        if crashed and not volumes:
            raise LookupFailed(crashed[0])  # noqa: TRY301  # reported below
        if chosen.volume is not None:
            print_lines(story(journal, _matching_volume(volumes, chosen.volume)))
        else:
            print_lines(
                [f"{one.verdict:<11} {one.name}" for one in outcome.volumes]
                or [f"the run has no volume; lines in its journal: {len(journal)}"]
            )
    except (LookupFailed, JournalDamaged) as unknown:
        print(unknown, file=sys.stderr)
        return 1
    return 0


def read_journal(folder: pathlib.Path) -> tuple[pathlib.Path, list[Entry]]:
    """Return the path of the journal in a run's folder, and its entries.

    Raises LookupFailed if there is none or it cannot be read, JournalDamaged for a wrong line.
    """
    try:
        path = journal_path(folder)
        return path, read(path)
    except OSError as error:
        raise LookupFailed(
            f"{error.filename or folder / JOURNAL} cannot be read: {error.strerror or error}"
        ) from None


def journal_path(folder: pathlib.Path) -> pathlib.Path:
    """Return the journal of a run's folder; raise LookupFailed if the folder has none.

    The message names the folders of runs in it or in its parent folder.
    """
    if (path := folder / JOURNAL).is_file():
        return path
    if not folder.exists():
        raise LookupFailed(f"{folder} does not exist{_runs_beside(folder)}")
    if path.is_dir():
        raise LookupFailed(f"{path} cannot be read: it is a folder")
    if runs := _runs_in(folder):
        raise LookupFailed(
            f"{folder} is a folder with folders of runs: name one of them: {_shortened(runs)}"
        )
    raise LookupFailed(
        f"{folder} is not the folder of a run: it has no {JOURNAL}{_runs_beside(folder)}"
    )


def _runs_in(folder: pathlib.Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob(f"*/{JOURNAL}"))


def _matching_volume(volumes: dict[str, str], wanted: str) -> str:
    """Return the volume with this name, or the only one that begins so.

    `volumes` has a line for each name, for the message of the LookupFailed if there is none or
    there are several.
    """
    if wanted in volumes:
        return wanted
    found = [name for name in volumes if name.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    lines = [f"  {volumes[name]}" for name in (found or volumes)]
    if found:
        title = f"{len(found)} volumes begin with {wanted!r}:"
    elif volumes:
        title = f"the run has no volume {wanted!r}{nearest(wanted, volumes)}; its volumes:"
    else:
        title = f"the run has no volume {wanted!r}; it has no volumes"
    more = [f"  and {len(lines) - MOST_VOLUMES} more"] if len(lines) > MOST_VOLUMES else []
    raise LookupFailed("\n".join([title, *lines[:MOST_VOLUMES], *more]))


def _runs_beside(folder: pathlib.Path) -> str:
    """Return the end of a message: a folder of a run with a similar name, or the first ones.

    Empty if there is no other folder of a run.
    """
    runs = _runs_in(folder.parent)
    if not runs:
        return ""
    return nearest(folder.name, runs) or (
        f"; folders of runs in {folder.absolute().parent}: {_shortened(runs)}"
    )


def _shortened(names: list[str]) -> str:
    return ", ".join(
        [*names[:MOST], *([f"and {len(names) - MOST} more"] if len(names) > MOST else [])]
    )
