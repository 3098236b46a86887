"""A journal keeps what it was told, in order, in cluster time, and reads the same from its file."""

from __future__ import annotations

import errno
import io

import pytest

from pytest_kscen.clock import VirtualRunner
from pytest_kscen.journal import Entry, Journal, JournalLost, read


def test_what_is_written_is_read_back(tmp_path):
    runner = VirtualRunner()
    runner.advance(5)
    path = tmp_path / "journal.jsonl"
    journal = Journal(runner.clock, path)
    actor = journal.witness("actor")
    actor.note("began", volume="v")
    runner.advance(2.5)
    actor.called("part").note("ended", took=2.5)
    entries = [Entry(0.0, "actor", "began", {"volume": "v"}), Entry(2.5, "actor/part", "ended", {"took": 2.5})]
    assert list(journal) == entries
    actor.note("after reading")
    assert len(list(journal)) == 3

    assert read(path)[:2] == entries, "each entry is in its file at once"
    assert path.read_bytes().startswith(b'{"at":0.0,"who":"actor","what":"began","volume":"v"}\n')
    journal.close()
    path.write_bytes(path.read_bytes()[:-4])
    assert read(path) == entries, "whoever wrote the last line was killed"
    runner.close()


def test_one_that_outgrows_memory_is_the_same():
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    actor = journal.witness("actor")
    for number in range(700):
        actor.note("began", number=number, text="x" * 10_000)
        if not number % 300:
            assert len(list(journal)) == number + 1
    assert [entry.data["number"] for entry in journal] == list(range(700))
    assert journal.size == len(journal.content()) > 4 * 1024 * 1024
    journal.close()
    runner.close()


def test_it_can_be_read_while_it_is_written():
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
    """A file that takes three bytes at once, and so many in all."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = min(3, self.room, len(data))
        self.room -= taken
        return super().write(data[:taken])


def test_a_file_that_takes_less_at_once_has_whole_lines():
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    journal._file = Reluctant(10_000)
    journal.write("a", "b", {"number": 1})
    journal.write("a", "b", {"number": 2})
    assert [entry.data["number"] for entry in journal] == [1, 2]
    runner.close()


def test_a_line_that_cannot_be_written_is_the_journals_end():
    """Whatever room there is later: nobody could see that a line is missing."""
    runner = VirtualRunner()
    journal = Journal(runner.clock)
    journal._file = Reluctant(60)
    journal.write("a", "b", {"number": 1})
    with pytest.raises(JournalLost, match=r"the journal breaks off, since .* takes no more: .*No space left on device: make room"):
        journal.write("a", "b", {"number": 2})
    journal._file.room = 10_000
    journal.write("a", "b", {"number": 3})
    assert [entry.data["number"] for entry in journal] == [1]
    runner.close()
