"""Tests of equal names inside and outside pytest's root directory."""

from __future__ import annotations

import json
import shlex

RUN = """
    def test_it(scenario_runner):
        with scenario_runner as run:
            run.advance("1s")
"""


def test_tests_outside_the_root_directory_are_distinguished(pytester):
    for folder in ("one", "other"):
        place = pytester.mkdir(folder)
        place.joinpath(f"test_{folder}.py").write_text(RUN.replace("\n    ", "\n"))
    root = pytester.mkdir("root")
    ini = root / "pytest.ini"
    ini.write_text("[pytest]")
    kept = pytester.path / "kept"
    pytester.runpytest(
        "-c", ini, "one/test_one.py", "other/test_other.py", f"--kscen-archive={kept}"
    ).assert_outcomes(passed=2)
    facts = [json.loads(path.read_text()) for path in sorted(kept.glob("*/run.json"))]
    assert [one["test"] for one in facts] == [
        "../one/test_one.py::test_it",
        "../other/test_other.py::test_it",
    ]
    assert len({one["seed"] for one in facts}) == 2


def test_repeat_command_is_relative_to_the_invocation_directory(pytester, monkeypatch):
    below = pytester.mkdir("below")
    below.joinpath("test_below.py").write_text("def test_fails(cluster):\n    assert False\n")
    pytester.makefile(".ini", other="[pytest]\nkscen_seed = 5\n")
    monkeypatch.chdir(below)
    reported = pytester.runpytest("-c", "../other.ini", "test_below.py").stdout.str().splitlines()
    (line,) = (line for line in reported if line.startswith("pytest "))
    assert line == "pytest -c ../other.ini test_below.py::test_fails --kscen-seed=5"
    _, *arguments = shlex.split(line)
    pytester.runpytest(*arguments).assert_outcomes(failed=1)
