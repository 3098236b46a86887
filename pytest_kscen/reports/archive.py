"""A run's folder: its journal, its outcome, its seed and options, and the line that runs it again."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    import pathlib

    from pytest_kscen.journal import Journal

LONGEST = 150


def archive(folder: pathlib.Path, journal: Journal, outcome: bytes | None, facts: dict[str, Any]) -> pathlib.Path:
    """Write the folder; an earlier run of the same test gives way."""
    folder.mkdir(parents=True, exist_ok=True)
    journal.save(folder / "journal.jsonl")
    (folder / "outcome.json").unlink(missing_ok=True)
    if outcome is not None:
        (folder / "outcome.json").write_bytes(outcome)
    (folder / "run.json").write_bytes(orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE, default=str))
    return folder


def folder_name(test: str, number: int) -> str:
    """A test's id without what a file system would not like; the second run of one test and later ones carry their number.

    One that had to be changed or cut carries a piece of its hash, so that no two tests share a folder.
    """
    name = re.sub(r"[^\w.\-]+", "-", test.replace("::", "-").replace("/", "-")).strip("-")
    if "[" in test or len(name) > LONGEST:
        name = f"{name[:LONGEST]}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
    return name if number == 1 else f"{name}-{number}"
