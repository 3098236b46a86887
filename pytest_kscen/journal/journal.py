"""A journal's life: opened when a run begins, appended to by witnesses, read by checks: one file of
JSON lines.

Where it is to be kept, each entry is in its file at once, whatever becomes of whoever writes. Where
it is not, it streams to disk once it outgrows a little memory, so that a long run does not keep its
past. Where a line could not be written it breaks off: what comes after it would be judged as if
nothing were missing."""

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


# What lines of one run cannot do: go back in time, tell a turn of the run again or out of its
# order, or change what was not so.


RUN_ENTRIES = ("run-started", "frozen", "healed", "liveness", "leftovers", "run-ended")
"""What a run tells once at most, in this order.

Whatever else it tells may come after its end, too.
"""
RESTORE_FILE = "bring the file back as the run has left it"
WELL = "True"


class EntryOrder:
    """How far a journal has come, whose lines are told one after the other."""

    def __init__(self) -> None:
        self._line = self._turned_on = 0
        self._at = 0.0
        self._turn = ""
        self._seen: dict[str, dict[str, str]] = {}
        """Of each volume that is checked, how its conditions were seen last."""

    def against(self, at: float, what: str, data: dict[str, Any]) -> str:
        """Why the next line cannot be there; nothing if it can."""
        if what in RUN_ENTRIES:
            if self._turn and RUN_ENTRIES.index(what) <= RUN_ENTRIES.index(self._turn):
                return (
                    f"{what!r} cannot come after {self._turn!r} on line {self._turned_on}, in "
                    f"one run: {RESTORE_FILE}"
                )
            self._turn, self._turned_on = what, self._line + 1
        if not at >= self._at:  # as of NaN, too
            before = (
                f"the {self._at} s of line {self._line}" if self._line else "the run's beginning"
            )
            return f"{at} s is before {before}, and time does not go back: {RESTORE_FILE}"
        self._line, self._at = self._line + 1, at
        try:
            return self._against_conditions(what, data)
        except (KeyError, TypeError, AttributeError):
            return ""  # whoever needs what the line lacks says so

    def _against_conditions(self, what: str, data: dict[str, Any]) -> str:
        if what == "checker-started":
            self._seen[data["volume"]] = dict.fromkeys(data["conditions"], WELL)
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
    def against_a_cut(self) -> str:
        """Why the next line cannot have been cut off by whatever killed the run; nothing if it
        can.
        """
        if self._turn != RUN_ENTRIES[-1]:
            return ""
        return (
            f"it is no whole line, though the run had ended by line {self._turned_on}: "
            f"{RESTORE_FILE}"
        )


def _differs(one: str, other: str) -> bool:
    """What is not well is all the same."""
    return (one == WELL) is not (other == WELL)


IN_MEMORY = 4 * 1024 * 1024
LOOK_EVERY = 256  # entries
BLOCK = 1 << 16
NAMES = {"leftovers": "objects", "liveness": "late"}
"""What is told with lists of names that are joined into one line, once all is read: by then
nobody knows where they stood.
"""


class JournalDamaged(ValueError):
    """A line of its file is not what was written; the message says which, and what is wrong with
    it.
    """


class JournalTaken(ValueError):
    """Another that is open writes to its file."""


class JournalLost(Exception):
    """A line could not be written. It is no OSError, which would pass for a server's."""


@dataclass(slots=True)
class Entry:
    """One thing that happened: when (seconds since the run began), who says so, what it was, and
    its particulars.

    Nobody changes one; it is not frozen, for many are made.
    """

    at: float
    actor: str
    what: str
    data: dict[str, Any]


