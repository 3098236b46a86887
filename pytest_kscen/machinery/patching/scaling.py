"""managedFields between an object and its scale, which shows the number of replicas alone. Scaling leaves no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.machinery.patching.fields import difference, has, set_of
from pytest_kscen.machinery.patching.ownership import identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj

REPLICAS = set_of(("f:spec", "f:replicas"))
SCALE_VERSION = "autoscaling/v1"


def owners_of_scale(entries: Sequence[Obj], path: str) -> list[Obj]:
    """The scale's entries: whoever owns the replicas at this dotted path."""
    place = _place(path)
    return [{**entry, "apiVersion": SCALE_VERSION, "fieldsV1": REPLICAS} for entry in entries if has(entry["fieldsV1"], place)]


def owners_of_scaled(entries: Sequence[Obj], of_scale: Sequence[Obj], path: str, api_version: str) -> list[Obj]:
    """The object's entries after its scale was written: who no longer owns the replicas there loses them here."""
    place = set_of(_place(path))
    mine = {identity({**entry, "apiVersion": api_version}): entry for entry in of_scale}
    left = []
    for entry in entries:
        if has(entry["fieldsV1"], _place(path)) and not mine.pop(identity(entry), None):
            if fields := difference(entry["fieldsV1"], place):
                left.append({**entry, "fieldsV1": fields})
        else:
            left.append(entry)
    new = [{**entry, "apiVersion": api_version, "fieldsV1": place} for entry in mine.values()]
    for entry in new:
        entry.pop("time", None)
    return sorted([*left, *new], key=lambda entry: (entry["operation"], entry.get("time") or "", entry["manager"]))


def _place(path: str) -> tuple[str, ...]:
    return tuple(f"f:{name}" for name in path.split("."))
