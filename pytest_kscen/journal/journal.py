"""Write and read a journal: one JSON object per line.

A journal with a path writes each entry to its file at once, so a crash loses none. Without a path
it moves from memory to a temporary file as it grows. After a line that could not be written it
writes no more lines: an incomplete record would be judged as complete.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import tempfile
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from pytest_kscen.journal import schema

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from pytest_kscen.clock import Clock


RUN_ENTRIES = ("run-started", "frozen", "healed", "liveness", "leftovers", "run-ended")
"""Entries of a run's course: each occurs once at most, and in this order.

Other entries may follow even after the last one.
"""
RESTORE_FILE = "restore the file as the run has written it"
HEALTHY = "True"


class EntryOrder:
    """Check of a stored journal, line by line: time, the run's course, and observed conditions.

    It finds lines that were removed, repeated or edited after the run, if they contradict earlier
    lines. One instance reads one journal.
    """

    def __init__(self) -> None:
        self._line = self._phase_line = 0
        self._at = 0.0
        self._phase = ""
        self._seen: dict[str, dict[str, str]] = {}
        """Last observed conditions of each volume that is checked."""

    def contradiction(self, at: float, what: str, data: dict[str, Any]) -> str:
        """Return the reason why the next line cannot follow the previous ones; empty if it can.

        Call it for each line in order. Lines without a required field are accepted: the check
        that needs the field reports it.
        """
        if what in RUN_ENTRIES:
            if self._phase and RUN_ENTRIES.index(what) <= RUN_ENTRIES.index(self._phase):
                return (
                    f"{what!r} cannot come after {self._phase!r} on line {self._phase_line}, in "
                    f"one run: {RESTORE_FILE}"
                )
            self._phase, self._phase_line = what, self._line + 1
        if not at >= self._at:  # also true for NaN
            before = (
                f"the {self._at} s of line {self._line}" if self._line else "the run's beginning"
            )
            return f"{at} s is before {before}, and time does not go back: {RESTORE_FILE}"
        self._line, self._at = self._line + 1, at
        try:
            return self._condition_contradiction(what, data)
        except (KeyError, TypeError, AttributeError):
            return ""  # reported by the check that needs the missing field

    def _condition_contradiction(self, what: str, data: dict[str, Any]) -> str:
        if what == "checker-started":
            self._seen[data["volume"]] = dict.fromkeys(data["conditions"], HEALTHY)
        elif what == "condition-changed":
            seen, name = self._seen[data["volume"]], data["condition"]
            before, now = data["expected"], data["observed"]
            if _differs(before, seen[name]) or not _differs(now, before):
                return (
                    f"{name} of {data['volume']} was {seen[name]}, and cannot change from "
                    f"{before} to {now}: {RESTORE_FILE}"
                )
            seen[name] = now
        elif what == "checker-stopped":
            seen = self._seen.pop(data["volume"])
            for name, now in data["conditions"].items():
                if _differs(now, seen[name]):
                    return (
                        f"{name} of {data['volume']} was {seen[name]} by the lines before, "
                        f"and is {now} here: {RESTORE_FILE}"
                    )
        return ""

    @property
    def cut_contradiction(self) -> str:
        """Return the reason why the last line cannot be incomplete; empty if it can.

        A killed run may cut its last line, but an ended run writes no more lines.
        """
        if self._phase != RUN_ENTRIES[-1]:
            return ""
        return (
            f"the line is incomplete, although the run had ended by line {self._phase_line}: "
            f"{RESTORE_FILE}"
        )


def _differs(one: str, other: str) -> bool:
    """Return True if one condition is healthy and the other is not.

    Unhealthy states count as equal: a change from False to Unknown is not recorded.
    """
    return (one == HEALTHY) is not (other == HEALTHY)


IN_MEMORY = 4 * 1024 * 1024
CHECK_SIZE_EVERY = 256  # entries
BLOCK = 1 << 16
NAMES = {"leftovers": "objects", "liveness": "late"}
"""Field of each entry that holds a list of names, checked while the line number is known."""


class JournalDamaged(ValueError):
    """Report a changed or damaged line, with its file, number and reason. Raised while reading; no
    entry after that line is used.
    """


class JournalTaken(ValueError):
    """Report that another open journal writes to the file, in this process or another.

    The file is unchanged.
    """


class JournalLost(Exception):
    """Report that a line could not be written: the journal is incomplete after it.

    Not an OSError, which actors treat as a refusal of the API server.
    """


@dataclass(slots=True)
class Entry:
    """Event of a run: `at` in seconds since its start, the actor, the kind of event, and its
    data.

    Never changed after it was written. Not frozen, since very many are made.
    """

    at: float
    actor: str
    what: str
    data: dict[str, Any]


class Journal:
    """Append-only journal of one run; iterating it reads the entries from the start.

    Writes may come from several threads and are serialized; followers are called after the write,
    in the writer's thread. Times are seconds since the journal was opened, rounded to microseconds.
    """

    def __init__(self, clock: Clock, path: pathlib.Path | None = None) -> None:
        """Open the file, or keep the entries in memory and later in a temporary file.

        The file is emptied, and outlives the journal. Raises JournalTaken if another run
        writes to it.
        """
        self.path = path
        self._clock = clock
        self._began = clock.now()
        self._lock = threading.RLock()  # on real clusters test and actors write from two threads
        self._file: BinaryIO = _locked(path) if path else io.BytesIO()
        self._file.truncate()
        self.size = 0
        """Bytes written so far."""
        self._followers: list[Callable[[Entry], None]] = []
        self.entries = 0
        self.on_lost: Callable[[JournalLost], object] | None = None
        """Called once when the journal can no longer be written; without it the writer raises
        JournalLost.
        """
        self._is_lost = False

    @property
    def now(self) -> float:
        return self._clock.now() - self._began

    def for_actor(self, actor: str) -> ActorJournal:
        return ActorJournal(self, actor)

    def write(self, actor: str, what: str, data: dict[str, Any]) -> None:
        if self._is_lost:
            return
        try:
            with self._lock:
                at = round(self._clock.now() - self._began, 6)
                line = {"at": at, "actor": actor, "what": what, **data}
                self._put(_line(line if self.entries else {**schema.stamp(), **line}))
        except OSError as error:
            self._record_loss(error)
            return
        for follower in self._followers:
            follower(Entry(at, actor, what, data))

    def _record_loss(self, error: OSError) -> None:
        self._is_lost = True
        where = self.path or tempfile.gettempdir()
        lost = JournalLost(
            f"the journal is incomplete: writing to {where} failed: {error}; free space there"
        )
        lost.__cause__ = error
        if self.on_lost is None:
            raise lost
        self.on_lost(lost)

    def keep_in(
        self, path: pathlib.Path, before_truncating: Callable[[], object] = lambda: None
    ) -> None:
        """Move to this file: copy all that was written so far, and append to it from now on.

        Raise JournalTaken if another run writes to it. The file's old content is kept until
        `before_truncating` has returned.
        """
        file = _locked(path)
        try:
            before_truncating()
            file.truncate()
        except BaseException:
            file.close()
            raise
        with self._lock:
            past, written = self._file, self.content()
            self._file, self.path = file, path
            past.close()
            try:
                _write_all(self._file, written)
            except OSError as error:
                self._record_loss(error)

    def _put(self, line: bytes) -> None:
        _write_all(self._file, line)
        self.entries += 1
        self.size += len(line)
        # A SpooledTemporaryFile would check its size at each entry.
        if (
            not self.entries % CHECK_SIZE_EVERY
            and isinstance(self._file, io.BytesIO)
            and self._file.tell() > IN_MEMORY
        ):
            # open until the journal is closed
            past, file = self._file, tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
            _write_all(file, past.getvalue())
            self._file = file
            past.close()

    def follow(self, follower: Callable[[Entry], None]) -> None:
        """Call a function for each later entry, in the writer's thread.

        Followers are called in the order of their registration, after the entry is written.
        """
        self._followers.append(follower)

    def __iter__(self) -> Iterator[Entry]:
        reader, rest = EntryReader(), b""
        for block in self._blocks():
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield reader.entry(line)

    def content(self) -> bytes:
        return b"".join(self._blocks())

    def _blocks(self) -> Iterator[bytes]:
        """Yield the bytes written so far, while writing may continue.

        The file's position stays at its end between blocks, where the next line is written.
        """
        offset = 0
        while True:
            with self._lock:
                try:
                    self._file.seek(offset)
                    block = self._file.read(BLOCK)
                finally:  # the next write goes to the end, even if the reader is interrupted
                    self._file.seek(0, os.SEEK_END)
            if not block:
                return
            offset += len(block)
            yield block

    def close(self) -> None:
        self._file.close()


class ActorJournal:
    __slots__ = ("_journal", "actor")

    def __init__(self, journal: Journal | JournalSwitch, actor: str) -> None:
        self._journal = journal
        self.actor = actor

    @property
    def now(self) -> float | None:
        """Return the time of a note if it were written now, in seconds since the run began.

        None if no journal is open.
        """
        now = self._journal.now
        return None if now is None else round(now, 6)

    def note(self, what: str, **data: Any) -> None:
        self._journal.write(self.actor, what, data)

    def called(self, name: str) -> ActorJournal:
        return ActorJournal(self._journal, f"{self.actor}/{name}")


def _locked(path: pathlib.Path) -> BinaryIO:
    """Open and lock a file, which keeps its content; the lock ends with the process.

    Raises JournalTaken if another process has locked it. A file system without locks is
    accepted.
    """
    file = os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b", buffering=0
    )
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise JournalTaken(f"{path} is in use: a run that has not ended writes to it") from None
    except OSError:  # some file systems have no locks
        pass
    return file


def is_being_written(path: pathlib.Path) -> bool:
    """Return True if a living process has this journal open for writing.

    A file that does not exist, or cannot be locked, is not being written.
    """
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it does not exist, or cannot be locked
        return False
    return False


def read(path: pathlib.Path) -> list[Entry]:
    """Read a journal from its file; raise JournalDamaged at a damaged or contradictory line.

    An incomplete last line of a killed run is left out.
    """
    return list(stored(path))


def stored(path: pathlib.Path) -> Iterator[Entry]:
    """Yield the entries of a journal's file; raise JournalDamaged at the first damaged or
    contradictory line.
    """
    order, reader = EntryOrder(), EntryReader()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}:{number}"
            entry = _read_entry(reader, line, where) if line.endswith(b"\n") else None
            if (
                why := order.contradiction(entry.at, entry.what, entry.data)
                if entry
                else order.cut_contradiction
            ):
                raise JournalDamaged(f"{where}: {why}")
            if entry:
                yield entry


def _read_entry(reader: EntryReader, line: bytes, where: str) -> Entry:
    try:
        entry = reader.entry(line)
    except UnicodeDecodeError as error:
        raise JournalDamaged(
            f"{where}: not UTF-8: {error.reason} at byte {error.start + 1}"
        ) from None
    except json.JSONDecodeError as error:
        raise JournalDamaged(
            f"{where}: not JSON: column {error.colno}: {error.msg.removesuffix(' at')}"
        ) from None
    except schema.SchemaUnknown as error:
        raise JournalDamaged(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise JournalDamaged(f"{where}: not readable as JSON: {error}") from None
    except KeyError as error:
        raise JournalDamaged(f"{where}: it has no {error}") from None
    except (TypeError, AttributeError):
        raise JournalDamaged(f"{where}: not a JSON object") from None
    if (
        not isinstance(entry.at, int | float)
        or not isinstance(entry.actor, str)
        or not isinstance(entry.what, str)
    ):
        raise JournalDamaged(
            f"{where}: 'at' has to be a number, 'actor' and 'what' have to be strings"
        )
    if entry.what in NAMES:
        names = entry.data.get(NAMES[entry.what], [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise JournalDamaged(f"{where}: {NAMES[entry.what]!r} has to be a list of strings")
    return entry


def _write_all(file: BinaryIO, data: bytes) -> None:
    rest = data[file.write(data) :]
    while rest:
        rest = rest[file.write(rest) :]


def _line(data: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a number of more than 64 bits, which JSON allows
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


class EntryReader:
    """Read a journal's lines in their order; the first states the schema of all of them.

    One instance reads one journal. Raise SchemaUnknown at the first line if this version cannot
    read its schema.
    """

    __slots__ = ("_schema",)

    def __init__(self) -> None:
        self._schema = 0  # until the first line

    def entry(self, line: bytes) -> Entry:
        try:
            data: dict[str, Any] = orjson.loads(line)
        except orjson.JSONDecodeError:  # it may be a number of more than 64 bits
            data = json.loads(line.decode())
        if not self._schema:
            self._schema = schema.pop_version(data)
        if self._schema == 1:
            data = schema.upgrade_entry(data)
        return Entry(data.pop("at"), data.pop("actor"), data.pop("what"), data)


class JournalSwitch:
    """Journal of actors that outlive a run: forwards to the open journal.

    Notes are dropped while `to` is None.
    """

    def __init__(self) -> None:
        self.to: Journal | None = None

    @property
    def now(self) -> float | None:
        return None if self.to is None else self.to.now

    def for_actor(self, actor: str) -> ActorJournal:
        return ActorJournal(self, actor)

    def write(self, actor: str, what: str, data: dict[str, Any]) -> None:
        if self.to is not None:
            self.to.write(actor, what, data)
