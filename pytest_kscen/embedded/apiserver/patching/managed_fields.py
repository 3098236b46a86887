"""Updates of managedFields by plain writes and server-side apply, computed only when read.

Used by tracking and patches. Must give the same entries as kube-apiserver, whenever they are read.
"""

# ruff: noqa: SLF001  # lists of one class read each other's private state

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
    without_subtrees,
)
from pytest_kscen.embedded.apiserver.patching.shapes import ABSENT, UNOWNED_FIELDS, GoShape
from pytest_kscen.embedded.apiserver.patching.structured_merge import (
    compare,
    field_set,
    fits,
    merge,
    remove_fields,
    with_struct_fields,
)
from pytest_kscen.objects.resources import Obj

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kscen.embedded.apiserver.patching.fields import Fields
    from pytest_kscen.embedded.apiserver.patching.shapes import Shape
    from pytest_kscen.embedded.apiserver.patching.structured_merge import FieldChanges

    Entries = Sequence[Obj]


UPDATER_LIMIT = 10
BEFORE_FIRST_APPLY, ANCIENT_CHANGES = "before-first-apply", "ancient-changes"
UNOWNED_SET: Fields = set_of(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in UNOWNED_FIELDS),
)


class Writer(NamedTuple):
    """Owner of a write's entry: manager, operation, version and subresource.

    `ignored` holds the fields that the server resets on this write, so that the writer cannot own
    them. Instances are cached per kind and shared by all requests of the same client.
    """

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


def writer_identity(entry: Obj) -> tuple[str, str, str, str]:
    """Return the key of an entry's writer; an applier's key ignores the version."""
    version = "" if entry["operation"] == "Apply" else entry["apiVersion"]
    return entry.get("manager", ""), entry["operation"], version, entry.get("subresource", "")


def distinct_writers(entries: Entries) -> Entries:
    """Return the last entry of each writer, as Kubernetes reads them."""
    return (
        entries
        if len(entries) < 2  # noqa: PLR2004
        else list({writer_identity(entry): entry for entry in entries}.values())
    )


def sorted_entries(entries: Entries) -> list[Obj]:
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


def entries_after_update(
    entries: Entries, writer: Writer, old: Obj, new: Obj, time: str | None
) -> Entries:
    """Return the entries after a plain write, without changing the given ones.

    The writer owns the fields that it changed; removed fields have no owner. Objects that do not
    fit their shape leave the entries as they were.
    """
    if not isinstance(writer.shape, GoShape) and not fits(writer.shape, new):
        return entries
    changes = compare(writer.shape, old, new).excluding(writer.ignored)
    if not changes.touched and not changes.removed:
        return distinct_writers(entries)
    own = difference(changes.touched, UNOWNED_SET)
    own_identity = writer.identity if own else None
    left = []
    for entry in distinct_writers(entries):
        if writer_identity(entry) == own_identity:
            own = union(difference(entry["fieldsV1"], changes.removed), own)
            if own is entry["fieldsV1"]:
                left.append({**entry, "time": time} if time else entry)
                own_identity = None
        else:
            left += _without_changed([entry], changes)
    if own_identity:
        left.append(writer.entry(own, time))
    return sorted_entries(_merge_oldest(left))


def _without_changed(entries: Entries, changes: FieldChanges) -> list[Obj]:
    """Return the entries without the fields that were changed or removed."""
    return [
        entry if fields is entry["fieldsV1"] else {**entry, "fieldsV1": fields}
        for entry in entries
        if (fields := difference(difference(entry["fieldsV1"], changes.touched), changes.removed))
    ]


def _merge_oldest(entries: list[Obj]) -> list[Obj]:
    """Merge the oldest of more than ten updaters into one entry per version.

    The merged entry's manager is `ancient-changes`, as in Kubernetes.
    """
    updaters = [entry for entry in entries if entry["operation"] == "Update"]
    surplus = len(updaters) - UPDATER_LIMIT
    if surplus <= 0:
        return entries
    updaters = sorted_entries(updaters)
    first: dict[str, Obj] = {}
    buckets: dict[str, Obj] = {}
    for entry in updaters:
        version = entry["apiVersion"]
        if surplus <= 0:
            break
        if version not in first:
            first[version] = entry
            continue
        merged = buckets.get(version, first[version])["fieldsV1"]
        fields = ordered(union(entry["fieldsV1"], merged))
        buckets[version] = {**entry, "manager": ANCIENT_CHANGES, "fieldsV1": fields}
        buckets[version].pop("subresource", None)
        entries = [each for each in entries if each is not entry and each is not first[version]]
        surplus -= 1
    return [*entries, *buckets.values()]


