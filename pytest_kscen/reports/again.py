"""`python -m pytest_kscen judge FOLDER`: judge a run again from its folder, without its cluster, by what the checks say today."""

from __future__ import annotations

import argparse
import pathlib
import sys

from pytest_kscen.checks.outcome import judge
from pytest_kscen.checks.verdict import INVALID, UNKNOWN, VALID
from pytest_kscen.journal import JournalDamaged, read
from pytest_kscen.reports.command import Unknown, journal_in, tell
from pytest_kscen.reports.summary import summary

EXIT_CODES = {VALID: 0, INVALID: 1, UNKNOWN: 2}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m pytest_kscen judge", description="Judge a run again.")
    parser.add_argument("folder", type=pathlib.Path, help="the folder of a run, as --kscen-archive keeps it")
    try:
        outcome = judge(read(journal_in(parser.parse_args(arguments).folder)))
    except (Unknown, JournalDamaged) as unknown:
        print(unknown, file=sys.stderr)
        return EXIT_CODES[UNKNOWN]
    tell(summary(outcome))
    return EXIT_CODES[outcome.judged]