class Journal:
    """Append and read; nothing is ever changed."""

    def __init__(self, clock: Clock, path: pathlib.Path | None = None) -> None:
        """`path` is that of a file that outlives it."""
        self.path = path
        self._clock = clock
        self._began = clock.now()
        self._pen = (
            threading.RLock()
        )  # on the wall's clock a test and its actors write in threads of their own
        self._file: BinaryIO = _opened(path) if path else io.BytesIO()
        self.size = 0
        """Bytes that it has."""
        self._followers: list[Callable[[Entry], None]] = []
        self.entries = 0
        self.when_lost: Callable[[JournalLost], object] | None = None
        """Hears that it breaks off, instead of whoever writes."""
        self._is_lost = False

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return self._clock.now() - self._began

    def witness(self, actor: str) -> ActorJournal:
        return ActorJournal(self, actor)

    def write(self, actor: str, what: str, data: dict[str, Any]) -> None:
        if self._is_lost:
            return
        try:
            with self._pen:
                at = round(self._clock.now() - self._began, 6)
                line = {"at": at, "actor": actor, "what": what, **data}
                self._put(_line(line if self.entries else {**schema.stamp(), **line}))
        except OSError as error:
            self._lose(error)
            return
        for follower in self._followers:
            follower(Entry(at, actor, what, data))

    def _lose(self, error: OSError) -> None:
        """Once, and for good."""
        self._is_lost = True
        where = self.path or tempfile.gettempdir()
        lost = JournalLost(
            f"the journal breaks off, since {where} takes no more: {error}: make room there"
        )
        lost.__cause__ = error
        if self.when_lost is None:
            raise lost
        self.when_lost(lost)

    def keep_in(self, path: pathlib.Path, once_ours: Callable[[], object] = lambda: None) -> None:
        """Go on in this file, which outlives it and begins with all that was written so far;
        `JournalTaken` if it is another's.

        Until `once_ours` has been called there is in it what was there before.
        """
        file = _locked(path)
        try:
            once_ours()
            file.truncate()
        except BaseException:
            file.close()
            raise
        with self._pen:
            past, written = self._file, self.content()
            self._file, self.path = file, path
            past.close()
            try:
                _write_all(self._file, written)
            except OSError as error:
                self._lose(error)

    def _put(self, line: bytes) -> None:
        _write_all(self._file, line)
        self.entries += 1
        self.size += len(line)
        # Once it outgrows memory; a SpooledTemporaryFile would look at each entry.
        if (
            not self.entries % LOOK_EVERY
            and isinstance(self._file, io.BytesIO)
            and self._file.tell() > IN_MEMORY
        ):
            # open for the journal's life
            past, file = self._file, tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
            _write_all(file, past.getvalue())
            self._file = file
            past.close()

    def follow(self, follower: Callable[[Entry], None]) -> None:
        """Have each entry from now on as it is written."""
        self._followers.append(follower)

    def __iter__(self) -> Iterator[Entry]:
        rest = b""
        for block in self._blocks():
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield _entry(line)

    def content(self) -> bytes:
        """All of it, as in its file."""
        return b"".join(self._blocks())

    def _blocks(self) -> Iterator[bytes]:
        """What has been written so far, while writing may go on: the file's own place stays at
        its end.
        """
        offset = 0
        while True:
            with self._pen:
                try:
                    self._file.seek(offset)
                    block = self._file.read(BLOCK)
                finally:  # whatever interrupts whoever reads, what is written next goes to the end
                    self._file.seek(0, os.SEEK_END)
            if not block:
                return
            offset += len(block)
            yield block

    def close(self) -> None:
        self._file.close()


class ActorJournal:
    """One actor's pen."""

    __slots__ = ("_journal", "actor")

    def __init__(self, journal: Journal | JournalSwitch, actor: str) -> None:
        self._journal = journal
        self.actor = actor

    @property
    def now(self) -> float | None:
        """The time that is written to what is noted now; None if nobody keeps it."""
        now = self._journal.now
        return None if now is None else round(now, 6)

    def note(self, what: str, **data: Any) -> None:
        self._journal.write(self.actor, what, data)

    def called(self, name: str) -> ActorJournal:
        """A pen for a part of this actor."""
        return ActorJournal(self._journal, f"{self.actor}/{name}")