class ConflictsError(Exception):
    """Fields with other owners that the configuration would change, as pairs of entry and path."""

    def __init__(self, conflicts: list[tuple[Obj, tuple[str, ...]]]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts


def apply_configuration(
    entries: Entries, writer: Writer, live: Obj, config: Obj, time: str, *, force: bool
) -> tuple[Obj, Entries]:
    """Return the live object with a configuration applied, and its entries.

    The object is the same instance if nothing changed. Raises ConflictsError unless `force` is set.
    """
    shape = writer.shape
    own = without_subtrees(field_set(shape, config), writer.ignored)
    last = next(
        (each for each in reversed(entries) if writer_identity(each) == writer.identity), None
    )
    others = [each for each in distinct_writers(entries) if each is not last]
    new = merge(shape, live, config)
    if last:
        applied_before = last["fieldsV1"]
        claims = [own, *(each["fieldsV1"] for each in others)]
        gone = with_struct_fields(shape, applied_before)
        everything = with_struct_fields(shape, field_set(shape, new))
        left = remove_fields(shape, new, gone)
        kept = {} if left is ABSENT else with_struct_fields(shape, field_set(shape, left))
        for claim in claims:
            kept = union(kept, with_struct_fields(shape, claim))
        left = remove_fields(shape, new, difference(everything, kept))
        kept = {} if left is ABSENT else with_struct_fields(shape, field_set(shape, left))
        new = remove_fields(shape, new, intersection(difference(everything, kept), gone))
    changes = compare(shape, live, new).excluding(writer.ignored)
    conflicts = [
        (each, path)
        for each in others
        for path in paths(intersection(each["fieldsV1"], changes.touched))
    ]
    if conflicts and not force:
        raise ConflictsError(conflicts)
    if new == live:
        new = live
    left = _without_changed(others, changes)
    if own := difference(own, UNOWNED_SET):
        before = last.get("time") if last else None
        left.append(writer.entry(own, before if new is live else time))
    return new, sorted_entries(left)


# managedFields computed on demand. A plain write only notes the writer, the time and the object
# before and after, as most objects are deleted before their owners are read. Any access to the
# list computes the entries, as do many further writes (which bounds the kept past) and the store
# for long-lived objects; the result is the same in all cases. Readers that bypass Python's
# methods, as orjson does, see an empty list: call `materialised` first.


PENDING_LIMIT = 64  # noted writes after which the older ones are computed
FIELDS_CACHE = 4096  # field sets in the cache that lets objects share them
ENTRIES_CACHE = 256  # entries in that cache; equal ones carry the same time
LEAVES = frozenset([str, int, bool, float])

EMPTY: Obj = {}
FrozenFields: TypeAlias = tuple[tuple[str, "FrozenFields"], ...]
"""Field set in hashable form."""


@dataclass(slots=True)
class DeferredWrite:
    """Plain write whose entries are not computed yet.

    `before` and `after` hold the parts of the object that may have changed; parts that both share
    may be missing. `after` is the object as sent, with defaults, before admission and before the
    server's changes. `before` is None for a new object.
    """

    earlier: Sequence[Obj]
    writer: Writer
    before: Obj | None
    after: Obj
    at: float


def rewritten_leaves(note: DeferredWrite) -> tuple[Writer, list[tuple[str, str]]] | None:
    """Return the writer and the changed scalars, or None if the write changed anything else.

    Only scalars in the second level that keep their type count.
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


class LazyManagedFields(list[Obj]):
    """List of managedFields entries that computes itself on first access.

    `shape` is the shape by which every write so far was compared, or None if it varied.
    """

    __slots__ = ("_depth", "_is_compact", "_note", "shape")

    def __init__(
        self,
        note: DeferredWrite | None = None,
        entries: Iterable[Obj] = (),
        *,
        shape: Shape | None = None,
    ) -> None:
        if entries:
            super().__init__(entries)
        self.shape = shape
        self._note = note
        self._is_compact = False
        self._depth = 0
        if note and type(note.earlier) is LazyManagedFields and note.earlier._note:
            self._depth = note.earlier._depth + 1
            if self._depth == PENDING_LIMIT:
                note.earlier.fill()
                self._depth = 0

    @property
    def note(self) -> DeferredWrite | None:
        """Write that is not computed yet, or None."""
        return self._note

    def fill(self) -> None:
        """Compute all pending writes, oldest first, in this list and the earlier ones it depends
        on.
        """
        if self._note is None:
            return
        found = []
        managed: Sequence[Obj] = self
        while type(managed) is LazyManagedFields and (note := managed._note):
            found.append((note, managed))
            managed = note.earlier
        pending_writes = found[::-1]
        leaves = [rewritten_leaves(note) for note, _ in pending_writes]
        entries: Sequence[Obj] = list(pending_writes[0][0].earlier)
        for place, (note, managed) in enumerate(pending_writes):
            if (
                leaves[place]
                and 0 < place < len(leaves) - 1
                and leaves[place - 1] == leaves[place] == leaves[place + 1]
            ):
                # a writer that repeats the same leaves owns them since its first write and has
                # the time of its last
                continue
            if entries or note.before is None:
                entries = entries_after_update(
                    entries, note.writer, note.before or {}, note.after, timestamp_of(note.at)
                )
            super(LazyManagedFields, managed).__setitem__(slice(None), entries)
            managed._note = None

    def compact(self) -> None:
        """Compute the entries of a long-lived object, drop its past and share equal parts in
        memory.

        An object that was never updated has no past and stays as it is.
        """
        if self._note and self._note.before is None:
            return
        # The entries that were compacted in an earlier version of the object.
        earlier: Sequence[Obj] = self
        while type(earlier) is LazyManagedFields and earlier._note:
            earlier = earlier._note.earlier
        is_compact = type(earlier) is LazyManagedFields and earlier._is_compact
        known = {id(entry) for entry in (list(earlier) if is_compact else [])}
        self.fill()
        super().__setitem__(
            slice(None),
            [
                entry
                if id(entry) in known
                else _entry(
                    tuple(
                        (name, _frozen(value) if name == "fieldsV1" else value)
                        for name, value in entry.items()
                    )
                )
                for entry in self
            ],
        )
        self._is_compact = True

    # All accesses compute the entries first.

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
    """Return the object for readers that bypass Python's methods, such as orjson.

    Its managedFields are computed, and left out if empty.
    """
    metadata = obj.get("metadata")
    managed = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if type(managed) is not LazyManagedFields:
        return obj
    managed.fill()
    if managed:
        return obj
    return {
        **obj,
        "metadata": {
            name: value for name, value in obj["metadata"].items() if name != "managedFields"
        },
    }


def last_manager(new: Obj, old: Obj | None) -> str:
    """Return the field manager that wrote the new version, without computing any entry.

    Empty if the version was written without an entry, as by a subresource that owns no fields.
    """
    managed = new["metadata"].get("managedFields", ())
    earlier = old["metadata"].get("managedFields", ()) if old else ()
    if managed is earlier:
        return ""
    if type(managed) is LazyManagedFields and managed.note:
        return managed.note.writer.manager or "unknown"
    known = set(map(id, earlier))
    added = [entry for entry in managed if id(entry) not in known]
    return added[-1].get("manager", "") if added else ""


def compact_managed_fields(obj: Obj) -> None:
    """Compact the managedFields of an object that will be stored for long.

    Called by the store for objects that survived an interval; the visible entries stay the same.
    """
    managed = obj["metadata"].get("managedFields")
    if type(managed) is LazyManagedFields:
        managed.compact()


def _frozen(fields: Obj) -> FrozenFields:
    return tuple([(element, _frozen(below) if below else ()) for element, below in fields.items()])


@lru_cache(maxsize=ENTRIES_CACHE)
def _entry(parts: tuple[tuple[str, Any], ...]) -> Obj:
    return {name: _fields(value) if name == "fieldsV1" else value for name, value in parts}


@lru_cache(maxsize=FIELDS_CACHE)
def _fields(frozen: FrozenFields) -> Obj:
    return {element: _fields(below) if below else EMPTY for element, below in frozen}
