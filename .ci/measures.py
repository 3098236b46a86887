"""Print the measures of readability: now and wanted. `python .ci/measures.py` (half a minute).

The first five are counted in the same way for other projects: how docstrings start, class names in
several modules, wide lines, modules per 10,000 lines, and private functions that are used once.

Two more measures are not printed. Files to touch for a new profile, health source or report are
counted by hand in docs/extending.md: each how-to names its files, and the tests in tests/extensions
run them from another package. Time is measured by benchmarks/: docs/benchmarks.md has its rows.
"""

from __future__ import annotations

import ast
import collections
import subprocess
import sys

from language import PACKAGE, ROOT, STARTS, docstrings

WIDTH = 100


def private_functions() -> tuple[int, int]:
    """Count the private functions, and those that are referenced once in their module."""
    defined = once = 0
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used: collections.Counter[str] = collections.Counter()
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name.startswith("_") and not node.name.startswith("__"):
                    names.add(node.name)
            elif isinstance(node, ast.Name):
                used[node.id] += 1
            elif isinstance(node, ast.Attribute):
                used[node.attr] += 1
        defined += len(names)
        once += sum(used[name] == 1 for name in names)
    return defined, once


def measures() -> list[tuple[str, str, str]]:
    paths = sorted(PACKAGE.rglob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    lines = [line for text in texts for line in text.splitlines()]
    starts = [text for path in paths for _, text in docstrings(path)]
    bad = sum(
        text.lstrip("`*\"'").split(None, 1)[0].strip("`*.,:").lower() in STARTS for text in starts
    )
    classes = collections.defaultdict(set)
    for path, text in zip(paths, texts, strict=True):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                classes[node.name].add(path)
    defined, once = private_functions()
    entered = subprocess.run(
        [sys.executable, ROOT / ".ci" / "entered_modules.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    wide = sum(len(line) > WIDTH for line in lines)
    return [
        (
            "docstrings that start with a pronoun, conjunction or preposition",
            f"{bad / len(starts):.1%}",
            "<= 4 %",
        ),
        (
            "class names used by two or more modules",
            str(sum(len(where) > 1 for where in classes.values())),
            "<= 20",
        ),
        ("lines over 100 characters", str(wide), "0"),
        ("modules per 10,000 lines", f"{len(paths) / len(lines) * 1e4:.0f}", "<= 60"),
        ("private functions referenced once", f"{once / defined:.0%}", "<= 45 %"),
        ("modules of the harness that a megatest enters", entered.stdout.split()[-1], "<= 50"),
    ]


if __name__ == "__main__":
    for name, now, wanted in measures():
        print(f"| {name} | {now} | {wanted} |")
