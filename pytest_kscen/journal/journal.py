"""A journal's life: opened when a run begins, appended to by witnesses, read by checks: one file of JSON lines.

Where it is to be kept, each entry is in its file at once, whatever becomes of whoever writes. Where it is not, it streams to
disk once it outgrows a little memory, so that a long run does not keep its past.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.clock import Clock
    from pytest_kscen.journal.relay import Relay

IN_MEMORY = 4 * 1024 * 1024
BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened: when (seconds since the run began), who says so, what it was, and its particulars."""

    at: float
    who: str
    what: str
    data: dict[str, Any]


class Journal:
    """Append and read; nothing is ever changed."""

    def __init__(self, clock: Clock, path: pathlib.Path | None = None) -> None:
        """`path` is that of a file that outlives it."""
        self.path = path
        self._clock = clock
        self._began = clock.now()
        self._file: BinaryIO = path.open("w+b", buffering=0) if path else tempfile.SpooledTemporaryFile(IN_MEMORY)  # type: ignore[assignment]  # noqa: SIM115  # open for the journal's life
        self._followers: list[Callable[[Entry], None]] = []
        self.entries = 0

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return self._clock.now() - self._began

    def witness(self, who: str) -> Witness:
        return Witness(self, who)

    def write(self, who: str, what: str, data: dict[str, Any]) -> None:
        at = round(self.now, 6)
        self._file.write(_line({"at": at, "who": who, "what": what, **data}))
        self.entries += 1
        for follower in self._followers:
            follower(Entry(at, who, what, data))

    def follow(self, follower: Callable[[Entry], None]) -> None:
        """Have each entry from now on as it is written."""
        self._followers.append(follower)

    def __iter__(self) -> Iterator[Entry]:
        rest = b""
        for block in self._blocks():
            *lines, rest = (rest + block).split(b"\n")
            yield from _entries(lines)

    @property
    def size(self) -> int:
        return self._file.tell()

    def content(self) -> bytes:
        """All of it, as in its file."""
        return b"".join(self._blocks())

    def _blocks(self) -> Iterator[bytes]:
        """What has been written so far, while writing may go on: the file's own place stays at its end."""
        offset = 0
        while True:
            self._file.seek(offset)
            block = self._file.read(BLOCK)
            self._file.seek(0, os.SEEK_END)
            if not block:
                return
            offset += len(block)
            yield block

    def close(self) -> None:
        self._file.close()


class Witness:
    """One actor's pen."""

    __slots__ = ("_journal", "who")

    def __init__(self, journal: Journal | Relay, who: str) -> None:
        self._journal = journal
        self.who = who

    def note(self, what: str, **data: Any) -> None:
        self._journal.write(self.who, what, data)

    def called(self, name: str) -> Witness:
        """A pen for a part of this actor."""
        return Witness(self._journal, f"{self.who}/{name}")


def read(path: pathlib.Path) -> list[Entry]:
    """A journal from its file: the run can be judged again without its cluster. Of a killed one the last line may be cut."""
    return list(stored(path))


def stored(path: pathlib.Path) -> Iterator[Entry]:
    """The same, entry by entry."""
    with path.open("rb") as file:
        yield from _entries(line for line in file if line.endswith(b"\n"))


def _line(data: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a number of more than 64 bits, which JSON allows
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        return orjson.loads(line)  # type: ignore[no-any-return]
    except orjson.JSONDecodeError:
        return json.loads(line)  # type: ignore[no-any-return]


def _entries(lines: Iterable[bytes]) -> Iterator[Entry]:
    for line in lines:
        data = _parsed(line)
        yield Entry(data.pop("at"), data.pop("who"), data.pop("what"), data)
