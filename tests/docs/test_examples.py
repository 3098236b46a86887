"""Every Python example in the README and the docs runs as it stands; every option and marker is in the reference."""

from __future__ import annotations

import pathlib
import re

import pytest

from pytest_kscen import markers, options

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(BLOCK.findall(page.read_text()), 1)
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(pytester, code):
    pytester.makepyfile(test_example=code)
    result = pytester.runpytest("-q")
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] == code.count("def test_")


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize(
    "name", [option.flag for option in options.OPTIONS] + [line.partition("(")[0] for line in markers.MARKERS if "(" in line]
)
def test_the_reference_names_it(name):
    assert f"`{name}" in (ROOT / "docs" / "reference.md").read_text()


LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in LINK.findall(page.read_text()):
        assert (page.parent / link).exists(), link
