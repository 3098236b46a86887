"""update and patch: both make a new object from the one that is there, and one path judges and commits it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.kube.requests import MERGE_PATCH, Answer
from pytest_kscen.machinery.admission import Review
from pytest_kscen.machinery.core import key_of
from pytest_kscen.machinery.creating import decode
from pytest_kscen.machinery.reading import current
from pytest_kscen.objects.errors import UnsupportedMediaType, conflict, invalid
from pytest_kscen.objects.patches import merge_patch

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind
    from pytest_kscen.objects.resources import Obj

KEPT = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
STALE = "the object has been modified; please apply your changes to the latest version and try again"


async def update(core: Core, request: Request) -> Answer:
    return await _replace(core, request, current(core, request))


async def patch(core: Core, request: Request) -> Answer:
    old = current(core, request)
    if request.patch_type != MERGE_PATCH:
        raise UnsupportedMediaType(f"the body of the request was in an unknown format: {request.patch_type}")
    return await _replace(core, replace(request, body=merge_patch(old, request.body)), old)


async def _replace(core: Core, request: Request, old: Obj) -> Answer:
    kind = core.kind_of(request)
    new = decode(kind, request, old)
    metadata = new["metadata"]
    if metadata.get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
        raise conflict(kind.resource, request.name, STALE)
    metadata.update({name: old["metadata"][name] for name in KEPT if name in old["metadata"]})
    _separate_status(kind, request, new, old)
    kind.rules.default(new)
    kind.rules.prepare_update(new, old, core)
    if _spec(new) != _spec(old):
        metadata["generation"] = old["metadata"].get("generation", 0) + 1
    review = Review("UPDATE", request, core, new, old)
    await core.admission.mutate(review)
    if causes := [*kind.schema.validate(new, old), *kind.rules.validate(new), *kind.rules.validate_update(new, old)]:
        raise invalid(kind.resource, request.name, causes)
    await core.admission.validate(review)
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    if request.options.dry_run or new == old:
        return Answer(new)
    key = key_of(request, request.name)
    if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
        return Answer(core.store.remove(key))
    return Answer(core.store.commit(key, new))


def _separate_status(kind: Kind, request: Request, new: Obj, old: Obj) -> None:
    """The main resource leaves the status alone, and the status subresource everything else."""
    if request.subresource == "status":
        status, metadata = new.get("status"), new["metadata"]
        new.clear()
        new.update({**old, "metadata": {**old["metadata"], "resourceVersion": metadata.get("resourceVersion")}})
        new.update({"status": status} if status is not None else {})
    elif kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]


def _spec(obj: Obj) -> Obj:
    return {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
