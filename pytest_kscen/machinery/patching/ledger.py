"""managedFields that are worked out when somebody looks.

A plain write only notes who wrote, when, and the object before and after; most objects are gone before anybody asks who
owned their fields. Looking at the list in any way (or a few writes later, so that the past is not kept for ever) fills
it; the answer is the same whether and whenever anybody looked. Readers that bypass Python's methods, as orjson does,
see an empty list: `materialised` comes first.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.clock import timestamp_of
from pytest_kscen.machinery.patching.ownership import updated
from pytest_kscen.objects.resources import Obj

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.machinery.patching.ownership import Writer

LONGEST = 32  # writes that are noted before they are worked out


class Note(NamedTuple):
    """One plain write. `after` is as the writer sent it, defaults filled in: before admission, and before the server's part."""

    earlier: Sequence[Obj]
    writer: Writer
    before: Obj
    after: Obj
    at: float


class Ledger(list[Obj]):
    """The entries of one object."""

    __slots__ = ("_depth", "_note")

    def __init__(self, note: Note | None = None, entries: Iterable[Obj] = ()) -> None:
        super().__init__(entries)
        self._note = note
        self._depth = 0
        if note and type(note.earlier) is Ledger and note.earlier._note:  # noqa: SLF001 - its own kind
            self._depth = note.earlier._depth + 1  # noqa: SLF001
            if self._depth == LONGEST:
                note.earlier.fill()
                self._depth = 0

    @property
    def note(self) -> Note | None:
        """The write that is not worked out yet."""
        return self._note

    def fill(self) -> None:
        note = self._note
        if note is None:
            return
        entries = list(note.earlier)
        if entries or not note.before.get("metadata", {}).get("uid"):
            entries = list(updated(entries, note.writer, note.before, note.after, timestamp_of(note.at)))
        super().__setitem__(slice(None), entries)
        self._note = None

    # Looking, in all the ways there are.

    def __iter__(self) -> Iterator[Obj]:
        self.fill()
        return super().__iter__()

    def __len__(self) -> int:
        self.fill()
        return super().__len__()

    def __getitem__(self, index: Any) -> Any:
        self.fill()
        return super().__getitem__(index)

    def __contains__(self, entry: object) -> bool:
        self.fill()
        return super().__contains__(entry)

    def __reversed__(self) -> Iterator[Obj]:
        self.fill()
        return super().__reversed__()

    def __eq__(self, other: object) -> bool:
        self.fill()
        return list(self) == (list(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as a list

    def __repr__(self) -> str:
        self.fill()
        return super().__repr__()

    def __add__(self, other: Any) -> Any:
        return list(self) + other

    def copy(self) -> list[Obj]:
        return list(self)

    def __copy__(self) -> list[Obj]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Obj]:
        return copy.deepcopy(list(self), memo)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (list(self),)


def materialised(obj: Obj) -> Obj:
    """The object for readers that bypass Python's methods: with its managedFields worked out, and without empty ones."""
    metadata = obj.get("metadata")
    ledger = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if type(ledger) is not Ledger:
        return obj
    ledger.fill()
    if ledger:
        return obj
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}
