"""Journals keep their records in order, in cluster time, and equal after a read from the file."""

from __future__ import annotations

import contextlib
import errno
import io
import threading

import pytest

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.journal import Entry, Journal, JournalLost, JournalTaken, read


def test_written_records_are_read_back(tmp_path):
    runner = VirtualRunner()
    runner.advance(5)
    path = tmp_path / "journal.jsonl"
    journal = Journal(runner.clock, path)
    actor = journal.for_actor("actor")
    actor.note("began", volume="v")
    runner.advance(2.5)
    actor.called("part").note("ended", took=2.5)
    entries = [
        Entry(0.0, "actor", "began", {"volume": "v"}),
        Entry(2.5, "actor/part", "ended", {"took": 2.5}),
    ]
    assert list(journal) == entries
    actor.note("after reading")
    assert len(list(journal)) == 3

    assert read(path)[:2] == entries, "each entry is in its file at once"
    assert path.read_bytes().startswith(
        b'{"schema":2,"written_by":"pytest-kscen 0.1.0","at":0.0,"actor":"actor","what":"began","volume":"v"}\n'
    )
    journal.close()
    path.write_bytes(path.read_bytes()[:-4])
    assert read(path) == entries, "whoever wrote the last line was killed"
    runner.close()


def test_journal_kept_later_is_complete_in_its_file(tmp_path):
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    journal.write("a", "before", {})
    journal.keep_in(tmp_path / "journal.jsonl")
    assert read(tmp_path / "journal.jsonl") == [Entry(0.0, "a", "before", {})]
    journal.write("a", "after", {})
    assert read(tmp_path / "journal.jsonl") == list(journal)
    assert [entry.what for entry in journal] == ["before", "after"]
    journal.close()
    runner.close()


def test_journal_larger_than_memory_is_equal():
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    actor = journal.for_actor("actor")
    for number in range(700):
        actor.note("began", number=number, text="x" * 10_000)
        if not number % 300:
            assert len(list(journal)) == number + 1
    assert [entry.data["number"] for entry in journal] == list(range(700))
    assert journal.size == len(journal.content()) > 4 * 1024 * 1024
    journal.close()
    runner.close()


def test_journal_can_be_read_while_it_is_written():
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    for number in range(3):
        journal.write("a", "b", {"number": number})
    seen = []
    for entry in journal:
        seen.append(entry.data["number"])
        if len(seen) == 1:
            journal.write("a", "b", {"number": 2**70})
    assert seen == [0, 1, 2, 2**70]
    assert [entry.data["number"] for entry in journal] == seen
    journal.close()
    runner.close()


class Reluctant(io.BytesIO):
    """File that accepts three bytes per write, and a limited total."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = min(3, self.room, len(data))
        self.room -= taken
        return super().write(data[:taken])


def test_partial_writes_leave_whole_lines():
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    journal._file = Reluctant(10_000)
    journal.write("a", "b", {"number": 1})
    journal.write("a", "b", {"number": 2})
    assert [entry.data["number"] for entry in journal] == [1, 2]
    runner.close()


def test_unwritable_line_ends_the_journal():
    """Later free space does not matter, since a missing line could not be detected."""
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    journal._file = Reluctant(110)
    journal.write("a", "b", {"number": 1})
    with pytest.raises(
        JournalLost,
        match=(
            r"the journal is incomplete: writing to .* failed: .*No space left on device; "
            r"free space"
        ),
    ):
        journal.write("a", "b", {"number": 2})
    journal._file.room = 10_000
    journal.write("a", "b", {"number": 3})
    assert [entry.data["number"] for entry in journal] == [1]
    runner.close()


def test_file_rejecting_a_write_ends_the_journal(tmp_path, monkeypatch):
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    journal.write("a", "b", {})
    path = tmp_path / "journal.jsonl"
    monkeypatch.setattr("pytest_kscen.journal.journal._locked", lambda _: Reluctant(3))
    with pytest.raises(
        JournalLost,
        match=(
            f"^the journal is incomplete: writing to {path} failed: .*No space left on device; free"
        ),
    ):
        journal.keep_in(path)
    journal._file.room = 10_000
    journal.write("a", "c", {})
    assert journal.content() == b'{"s'
    runner.close()


class Clock:
    """Clock that returns the given times in turn."""

    def __init__(self, *times):
        self.times = iter(times)

    def now(self):
        return next(self.times)


def test_journal_file_is_not_taken_from_another_writer(tmp_path):
    runner = VirtualRunner()
    path = tmp_path / "journal.jsonl"
    with contextlib.closing(Journal(runner.clock, path)) as first:
        first.write("a", "b", {})
        second = Journal(runner.clock)
        second.write("c", "d", {})
        with pytest.raises(
            JournalTaken, match=f"^{path} is in use: a run that has not ended writes to it$"
        ):
            second.keep_in(path)
        assert (path.read_bytes(), second.path) == (first.content(), None)
    second.keep_in(path)
    assert read(path) == list(second) == [Entry(0.0, "c", "d", {})]
    second.close()
    runner.close()


class Slow(io.BytesIO):
    """File that calls a function once, at its first read or write."""

    def __init__(self, when, lets):
        super().__init__()
        self.lets = {when: lets}

    def read(self, size):
        self.lets.pop("read", int)()
        return super().read(size)

    def write(self, data):
        self.lets.pop("write", int)()
        return super().write(data)


@pytest.mark.parametrize("when", ["read", "write"])
def test_writer_in_another_thread_appends(when):
    """The writer gets time for it unless it is blocked."""
    journal = Journal(Clock(0.0, 1.0, 2.0))
    other = threading.Thread(target=journal.write, args=("other", "b", {}))

    def lets():
        other.start()
        other.join(0.2)

    journal._file = Slow(when, lets)
    journal.write("first", "b", {})
    assert next(iter(journal)).actor == "first"
    other.join()
    assert [(entry.at, entry.actor) for entry in journal] == [(1.0, "first"), (2.0, "other")]


def test_reader_may_be_interrupted():
    def interrupts():
        raise KeyboardInterrupt

    journal = Journal(Clock(0.0, 1.0, 2.0))
    journal._file = Slow("read", interrupts)
    journal.write("a", "first", {})
    with pytest.raises(KeyboardInterrupt):
        journal.content()
    journal.write("a", "second", {})
    assert [(entry.at, entry.what) for entry in journal] == [(1.0, "first"), (2.0, "second")]


def test_size_is_correct_while_it_is_read():
    sizes = []
    journal = Journal(Clock(0.0, 1.0))
    journal._file = Slow("read", lambda: sizes.append(journal.size))
    journal.write("a", "b", {})
    assert [len(journal.content())] == sizes == [journal.size]
