"""A check that crashed: how, at which line of the journal, and what is amiss there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pathlib

    from pytest_kscen.journal import Entry


@dataclass(frozen=True, slots=True)
class Crash:
    """Of one check; without an entry it had read all of them."""

    error: Exception
    line: int = 0
    entry: Entry | None = None

    def told(self, path: pathlib.Path | None) -> str:
        """`path` is the journal's, if it was read from a file."""
        said = f"the check crashed: {self.error!r}"
        if self.entry is None:
            return said
        place = f"line {self.line} of the journal" if path is None else f"{path}:{self.line}"
        return f"{said} at {place}{_amiss(self.entry, self.error)}"


def _amiss(entry: Entry, error: Exception) -> str:
    """Whoever looks up what a line names has heard of it before, if all is well."""
    if not isinstance(error, KeyError) or not error.args:
        return ""
    missing = error.args[0]
    if named := [name for name, value in entry.data.items() if value == missing]:
        return f": no line before it tells of the {named[0]} {missing!r}"
    return "" if missing in entry.data else f": it has no {missing!r}"
