"""A journal's life: opened when a run begins, appended to by witnesses, read by checks, kept as one file of JSON lines.

It streams to disk once it outgrows a little memory, so that a long run does not keep its past.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Iterator

    from pytest_kscen.clock import Clock

IN_MEMORY = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened: when (seconds since the run began), who says so, what it was, and its particulars."""

    at: float
    who: str
    what: str
    data: dict[str, Any]


class Journal:
    """Append and read; nothing is ever changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now()
        self._file: BinaryIO = tempfile.SpooledTemporaryFile(IN_MEMORY)  # type: ignore[assignment]  # noqa: SIM115  # open for the journal's life
        self.entries = 0

    def witness(self, who: str) -> Witness:
        return Witness(self, who)

    def write(self, who: str, what: str, data: dict[str, Any]) -> None:
        at = round(self._clock.now() - self._began, 6)
        self._file.write(orjson.dumps({"at": at, "who": who, "what": what, **data}, option=orjson.OPT_APPEND_NEWLINE))
        self.entries += 1

    def __iter__(self) -> Iterator[Entry]:
        self._file.seek(0)
        try:
            yield from _entries(self._file)
        finally:
            self._file.seek(0, 2)

    def save(self, path: pathlib.Path) -> None:
        self._file.seek(0)
        with path.open("wb") as copy:
            while block := self._file.read(1 << 20):
                copy.write(block)

    def close(self) -> None:
        self._file.close()


class Witness:
    """One actor's pen."""

    __slots__ = ("_journal", "who")

    def __init__(self, journal: Journal, who: str) -> None:
        self._journal = journal
        self.who = who

    def note(self, what: str, **data: Any) -> None:
        self._journal.write(self.who, what, data)

    def called(self, name: str) -> Witness:
        """A pen for a part of this actor."""
        return Witness(self._journal, f"{self.who}/{name}")


def read(path: pathlib.Path) -> list[Entry]:
    """A journal from its file: the run can be judged again without its cluster."""
    with path.open("rb") as file:
        return list(_entries(file))


def _entries(lines: Iterable[bytes]) -> Iterator[Entry]:
    for line in lines:
        data = orjson.loads(line)
        yield Entry(data.pop("at"), data.pop("who"), data.pop("what"), data)
