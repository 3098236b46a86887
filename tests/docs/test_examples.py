"""Examples in the README and the docs run, and the reference lists every option and marker."""

from __future__ import annotations

import pathlib
import re
import shlex

import pytest

from pytest_kscen.__main__ import COMMANDS, main
from pytest_kscen.plugin import markers, options

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(BLOCK.findall(page.read_text()), 1)
    if "kscen_examples" not in code  # tests/extensions run those, with the package installed
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_example_runs(pytester, code):
    pytester.makepyfile(test_example=code)
    result = pytester.runpytest("-q")
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] == code.count("def test_")


def test_docs_contain_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize(
    "name",
    [option.flag for option in options.OPTIONS]
    + [line.partition("(")[0] for line in markers.MARKERS if "(" in line],
)
def test_reference_names_the_option(name):
    assert f"`{name}" in (ROOT / "docs" / "reference.md").read_text()


def test_architecture_names_every_package():
    package = ROOT / "pytest_kscen"
    packages = {path.name for path in package.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    packages |= {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    named = re.findall(
        r"^\| `(\w+)`", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE
    )
    assert set(named) == packages


def test_reference_names_every_command():
    reference = (ROOT / "docs" / "reference.md").read_text()
    assert [name for name in COMMANDS if f"`python -m pytest_kscen {name}" not in reference] == []


def test_results_page_describes_two_runs(pytester, capsys):
    """Run its second example and the command it gives."""
    page = (ROOT / "docs" / "scenarios-analysis.md").read_text()
    pytester.makepyfile(test_two=BLOCK.findall(page)[1])
    pytester.runpytest("-q", "--kscen-archive=DIR").assert_outcomes(passed=1)
    spread, packed = sorted((pytester.path / "DIR").iterdir())
    capsys.readouterr()

    assert main(["scenario-report", str(spread), str(packed), "--names=spread,packed"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["pods", "scheduled", "4", "5", "1"] in rows
    assert ["default/large", "pending", "-", "a", "3.1"] in rows or [
        "default/large",
        "pending",
        "-",
        "b",
        "3.1",
    ] in rows


def test_storage_page_contains_a_story(pytester, capsys):
    """Run its example and the commands it gives."""
    page = (ROOT / "docs" / "storage.md").read_text()
    pytester.makepyfile(test_storage="\n".join(BLOCK.findall(page)))
    name = "test_two_lost_replicas_of_three_are_seen"
    pytester.runpytest("-q", "--kscen-archive=DIR", "-k", name).assert_outcomes(
        passed=1, deselected=3
    )
    commands = re.findall(rf"^python -m pytest_kscen (story DIR/\S+{name}.*)$", page, re.MULTILINE)
    assert [main(shlex.split(command)) for command in commands] == [0, 0]
    assert "check ended: IOReady False, Quorum True" in capsys.readouterr().out
