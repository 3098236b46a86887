"""`python -m pytest_kscen scenario-report RUN [RUN]`: report one scenario, or compare two runs
of it.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import TYPE_CHECKING

import yaml

from pytest_kscen.commands.output import print_lines
from pytest_kscen.commands.story import LookupFailed, journal_path
from pytest_kscen.scenario.analysis.comparison import TABLES as OF_TWO
from pytest_kscen.scenario.analysis.rendering import TABLES as OF_ONE
from pytest_kscen.scenario.analysis.rendering import as_csv, as_json_lines
from pytest_kscen.scenario.analysis.result import Result
from pytest_kscen.scenario.analysis.timeline import NoScenario

if TYPE_CHECKING:
    from pytest_kscen.scenario.analysis.comparison import Comparison

FORMS = {"csv": as_csv, "jsonl": as_json_lines}
TWO = 2


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_kscen scenario-report",
        description="Print the results of a scenario, or compare two runs of it.",
    )
    parser.add_argument(
        "run", type=pathlib.Path, help="the folder of a run, or a file with the Scenario"
    )
    parser.add_argument(
        "other", type=pathlib.Path, nargs="?", help="a second one, to be compared with the first"
    )
    parser.add_argument("--scenario", default="", help="its name, if the run had more than one")
    parser.add_argument(
        "--names",
        metavar="A,B",
        help="names of the two runs (default: the last parts of their paths)",
    )
    parser.add_argument("--markdown", action="store_true", help="Markdown in place of plain text")
    tables = ", ".join(dict.fromkeys([*OF_ONE, *OF_TWO]))
    parser.add_argument("--table", metavar="TABLE", help=f"the rows of one table alone: {tables}")
    parser.add_argument(
        "--format", choices=FORMS, default="csv", help="format of these rows: csv or jsonl"
    )
    parser.add_argument(
        "--picture", type=pathlib.Path, metavar="FILE", help="draw allocation by step there, as SVG"
    )
    chosen = parser.parse_args(arguments)
    try:
        first = _result(chosen.run, chosen.scenario)
        if chosen.other is None:
            _print(chosen, first)
        else:
            other = _result(chosen.other, chosen.scenario)
            _print(chosen, first.compare(other, names=_names(chosen)))
    except (LookupFailed, NoScenario, ValueError) as wrong:
        print(wrong, file=sys.stderr)
        return 1
    return 0


def _print(chosen: argparse.Namespace, result: Result | Comparison) -> None:
    if chosen.picture:
        chosen.picture.write_text(result.picture())
    if chosen.table:
        text = FORMS[chosen.format](result.rows(chosen.table))
    elif isinstance(result, Result):
        text = result.report(markdown=chosen.markdown)
    else:
        text = result.markdown() if chosen.markdown else result.text()
    print_lines(text.splitlines())


def _result(path: pathlib.Path, scenario: str) -> Result:
    if not path.is_file():
        journal_path(path)
        return Result.of_folder(path, scenario)
    try:
        obj = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LookupFailed(f"{path} is not a Scenario: {' '.join(str(error).split())}") from error
    if not isinstance(obj, dict) or obj.get("kind") != "Scenario":
        raise LookupFailed(
            f"{path} is not a Scenario: name the folder of a run, or a file with a Scenario "
            "that has been played"
        )
    if not (obj.get("status") or {}).get("scenarioResult"):
        raise LookupFailed(
            f"the Scenario in {path} has no result: it has not been played, or it was "
            "stored without its status"
        )
    return Result.of_status(obj)


def _names(chosen: argparse.Namespace) -> tuple[str, str]:
    if chosen.names is None:
        one, other = chosen.run.resolve(), chosen.other.resolve()
        return (
            (one.stem, other.stem)
            if one.stem != other.stem
            else (str(chosen.run), str(chosen.other))
        )
    names = chosen.names.split(",")
    if len(names) != TWO:
        raise LookupFailed(
            f"--names={chosen.names}: two names with a comma between them, such as "
            "--names=before,after"
        )
    return names[0], names[1]
