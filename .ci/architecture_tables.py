"""Write the tables of docs/architecture from docstrings and imports; `--check` only compares.

A table stands between `<!-- table NAME -->` and `<!-- end -->`. NAME is `packages`, or a dotted
package for its modules.
"""

from __future__ import annotations

import ast
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pytest_kscen"
PAGES = [ROOT / "docs" / "architecture.md", *sorted((ROOT / "docs" / "architecture").glob("*.md"))]
TABLE = re.compile(r"<!-- table ([\w.]+) -->\n.*?<!-- end -->", re.DOTALL)


def modules() -> dict[str, ast.Module]:
    """Parse every module, by its dotted name below pytest_kscen; a package goes by its own name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def first_sentence(tree: ast.Module) -> str:
    text = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s+(?=[A-Z`])", text)[0].rstrip(".:").replace("|", "\\|")


def imports(name: str, tree: ast.Module, known: dict[str, ast.Module]) -> set[str]:
    """Return the modules of pytest_kscen that a module imports, late and for types included."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_kscen"):
            stem = (node.module or "").removeprefix("pytest_kscen").removeprefix(".")
            for alias in node.names:
                full = f"{stem}.{alias.name}".removeprefix(".")
                found.add(full if full in known else stem)
    return found - {name, ""}


def packages_table(known: dict[str, ast.Module]) -> list[str]:
    graph = collections.defaultdict(set)
    for name, tree in known.items():
        top = name.split(".")[0]
        graph[top] |= {each.split(".")[0] for each in imports(name, tree, known)} - {top}
    order = ranks(graph)
    rows = ["| package | what it holds | imports |", "|---|---|---|"]
    for top in sorted((name for name in graph if name and name != "__main__"), key=order.get):
        below = ", ".join(f"`{each}`" for each in sorted(graph[top], key=order.get))
        rows.append(f"| `{top}` | {first_sentence(known[top])} | {below or 'nothing'} |")
    return rows


def ranks(graph: dict[str, set[str]]) -> dict[str, int]:
    """Number the packages so that each comes before those it imports; ties by name."""
    left, found = {name: set(below) for name, below in graph.items()}, []
    while left:
        free = sorted(name for name in left if not any(name in below for below in left.values()))
        if not free:
            raise SystemExit(f"packages import each other in a cycle: {', '.join(sorted(left))}")
        found.append(free[0])
        del left[free[0]]
    return {name: number for number, name in enumerate(found)}


def modules_table(package: str, known: dict[str, ast.Module]) -> list[str]:
    inside = [name for name in known if name.startswith(f"{package}.")]
    heads = sorted(
        {f"{package}.{name.removeprefix(f'{package}.').split('.')[0]}" for name in inside}
    )
    rows = ["| module | what it holds | imports, of this package |", "|---|---|---|"]
    for head in heads:
        own = [name for name in inside if name == head or name.startswith(f"{head}.")]
        below = {
            each.removeprefix(f"{package}.").split(".")[0]
            for name in own
            for each in imports(name, known[name], known)
            if each.startswith(f"{package}.")
        } - {head.removeprefix(f"{package}.")}
        shown = head.removeprefix(f"{package}.") + ("/" if len(own) > 1 else "")
        listed = ", ".join(f"`{each}`" for each in sorted(below)) or "nothing"
        rows.append(f"| `{shown}` | {first_sentence(known[head])} | {listed} |")
    return rows


def written(page: str, known: dict[str, ast.Module]) -> str:
    def table(match: re.Match[str]) -> str:
        name = match[1]
        rows = packages_table(known) if name == "packages" else modules_table(name, known)
        return "\n".join([f"<!-- table {name} -->", *rows, "<!-- end -->"])

    return TABLE.sub(table, page)


def main(arguments: list[str]) -> int:
    known, stale = modules(), []
    for path in PAGES:
        old = path.read_text(encoding="utf-8")
        new = written(old, known)
        if new != old:
            stale.append(str(path.relative_to(ROOT)))
            if "--check" not in arguments:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"stale tables in {', '.join(stale)}: run python .ci/architecture_tables.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
