"""Who owns which fields: what a write does to managedFields, and what an applied configuration does to an object.

Entries are managedFields' own, plain JSON. They are shared and never changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kscen.machinery.patching.checking import fits
from pytest_kscen.machinery.patching.comparing import compare
from pytest_kscen.machinery.patching.fields import difference, intersection, ordered, paths, set_of, union, without
from pytest_kscen.machinery.patching.merging import field_set, merged, taken_out, with_named
from pytest_kscen.machinery.patching.shapes import ABSENT, NOBODYS, GoShape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.machinery.patching.comparing import Changes
    from pytest_kscen.machinery.patching.fields import Fields
    from pytest_kscen.machinery.patching.shapes import Shape
    from pytest_kscen.objects.resources import Obj

    Entries = Sequence[Obj]

MOST_UPDATERS = 10
BEFORE_FIRST_APPLY, ANCIENT = "before-first-apply", "ancient-changes"
HEAD: Fields = set_of(("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in NOBODYS))


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
    """What makes two entries the same writer's; an applier stays the same when it moves to another version."""
    version = "" if entry["operation"] == "Apply" else entry["apiVersion"]
    return entry.get("manager", ""), entry["operation"], version, entry.get("subresource", "")


def distinct(entries: Entries) -> Entries:
    """One entry for each writer, the last: that is how Kubernetes reads them."""
    return entries if len(entries) < 2 else list({identity(entry): entry for entry in entries}.values())  # noqa: PLR2004


def in_order(entries: Entries) -> list[Obj]:
    def place(entry: Obj) -> tuple[str, ...]:
        time = entry.get("time") or ""
        return entry["operation"], time, entry.get("manager", ""), entry["apiVersion"], entry.get("subresource", "")

    return sorted(entries, key=place)


def updated(entries: Entries, writer: Writer, old: Obj, new: Obj, time: str | None) -> Entries:
    """The entries after a plain write: who changed a field owns it, and nobody owns what is gone."""
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


def applied(entries: Entries, writer: Writer, live: Obj, config: Obj, time: str, *, force: bool) -> tuple[Obj, Entries]:
    """The live object with a configuration applied, and the entries then; the same object if nothing has changed."""
    shape = writer.shape
    own = without(field_set(shape, config), writer.ignored)
    last = next((each for each in reversed(entries) if identity(each) == writer.identity), None)
    others = [each for each in distinct(entries) if each is not last]
    new = merged(shape, live, config)
    if last:
        new = _pruned(shape, new, last["fieldsV1"], [own, *(each["fieldsV1"] for each in others)])
    changes = compare(shape, live, new).outside(writer.ignored)
    conflicts = [(each, path) for each in others for path in paths(intersection(each["fieldsV1"], changes.touched))]
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
