"""One result for people: its figures, the cluster step by step, who had to go, and who is left without a node, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.scenario.analysis.rendering import as_markdown, as_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.scenario.analysis.rendering import Row
    from pytest_kscen.scenario.analysis.result import Result

MANY = 50
COUNTS = ("step", "nodes", "pods", "pending")
MEASURES = ("allocation", "imbalance", "range", "fragmentation", "stranded")


def report(result: Result, *, markdown: bool = False) -> str:
    """As plain text, or as Markdown."""
    parts = [f"{result.note}\n"] if result.note else []
    for title, rows in _tables(result):
        if markdown:
            parts.append(f"## {title}\n\n{as_markdown(rows)}")
        else:
            parts.append(f"{title}\n{'=' * len(title)}\n{as_text(rows)}")
    return "\n".join(parts)


def _tables(result: Result) -> Iterator[tuple[str, list[Row]]]:
    yield "Figures", [{"": name, "value": value} for name, value in result.summary.items()]
    rows = result.rows("steps")
    yield "Step by step", [{name: row[name] for name in COUNTS} for row in rows]
    for resource in result.resources:
        columns = {name: f"{name}_{resource}" for name in MEASURES}
        yield resource, [{"step": row["step"], **{name: row[column] for name, column in columns.items()}} for row in rows]
    yield _some("Preemptions", result.rows("preemptions"))
    yield _some("Without a node at the end", list(_left(result)))


def _left(result: Result) -> Iterator[Row]:
    for life in result.pods:
        if life.is_pending:
            waited = {"since step": life.created.major, "attempts": len(life.attempts)}
            yield {"pod": f"{life.namespace}/{life.name}", **waited, "why": life.why_not}


def _some(title: str, rows: list[Row]) -> tuple[str, list[Row]]:
    shown = f", the first {MANY} are shown" if len(rows) > MANY else ""
    return f"{title} ({len(rows)}{shown})", rows[:MANY]
