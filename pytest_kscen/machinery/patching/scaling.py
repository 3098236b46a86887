"""managedFields between an object and its scale, which shows the number of replicas alone.

Kubernetes' ways are kept: scaling leaves no time; who scales what nobody owned comes to own nothing; and a plain writer
who keeps the replicas while somebody scales gets an entry of its own for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import APPLY_PATCH
from pytest_kscen.machinery.patching.fields import difference, has, set_of
from pytest_kscen.machinery.patching.managers import writer_of
from pytest_kscen.machinery.patching.ownership import distinct, identity, in_order, updated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj

REPLICAS = ("f:spec", "f:replicas")
SCALE_VERSION = "autoscaling/v1"


def owners_of_scale(obj: Obj, path: str) -> list[Obj]:
    """The scale's entries: whoever owns the replicas at this dotted path of the object."""
    place = _place(path)
    entries = distinct(obj["metadata"].get("managedFields", ()))
    return [{**each, "apiVersion": SCALE_VERSION, "fieldsV1": set_of(REPLICAS)} for each in entries if has(each["fieldsV1"], place)]


def owners_after_scaling(kind: Kind, request: Request, old: Obj, scales: tuple[Kind, Obj, Obj]) -> list[Obj]:
    """The object's entries; `scales` are the kind of scales, the old one and the new."""
    scale_kind, before, after = scales
    path = kind.subresources["scale"].paths[0]
    of_scale: Sequence[Obj] = after["metadata"].get("managedFields", ())
    if request.patch_type != APPLY_PATCH:
        of_scale = owners_of_scale(old, path)
        after = after if after.get("spec", {}).get("replicas") else {**after, "spec": {}}  # zero is not written
        of_scale = updated(of_scale, writer_of(scale_kind, request), before, after, None) if of_scale else []
    place = _place(path)
    left, new = [], {identity(each): each for each in of_scale if has(each["fieldsV1"], REPLICAS)}
    for entry in distinct(old["metadata"].get("managedFields", ())):
        if not has(entry["fieldsV1"], place) or new.pop(identity(entry), {}):
            left.append(entry)
        elif fields := difference(entry["fieldsV1"], set_of(place)):
            left.append({**entry, "fieldsV1": fields})
    for entry in new.values():
        kept = {name: value for name, value in entry.items() if name != "time"}
        left.append({**kept, "apiVersion": kind.api_version, "fieldsV1": set_of(place)})
    return in_order(left)


def _place(path: str) -> tuple[str, ...]:
    return tuple(f"f:{name}" for name in path.split("."))
