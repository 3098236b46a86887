"""The table of planted bugs: selection, rows, and one short run with a bug and without."""

from argparse import Namespace

import pytest

from planted_bugs import table
from planted_bugs.catalogue import BUGS, planted
from planted_bugs.table import Result


def arguments(**options):
    fields = {"system": None, "bug": None, "seeds": 20, "short": False, "control": False}
    return Namespace(**{**fields, **options})


def test_bugs_are_selected_by_system_and_name():
    assert table.selected(arguments()) == list(BUGS)
    assert all(
        BUGS[name].system == "harness" for name in table.selected(arguments(system="harness"))
    )
    assert table.selected(arguments(bug="minor-from-count")) == ["minor-from-count"]


def test_short_form_has_few_bugs_of_every_system_and_few_seeds():
    given = arguments(short=True, control=True)
    none, *names = table.selected(given)
    assert none == table.CONTROL
    assert {BUGS[name].system for name in names} == {bug.system for bug in BUGS.values()}
    assert len(names) <= len(BUGS) // 4
    assert given.seeds == table.SHORT_SEEDS


@pytest.mark.parametrize(
    ("result", "cells"),
    [
        (Result(True, 2, "invalid", "a | b\nc"), "yes | 2 | invalid | a \\| b c"),
        (Result(False, 20, "valid"), "no | none of 20 | valid | "),
        (Result(True, 1, "invalid", "x" * 200), f"yes | 1 | invalid | {'x' * 159}…"),
    ],
)
def test_row_has_the_result_and_the_cause(result, cells):
    bug = BUGS["minor-from-count"]
    row = table.row(bug.name, result)
    assert row == f"| storage | minor-from-count | {cells} | {bug.cause} |"


def test_seeds_end_with_the_first_run_that_is_not_valid(monkeypatch):
    verdicts = iter(["valid", "valid", "unknown", "invalid"])

    def play(seed, minutes):
        verdict = next(verdicts)
        return Result(verdict != "valid", 1, verdict, seed)

    monkeypatch.setattr(table, "play", play)
    assert table.play_seeds(9, 10) == (True, 3, "unknown", "3")


@pytest.mark.filterwarnings("ignore::pytest_kscen.run.plan.PlanWarning")
def test_run_without_a_bug_is_valid_and_some_run_with_one_is_not():
    assert table.play("1", 10) == (False, 1, "valid", "")
    with planted("lost-link-stands-alone"):
        assert table.play_seeds(9, 10).found


def test_run_that_does_not_end_is_a_result():
    assert table.measure("minor-from-count", 1, 1, 0.01).verdict == "no end"
