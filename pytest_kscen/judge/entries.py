"""Entries of a journal as fields of records: tables of readers, and shared names.

`incidents`, `volumes` and `start_and_end` build their tables with it. Must not read anything but
entries of the journal.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.journal import Entry

    Reader: TypeAlias = Callable[[Any, Entry], object]
    """Function that adds an entry to the record that it is about."""

NAMES_KEPT = 1024


def assign(**values: Reader) -> Reader:
    """Return a reader that sets fields of a record, each to what its function returns.

    The functions get the record and the entry, in the order of the arguments: a later one sees
    the fields that were set before.
    """

    fields = tuple(values.items())

    def read(record: Any, entry: Entry) -> None:
        for name, value in fields:
            setattr(record, name, value(record, entry))

    return read


def time(_: Any, entry: Entry) -> float:
    return entry.at


def true(*_: Any) -> bool:
    return True


def field(name: str) -> Reader:
    """Return a function for the tables of `assign`: it returns this field of the entry as it is.

    An entry without the field raises KeyError, which names the field in the finding.
    """
    return lambda _, entry: entry.data[name]


def names(key: str) -> Reader:
    """Return a function for the tables of `assign`: the list of names in this field, shared."""
    return lambda _, entry: [*map(shared, entry.data[key])]


@lru_cache(maxsize=NAMES_KEPT)
def shared(text: str) -> str:
    """Return one shared string for equal strings, so that memory holds each name once.

    The cache is bounded: a string that was not used for a long time may be held twice.
    """
    return text


@lru_cache(maxsize=NAMES_KEPT)
def shared_names(*names: str) -> tuple[str, ...]:
    """Return one shared tuple for equal names; its strings are shared too."""
    return tuple(map(shared, names))
