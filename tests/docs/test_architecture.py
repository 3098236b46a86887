"""The pages on architecture and the public API agree with the code."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PUBLIC = re.findall(
    r"^## (pytest_kscen[\w.]*)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize("program", ["architecture_tables.py", "api_page.py", "run_picture.py"])
def test_generated_page_is_up_to_date(program):
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / program, "--check"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def imports(code):
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_kscen"):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                (alias.name, "") for alias in node.names if alias.name.startswith("pytest_kscen")
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_import_public_names_only(page):
    for code in BLOCK.findall(page.read_text()):
        for module, name in imports(code):
            assert module in PUBLIC
            assert not name or name in importlib.import_module(module).__all__


def test_public_modules_are_typed_and_complete():
    assert (ROOT / "pytest_kscen" / "py.typed").exists()
    for module in PUBLIC:
        loaded = importlib.import_module(module)
        assert all(hasattr(loaded, name) for name in loaded.__all__)


@pytest.mark.parametrize("module", ["", ".chaos", ".report", ".scenario", ".storage"])
def test_lazy_names_are_imported_for_the_linter_too(module):
    """A lazy name that no import names would be an edge that import-linter does not see."""
    tree = ast.parse(
        pathlib.Path(importlib.import_module(f"pytest_kscen{module}").__file__).read_text()
    )
    (for_types,) = (node for node in tree.body if isinstance(node, ast.If))
    (assigned,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__getattr__"
    )
    lazy = {name: of for of, names in ast.literal_eval(assigned.args[1]).items() for name in names}
    assert lazy == {alias.name: node.module for node in for_types.body for alias in node.names}
