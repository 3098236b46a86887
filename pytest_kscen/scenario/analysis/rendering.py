"""Tables for people, as aligned text and as Markdown, and rows for programs, as CSV and as lines of JSON."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = dict[str, Any]
"""Flat: each value is a text, a number, or None."""


def as_text(rows: Sequence[Row]) -> str:
    """Columns under their names; numbers stand to the right."""
    if not rows:
        return "(none)\n"
    names = list(_names(rows))
    cells = [names, *([spelled(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(names))]
    right = [all(_is_number(row.get(name)) for row in rows) for name in names]
    lines = [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width) for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:], ""])


def as_markdown(rows: Sequence[Row]) -> str:
    if not rows:
        return "(none)\n"
    names = list(_names(rows))
    rule = ["---:" if all(_is_number(row.get(name)) for row in rows) else "---" for name in names]
    lines = [names, rule, *([spelled(row.get(name)).replace("|", r"\|") for name in names] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_csv(rows: Iterable[Row]) -> str:
    """With a heading, unless there are no rows."""
    rows = list(rows)
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_names(rows)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json_lines(rows: Iterable[Row]) -> str:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows).decode()


def spelled(value: Any) -> str:
    """For people: four decimals at most, and a dash for what is not there."""
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        text = f"{value:.4f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text
    return str(value)


def _names(rows: Iterable[Row]) -> dict[str, None]:
    return {name: None for row in rows for name in row}


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float)
