"""managedFields on the way of a plain write: noted before admission, and asked whether anything
has changed at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.embedded.apiserver.patching.managed_fields import Ledger, Note, distinct
from pytest_kscen.embedded.apiserver.patching.managers import writer_of, wrong_names
from pytest_kscen.embedded.apiserver.patching.shapes import NOBODYS, GoShape
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
LONGEST_SUBRESOURCE = 256  # bytes


def track(kind: Kind, request: Request, new: Obj, old: Obj | None, at: float) -> None:
    """Note a write in the new object, decoded and defaulted but not admitted yet.

    Applying and scaling keep their own books.
    """
    if request.patch_type == APPLY_PATCH or request.subresource == "scale":
        return
    metadata = new["metadata"]
    given = metadata.get("managedFields")
    live = old["metadata"].get("managedFields", ()) if old else ()
    earlier = live if request.subresource or given is live else _earlier(kind, request, given, live)
    writer = writer_of(kind, request)
    shape = _shape_so_far(writer.shape, old, live)
    # What was there before and what is now, but for what nobody owns; of what has stayed, no
    # more than is asked for.
    whole = shape is None and not isinstance(writer.shape, GoShape)
    was: Obj = old or NOTHING
    before, after = ({**was}, {**new}) if whole else _differing(was, new, METADATA)
    old_metadata, new_metadata = _differing_metadata(
        was.get("metadata") or NOTHING, new["metadata"]
    )
    if old_metadata or whole:
        before["metadata"] = old_metadata
    if new_metadata or whole:
        after["metadata"] = new_metadata
    metadata.pop("managedFields", None)  # they are the last
    metadata["managedFields"] = Ledger(
        Note(earlier, writer, before if old else None, after, at), shape=shape
    )


def _shape_so_far(shape: Shape, old: Obj | None, live: Sequence[Obj]) -> Shape | None:
    """What the whole object fits, if that is certain without a look."""
    return shape if old is None or (type(live) is Ledger and live.shape is shape) else None


def _differing_metadata(old: Obj, new: Obj) -> tuple[Obj, Obj]:
    """The same of metadata, which most writes leave alone; owners are compared by no more than a
    glance.
    """
    if new.get("managedFields") is old.get("managedFields") and new == old:
        return {}, {}
    return _differing(old, new, NOBODYS)


def _differing(old: Obj, new: Obj, besides: frozenset[str]) -> tuple[Obj, Obj]:
    """The parts of each that are not the same in the other."""
    if not old:
        return {}, {name: value for name, value in new.items() if name not in besides}
    before, after = {}, {}
    seen = 0
    for name, value in new.items():
        if name not in old:
            if name not in besides:
                after[name] = value
            continue
        seen += 1
        if value is not (was := old[name]) and name not in besides:
            after[name], before[name] = value, was
    if seen < len(old):
        before.update(
            (name, was) for name, was in old.items() if name not in new and name not in besides
        )
    return before, after


def _earlier(kind: Kind, request: Request, given: Any, live: Sequence[Obj]) -> Sequence[Obj]:
    """The entries to go on from: what the writer sends, unless that is nothing or makes no
    sense.
    """
    if given is None:
        return live
    if type(given) is Ledger:
        return given
    if given in ([], [{}]):
        return (
            () if given or not kind.custom else live
        )  # of a custom object's empty list nothing is left
    if given == live:
        return live
    try:
        entries = [_checked(entry) for entry in given]
    except (KeyError, TypeError, ValueError, AttributeError):
        return live
    if causes := [
        cause
        for place, entry in enumerate(entries)
        for cause in _wrong(entry, f"metadata.managedFields[{place}]")
    ]:
        raise invalid(kind.resource, request.name, causes)
    return [entry for entry in distinct(entries) if entry["fieldsV1"]]


def _wrong(entry: Obj, path: str) -> list[Cause]:
    subresource = Cause.too_long(f"{path}.subresource", LONGEST_SUBRESOURCE)
    too_long = len(entry.get("subresource", "").encode()) > LONGEST_SUBRESOURCE
    return [
        *wrong_names(f"{path}.manager", entry.get("manager", "")),
        *([subresource] if too_long else []),
    ]


def _checked(entry: Obj) -> Obj:
    if (
        entry["operation"] not in {"Apply", "Update"}
        or not entry["apiVersion"]
        or entry["fieldsType"] != "FieldsV1"
    ):
        raise ValueError(entry)
    return {**entry, "fieldsV1": _canonical(entry.get("fieldsV1") or {})}


def _canonical(fields: Obj) -> Obj:
    """A set as we would write it; elements of sorts that nobody knows are dropped."""
    if any(name != "." and name[1:2] != ":" for name in fields):
        raise ValueError(fields)
    return {
        _element(name): _canonical(below) for name, below in fields.items() if name[0] in ".fkvi"
    }


def _element(name: str) -> str:
    if name[0] == "k":
        return "k:" + orjson.dumps(orjson.loads(name[2:]), option=orjson.OPT_SORT_KEYS).decode()
    return "v:" + orjson.dumps(orjson.loads(name[2:])).decode() if name[0] == "v" else name


def unchanged(new: Obj, old: Obj) -> bool:
    """Whether a write would leave the object as it is."""
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
    """Whether a write leaves managedFields as they are. Times do not count."""
    now, was = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if now is was:
        return True
    note = now.note if type(now) is Ledger else None
    if note and note.earlier is was and note.before == note.after and _is_tidy(was):
        return True
    return _timeless(now) == _timeless(was)


def _is_tidy(entries: Sequence[Obj] | None) -> bool:
    """Whether each writer has one entry.

    Scaling may leave him two, which the next write puts in order.
    """
    return (type(entries) is Ledger and entries.note is not None) or len(
        distinct(entries or ())
    ) == len(entries or ())


def _timeless(entries: Sequence[Obj] | None) -> list[Obj]:
    return [
        {name: value for name, value in entry.items() if name != "time"} for entry in entries or ()
    ]
