"""Tracking of plain writes: a note in managedFields before admission, and tests for changes.

Called by the verbs. Entries are computed later, by `managed_fields`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.embedded.apiserver.patching.managed_fields import (
    DeferredWrite,
    LazyManagedFields,
    distinct_writers,
)
from pytest_kscen.embedded.apiserver.patching.managers import manager_name_errors, writer_of
from pytest_kscen.embedded.apiserver.patching.shapes import UNOWNED_FIELDS, GoShape
from pytest_kscen.kube.api import APPLY_PATCH
from pytest_kscen.objects.errors import Cause, invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.embedded.apiserver.patching.shapes import Shape
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj

NOTHING: Obj = {}
METADATA = frozenset(["metadata"])
SUBRESOURCE_LIMIT = 256  # bytes


def track(kind: Kind, request: Request, new: Obj, old: Obj | None, at: float) -> None:
    """Note a write in the new object, which is decoded and defaulted but not admitted yet.

    Server-side apply and scale compute their entries themselves.
    """
    if request.patch_type == APPLY_PATCH or request.subresource == "scale":
        return
    metadata = new["metadata"]
    given = metadata.get("managedFields")
    live = old["metadata"].get("managedFields", ()) if old else ()
    earlier = (
        live if request.subresource or given is live else _base_entries(kind, request, given, live)
    )
    writer = writer_of(kind, request)
    shape = _known_shape(writer.shape, old, live)
    # The parts that differ, without unowned fields; of unchanged parts only what the shape needs.
    whole = shape is None and not isinstance(writer.shape, GoShape)
    was: Obj = old or NOTHING
    before, after = ({**was}, {**new}) if whole else _changed_parts(was, new, METADATA)
    had = was.get("metadata") or NOTHING
    # Field owners are compared by identity alone.
    if metadata.get("managedFields") is had.get("managedFields") and metadata == had:
        old_metadata: Obj = {}
        new_metadata: Obj = {}
    else:
        old_metadata, new_metadata = _changed_parts(had, metadata, UNOWNED_FIELDS)
    if old_metadata or whole:
        before["metadata"] = old_metadata
    if new_metadata or whole:
        after["metadata"] = new_metadata
    metadata.pop("managedFields", None)  # moved to the end
    metadata["managedFields"] = LazyManagedFields(
        DeferredWrite(earlier, writer, before if old else None, after, at), shape=shape
    )


def _known_shape(shape: Shape, old: Obj | None, live: Sequence[Obj]) -> Shape | None:
    """Return the shape that the whole object is known to fit, or None."""
    return (
        shape if old is None or (type(live) is LazyManagedFields and live.shape is shape) else None
    )


def _changed_parts(old: Obj, new: Obj, excluded: frozenset[str]) -> tuple[Obj, Obj]:
    """Return the parts of each object that are not the same instance in the other."""
    if not old:
        return {}, {name: value for name, value in new.items() if name not in excluded}
    before, after = {}, {}
    seen = 0
    for name, value in new.items():
        if name not in old:
            if name not in excluded:
                after[name] = value
            continue
        seen += 1
        if value is not (was := old[name]) and name not in excluded:
            after[name], before[name] = value, was
    if seen < len(old):
        before.update(
            (name, was) for name, was in old.items() if name not in new and name not in excluded
        )
    return before, after


def _base_entries(kind: Kind, request: Request, given: Any, live: Sequence[Obj]) -> Sequence[Obj]:
    """Return the entries to start from: the ones sent, unless they are missing or invalid."""
    if given is None:
        return live
    if type(given) is LazyManagedFields:
        return given
    if given in ([], [{}]):
        # An empty list in a custom object is dropped.
        return () if given or not kind.custom else live
    if given == live:
        return live
    try:
        entries = [_checked(entry) for entry in given]
    except (KeyError, TypeError, ValueError, AttributeError):
        return live
    causes: list[Cause] = []
    for place, entry in enumerate(entries):
        path = f"metadata.managedFields[{place}]"
        causes += manager_name_errors(f"{path}.manager", entry.get("manager", ""))
        if len(entry.get("subresource", "").encode()) > SUBRESOURCE_LIMIT:
            causes.append(Cause.too_long(f"{path}.subresource", SUBRESOURCE_LIMIT))
    if causes:
        raise invalid(kind.resource, request.name, causes)
    return [entry for entry in distinct_writers(entries) if entry["fieldsV1"]]


def _checked(entry: Obj) -> Obj:
    if (
        entry["operation"] not in {"Apply", "Update"}
        or not entry["apiVersion"]
        or entry["fieldsType"] != "FieldsV1"
    ):
        raise ValueError(entry)
    return {**entry, "fieldsV1": _canonical(entry.get("fieldsV1") or {})}


def _canonical(fields: Obj) -> Obj:
    """Return a field set in canonical form; elements of unknown kinds are dropped."""
    if any(name != "." and name[1:2] != ":" for name in fields):
        raise ValueError(fields)
    return {
        _element(name): _canonical(below) for name, below in fields.items() if name[0] in ".fkvi"
    }


def _element(name: str) -> str:
    if name[0] == "k":
        return "k:" + orjson.dumps(orjson.loads(name[2:]), option=orjson.OPT_SORT_KEYS).decode()
    return "v:" + orjson.dumps(orjson.loads(name[2:])).decode() if name[0] == "v" else name


def is_unchanged(new: Obj, old: Obj) -> bool:
    """Return True if a write leaves the object as it is."""
    return _same_but_owners(new, old) and same_owners(new, old)


def _same_but_owners(new: Obj, old: Obj) -> bool:
    if len(new) != len(old):
        return False
    for name, value in new.items():
        if name == "metadata":
            was, now = old["metadata"], value
            if any(
                now.get(part) != was.get(part) for part in {**now, **was} if part != "managedFields"
            ):
                return False
        elif name not in old or (value is not old[name] and value != old[name]):
            return False
    return True


def same_owners(new: Obj, old: Obj) -> bool:
    """Return True if a write leaves managedFields as they are, ignoring times.

    Computes the entries only if the notes do not decide it.
    """
    now, was = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if now is was:
        return True
    note = now.note if type(now) is LazyManagedFields else None
    if note and note.earlier is was and note.before == note.after and _has_distinct_writers(was):
        return True
    return _without_times(now) == _without_times(was)


def _has_distinct_writers(entries: Sequence[Obj] | None) -> bool:
    """Return True if each writer has one entry.

    Scaling may leave two, which the next write merges.
    """
    return (type(entries) is LazyManagedFields and entries.note is not None) or len(
        distinct_writers(entries or ())
    ) == len(entries or ())


def _without_times(entries: Sequence[Obj] | None) -> list[Obj]:
    return [
        {name: value for name, value in entry.items() if name != "time"} for entry in entries or ()
    ]
