"""managedFields: how a write changes the owners of fields, and entries that are computed on
first read.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_kscen.clock import timestamp_of
from pytest_kscen.embedded.apiserver.patching.fields import (
    difference,
    intersection,
    ordered,
    paths,
    set_of,
    union,
    without,
)
from pytest_kscen.embedded.apiserver.patching.shapes import ABSENT, NOBODYS, GoShape
from pytest_kscen.embedded.apiserver.patching.structured_merge import (
    compare,
    field_set,
    fits,
    merged,
    taken_out,
    with_named,
)
from pytest_kscen.objects.resources import Obj

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.embedded.apiserver.patching.fields import Fields
    from pytest_kscen.embedded.apiserver.patching.shapes import Shape
    from pytest_kscen.embedded.apiserver.patching.structured_merge import Changes

    Entries = Sequence[Obj]


MOST_UPDATERS = 10
BEFORE_FIRST_APPLY, ANCIENT = "before-first-apply", "ancient-changes"
HEAD: Fields = set_of(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in NOBODYS),
)


class Writer(NamedTuple):
    """Whose entry a write goes into, and what of it the server resets."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    shape: Shape
    ignored: Fields

    @property
    def identity(self) -> tuple[str, str, str, str]:
        version = "" if self.operation == "Apply" else self.api_version
        return self.manager or "unknown", self.operation, version, self.subresource

    def entry(self, fields: Fields, time: str | None) -> Obj:
        return {
            "manager": self.manager or "unknown",
            "operation": self.operation,
            "apiVersion": self.api_version,
            **({"time": time} if time else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": ordered(fields),
            **({"subresource": self.subresource} if self.subresource else {}),
        }


def identity(entry: Obj) -> tuple[str, str, str, str]:
    """What makes two entries the same writer's; an applier stays the same when it moves to
    another version.
    """
    version = "" if entry["operation"] == "Apply" else entry["apiVersion"]
    return entry.get("manager", ""), entry["operation"], version, entry.get("subresource", "")


def distinct(entries: Entries) -> Entries:
    """One entry for each writer, the last: that is how Kubernetes reads them."""
    return (
        entries
        if len(entries) < 2  # noqa: PLR2004
        else list({identity(entry): entry for entry in entries}.values())
    )


def in_order(entries: Entries) -> list[Obj]:
    def place(entry: Obj) -> tuple[str, ...]:
        time = entry.get("time") or ""
        return (
            entry["operation"],
            time,
            entry.get("manager", ""),
            entry["apiVersion"],
            entry.get("subresource", ""),
        )

    return sorted(entries, key=place)


def updated(entries: Entries, writer: Writer, old: Obj, new: Obj, time: str | None) -> Entries:
    """The entries after a plain write: who changed a field owns it, and nobody owns what is
    gone.
    """
    if not isinstance(writer.shape, GoShape) and not fits(writer.shape, new):
        return entries
    changes = compare(writer.shape, old, new).outside(writer.ignored)
    if not changes.touched and not changes.removed:
        return distinct(entries)
    own = difference(changes.touched, HEAD)
    mine = writer.identity if own else None
    left = []
    for entry in distinct(entries):
        if identity(entry) == mine:
            own = union(difference(entry["fieldsV1"], changes.removed), own)
            if own is entry["fieldsV1"]:
                left.append({**entry, "time": time} if time else entry)
                mine = None
        else:
            left += _robbed([entry], changes)
    if mine:
        left.append(writer.entry(own, time))
    return in_order(_capped(left))


def _robbed(entries: Entries, changes: Changes) -> list[Obj]:
    """The entries without the fields that were changed now, or that are gone."""
    return [
        entry if fields is entry["fieldsV1"] else {**entry, "fieldsV1": fields}
        for entry in entries
        if (fields := difference(difference(entry["fieldsV1"], changes.touched), changes.removed))
    ]


def _capped(entries: list[Obj]) -> list[Obj]:
    """The oldest of too many updaters share one entry for each version."""
    updaters = [entry for entry in entries if entry["operation"] == "Update"]
    surplus = len(updaters) - MOST_UPDATERS
    if surplus <= 0:
        return entries
    updaters = in_order(updaters)
    first: dict[str, Obj] = {}
    buckets: dict[str, Obj] = {}
    for entry in updaters:
        version = entry["apiVersion"]
        if surplus <= 0:
            break
        if version not in first:
            first[version] = entry
            continue
        gathered = buckets.get(version, first[version])["fieldsV1"]
        fields = ordered(union(entry["fieldsV1"], gathered))
        buckets[version] = {**entry, "manager": ANCIENT, "fieldsV1": fields}
        buckets[version].pop("subresource", None)
        entries = [each for each in entries if each is not entry and each is not first[version]]
        surplus -= 1
    return [*entries, *buckets.values()]


class ConflictsError(Exception):
    """Fields that others own and the configuration would change: pairs of an entry and a path."""

    def __init__(self, conflicts: list[tuple[Obj, tuple[str, ...]]]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts


def applied(
    entries: Entries, writer: Writer, live: Obj, config: Obj, time: str, *, force: bool
) -> tuple[Obj, Entries]:
    """The live object with a configuration applied, and the entries then; the same object if
    nothing has changed.
    """
    shape = writer.shape
    own = without(field_set(shape, config), writer.ignored)
    last = next((each for each in reversed(entries) if identity(each) == writer.identity), None)
    others = [each for each in distinct(entries) if each is not last]
    new = merged(shape, live, config)
    if last:
        new = _pruned(shape, new, last["fieldsV1"], [own, *(each["fieldsV1"] for each in others)])
    changes = compare(shape, live, new).outside(writer.ignored)
    conflicts = [
        (each, path)
        for each in others
        for path in paths(intersection(each["fieldsV1"], changes.touched))
    ]
    if conflicts and not force:
        raise ConflictsError(conflicts)
    if new == live:
        new = live
    left = _robbed(others, changes)
    if own := difference(own, HEAD):
        before = last.get("time") if last else None
        left.append(writer.entry(own, before if new is live else time))
    return new, in_order(left)


def _pruned(shape: Shape, new: Any, last: Fields, claims: list[Fields]) -> Any:
    """Without what this applier has given up and nobody else claims."""
    gone = with_named(shape, last)
    everything = with_named(shape, field_set(shape, new))
    left = taken_out(shape, new, gone)
    kept = {} if left is ABSENT else with_named(shape, field_set(shape, left))
    for claim in claims:
        kept = union(kept, with_named(shape, claim))
    left = taken_out(shape, new, difference(everything, kept))
    kept = {} if left is ABSENT else with_named(shape, field_set(shape, left))
    return taken_out(shape, new, intersection(difference(everything, kept), gone))


# managedFields that are worked out when somebody looks. A plain write only notes who wrote,
# when, and the object before and after; most objects are gone before anybody asks who owned
# their fields. Looking at the list in any way (or a few writes later, so that the past is not
# kept for ever) fills it, and so does the store with those of objects that last; the answer is
# the same whether and whenever anybody looked. Readers that bypass Python's methods, as orjson
# does, see an empty list: `materialised` comes first.


LONGEST = 64  # writes that are noted before they are worked out
SHARED = 4096  # sets of fields that are remembered because other objects may have the same
SHARED_ENTRIES = 256  # that are: of one instant, that is
LEAVES = frozenset([str, int, bool, float])

NONE: Obj = {}
Spelt: TypeAlias = tuple[tuple[str, "Spelt"], ...]
"""A set of fields that can be looked up."""


@dataclass(slots=True)
class Note:
    """One plain write: what of the object it may have changed, `before` and `after`. What both
    share need not be in either.

    `after` is as the writer sent it, defaults filled in: before admission, and before the server's
    part. There is no
    `before` of a new object.
    """

    earlier: Sequence[Obj]
    writer: Writer
    before: Obj | None
    after: Obj
    at: float


def rewritten_leaves(note: Note) -> tuple[Writer, list[tuple[str, str]]] | None:
    """Who wrote, and where, if he did no more than to put other scalars of the same type in the
    place of some.
    """
    before, after = note.before, note.after
    if (
        before is None
        or before.keys() != after.keys()
        or not isinstance(note.writer.shape, GoShape)
    ):
        return None
    found = []
    for name, part in after.items():
        was = before[name]
        if type(part) is not dict or type(was) is not dict or part.keys() != was.keys():
            return None
        for inner, value in part.items():
            old = was[inner]
            if value is old:
                continue
            if type(value) is not type(old) or type(value) not in LEAVES:
                return None
            if value != old:
                found.append((name, inner))
    return note.writer, found


class Ledger(list[Obj]):
    """The entries of one object.

    `shape` is what every write of it so far was judged by, if that was always the same.
    """

    __slots__ = ("_depth", "_is_settled", "_note", "shape")

    def __init__(
        self, note: Note | None = None, entries: Iterable[Obj] = (), *, shape: Shape | None = None
    ) -> None:
        if entries:
            super().__init__(entries)
        self.shape = shape
        self._note = note
        self._is_settled = False
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
        if self._note is None:
            return
        open_ones = self._open_ones()
        leaves = [rewritten_leaves(note) for note, _ in open_ones]
        entries: Sequence[Obj] = list(open_ones[0][0].earlier)
        for place, (note, ledger) in enumerate(open_ones):
            if (
                leaves[place]
                and 0 < place < len(leaves) - 1
                and leaves[place - 1] == leaves[place] == leaves[place + 1]
            ):
                # a writer who goes on with the same leaves owns them since the first time, and has
                # a time from the last
                continue
            if entries or note.before is None:
                entries = updated(
                    entries, note.writer, note.before or {}, note.after, timestamp_of(note.at)
                )
            super(Ledger, ledger).__setitem__(slice(None), entries)
            ledger._note = None  # noqa: SLF001

    def _open_ones(self) -> list[tuple[Note, Ledger]]:
        """What is not worked out, from the first write on."""
        found = []
        ledger: Sequence[Obj] = self
        while type(ledger) is Ledger and (note := ledger._note):  # noqa: SLF001 - its own kind
            found.append((note, ledger))
            ledger = note.earlier
        return found[::-1]

    def settle(self) -> None:
        """It is here to stay: nothing of the past is kept for it, and what others have too is the
        same in memory.

        An object that nobody has written since it was made has no past.
        """
        if self._note and self._note.before is None:
            return
        # The entries that have been settled when the object was an earlier one.
        earlier: Sequence[Obj] = self
        while type(earlier) is Ledger and earlier._note:  # noqa: SLF001 - its own kind
            earlier = earlier._note.earlier  # noqa: SLF001
        is_settled = type(earlier) is Ledger and earlier._is_settled  # noqa: SLF001 - its own kind
        known = {id(entry) for entry in (list(earlier) if is_settled else [])}
        self.fill()
        super().__setitem__(
            slice(None), [entry if id(entry) in known else _shared(entry) for entry in self]
        )
        self._is_settled = True

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
    """The object for readers that bypass Python's methods: with its managedFields worked out,
    and without empty ones.
    """
    metadata = obj.get("metadata")
    ledger = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if type(ledger) is not Ledger:
        return obj
    ledger.fill()
    if ledger:
        return obj
    return {
        **obj,
        "metadata": {
            name: value for name, value in obj["metadata"].items() if name != "managedFields"
        },
    }


def settle(obj: Obj) -> None:
    """The object will be here for a while: it keeps nothing of its past."""
    ledger = obj["metadata"].get("managedFields")
    if type(ledger) is Ledger:
        ledger.settle()


def _shared(entry: Obj) -> Obj:
    """The same entry, of which all parts are in memory once."""
    return _entry(
        tuple(
            (name, _spelt(value) if name == "fieldsV1" else value) for name, value in entry.items()
        )
    )


def _spelt(fields: Obj) -> Spelt:
    return tuple([(element, _spelt(below) if below else ()) for element, below in fields.items()])


@lru_cache(maxsize=SHARED_ENTRIES)
def _entry(parts: tuple[tuple[str, Any], ...]) -> Obj:
    return {name: _fields(value) if name == "fieldsV1" else value for name, value in parts}


@lru_cache(maxsize=SHARED)
def _fields(spelt: Spelt) -> Obj:
    return {element: _fields(below) if below else NONE for element, below in spelt}