def _opened(path: pathlib.Path) -> BinaryIO:
    """Empty, and ours."""
    file = _locked(path)
    file.truncate()
    return file


def _locked(path: pathlib.Path) -> BinaryIO:
    """Ours as long as it is open, which a process that dies leaves to nobody."""
    file = os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b", buffering=0
    )
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise JournalTaken(f"a run that is still on writes to {path}") from None
    except OSError:  # some file systems know no locks
        pass
    return file


def is_being_written(path: pathlib.Path) -> bool:
    """Whether somebody who lives has this journal open for writing."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is none, or none that can be locked
        return False
    return False


def read(path: pathlib.Path) -> list[Entry]:
    """A journal from its file: the run can be judged again without its cluster.

    Of a killed one the last line may be cut.
    """
    return list(stored(path))


def stored(path: pathlib.Path) -> Iterator[Entry]:
    """The same, entry by entry."""
    course = EntryOrder()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}:{number}"
            entry = _stored(line, where) if line.endswith(b"\n") else None
            if (
                why := course.against(entry.at, entry.what, entry.data)
                if entry
                else course.against_a_cut
            ):
                raise JournalDamaged(f"{where}: {why}")
            if entry:
                yield entry


def _stored(line: bytes, where: str) -> Entry:
    try:
        entry = _entry(line)
    except UnicodeDecodeError as error:
        raise JournalDamaged(
            f"{where}: no UTF-8: {error.reason} at byte {error.start + 1}"
        ) from None
    except json.JSONDecodeError as error:
        raise JournalDamaged(
            f"{where}: no JSON: column {error.colno}: {error.msg.removesuffix(' at')}"
        ) from None
    except schema.SchemaUnknown as error:
        raise JournalDamaged(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise JournalDamaged(f"{where}: no JSON that can be read: {error}") from None
    except KeyError as error:
        raise JournalDamaged(f"{where}: it has no {error}") from None
    except (TypeError, AttributeError):
        raise JournalDamaged(f"{where}: no JSON object") from None
    if (
        not isinstance(entry.at, int | float)
        or not isinstance(entry.actor, str)
        or not isinstance(entry.what, str)
    ):
        raise JournalDamaged(
            f"{where}: 'at' has to be a number, 'actor' and 'what' have to be strings"
        )
    if entry.what in NAMES and not _are_names(entry.data.get(NAMES[entry.what], [])):
        raise JournalDamaged(f"{where}: {NAMES[entry.what]!r} has to be a list of strings")
    return entry


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _write_all(file: BinaryIO, data: bytes) -> None:
    """A file without a buffer may take less at once."""
    rest = data[file.write(data) :]
    while rest:
        rest = rest[file.write(rest) :]


def _line(data: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a number of more than 64 bits, which JSON allows
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        return orjson.loads(line)  # type: ignore[no-any-return]
    except orjson.JSONDecodeError:
        return json.loads(line.decode())  # type: ignore[no-any-return]


def _entry(line: bytes) -> Entry:
    data = _parsed(line)
    if "who" in data:
        data = schema.upgrade_entry(data)
    elif "schema" in data:
        schema.check(data, "the journal")
        del data["schema"], data["written_by"]
    return Entry(data.pop("at"), data.pop("actor"), data.pop("what"), data)


# For actors that outlive a run: what they write goes into the journal that is open just then;
# without one, nobody keeps it.


class JournalSwitch:
    """Where a `Journal` is written to."""

    def __init__(self) -> None:
        self.to: Journal | None = None

    @property
    def now(self) -> float | None:
        return None if self.to is None else self.to.now

    def witness(self, actor: str) -> ActorJournal:
        return ActorJournal(self, actor)

    def write(self, actor: str, what: str, data: dict[str, Any]) -> None:
        if self.to is not None:
            self.to.write(actor, what, data)
