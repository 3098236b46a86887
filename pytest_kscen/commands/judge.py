"""`python -m pytest_kscen judge FOLDER`: judge a run again from its folder, without its cluster."""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import TYPE_CHECKING

from pytest_kscen.commands.output import print_lines
from pytest_kscen.commands.story import LookupFailed, read_journal
from pytest_kscen.journal import JournalDamaged, stored_changes
from pytest_kscen.judge.outcome import judge
from pytest_kscen.judge.verdict import INVALID, UNKNOWN, VALID
from pytest_kscen.report.archive import CHANGES
from pytest_kscen.report.summary import summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.journal import Change

EXIT_CODES = {VALID: 0, INVALID: 1, UNKNOWN: 2}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen judge", description="Judge a run again."
    )
    parser.add_argument(
        "folder", type=pathlib.Path, help="the folder of a run, as --kscen-archive keeps it"
    )
    folder = parser.parse_args(arguments).folder
    try:
        path, journal = read_journal(folder)
        if not journal:
            raise LookupFailed(  # noqa: TRY301  # reported below
                f"{path} is empty: the run was killed before anything happened in it, and "
                "there is nothing to judge"
            )
        record, without_record = path.parent / CHANGES, ""
        changes: Iterator[Change] = iter(())
        if record.exists():
            changes = stored_changes(record)
        else:
            without_record = f"{record} is missing: restore it as the run has written it"
        outcome = judge(journal, path, changes=changes, without_record=without_record)
        print_lines(summary(outcome))
        return EXIT_CODES[outcome.judged]
    except (LookupFailed, JournalDamaged) as unknown:
        why = str(unknown)
    # an uncaught error would exit with 1, the code of an invalid run
    except Exception as error:  # noqa: BLE001
        why = f"{folder} cannot be judged: {error!r}"
    print(why, file=sys.stderr)
    return EXIT_CODES[UNKNOWN]
