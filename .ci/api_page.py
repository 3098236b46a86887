"""Write docs/api.md, the list of public names; `--check` compares only."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import sys
import typing
from typing import Any

from pytest_kscen.resources import Resource

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "api.md"
MODULES = (
    "pytest_kscen",
    "pytest_kscen.admission",
    "pytest_kscen.chaos",
    "pytest_kscen.clusters",
    "pytest_kscen.report",
    "pytest_kscen.resources",
    "pytest_kscen.scenario",
    "pytest_kscen.scheduler",
    "pytest_kscen.storage",
    "pytest_kscen.workflow.probes",
)
HEAD = """# Public API

Users may import the names on this page. They are typed. A public name is removed or changes its
meaning only in a release that the [changelog](../CHANGELOG.md) marks, and after a release in which
its use warned. Everything else in the package is private and may change in any release. Fixtures,
markers, options and commands are in [the reference](reference.md).

Not all members of a public class are public. Public members are those that
[the reference](reference.md), the [how-tos of extensions](extending.md) and other pages of these
docs name. All other members are private, even without an underscore.

`journal.jsonl`, `run.json` and `outcome.json` carry the version of their schema. `judge` and
`story` read journals of older versions. They refuse a later one and name the version that wrote it.
No command reads `run.json` and `outcome.json` back.

This page is generated: `python .ci/api_page.py`.
"""


def summary(thing: Any) -> str:
    """Return the first sentence of a class or function; of a plain constant, its value."""
    if inspect.isclass(thing) or hasattr(thing, "__code__"):
        text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
        return text.split(". ")[0].rstrip(".").replace("|", "\\|")
    is_plain = isinstance(thing, str | int | Resource) or typing.get_origin(thing)
    return f"`{thing!s}`" if is_plain else f"a {type(thing).__name__}"


def kind(thing: Any) -> str:
    if inspect.isclass(thing):
        return "exception" if issubclass(thing, BaseException) else "class"
    if typing.get_origin(thing):
        return "annotation"
    return "function" if callable(thing) and hasattr(thing, "__code__") else "constant"


def page() -> str:
    parts = [HEAD]
    for name in MODULES:
        module = importlib.import_module(name)
        parts += [f"## {name}\n", "| name | kind | summary |", "|---|---|---|"]
        for each in sorted(module.__all__):
            thing = getattr(module, each)
            parts.append(f"| `{each}` | {kind(thing)} | {summary(thing)} |")
        parts.append("")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    new = page()
    if "--check" not in arguments:
        PAGE.write_text(new, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != new:
        print("docs/api.md is stale: run python .ci/api_page.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
