"""`python -m pytest_kscen story FOLDER [VOLUME]`: a volume's story from a run's folder, or which volumes it tells of."""

from __future__ import annotations

import argparse
import pathlib
import sys

from pytest_kscen.checks.incidents import incidents
from pytest_kscen.checks.volumes import volumes
from pytest_kscen.journal import read
from pytest_kscen.reports.story import story


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m pytest_kscen story", description="One volume's story.")
    parser.add_argument("folder", type=pathlib.Path, help="the folder of a run, as --kscen-archive keeps it")
    parser.add_argument("volume", nargs="?", help="the volume's name, or how it begins; without it the volumes are listed")
    chosen = parser.parse_args(arguments)
    path = chosen.folder / "journal.jsonl"
    if not path.is_file():
        print(f"there is no {path}: name a run's folder under the one that --kscen-archive was given", file=sys.stderr)
        return 1
    journal = read(path)
    told = volumes(journal, incidents(journal))
    found = [one.name for one in told if one.name.startswith(chosen.volume or "")]
    if chosen.volume is None:
        print("\n".join(f"{one.verdict:<11} {one.name}" for one in told))
    elif len(found) != 1:
        print(
            f"{len(found)} volumes begin with {chosen.volume!r}: {', '.join(found or [one.name for one in told])}", file=sys.stderr
        )
        return 1
    else:
        print("\n".join(story(journal, found[0])))
    return 0
