"""Writes to the API as data, and their execution.

Decisions return them and the pods perform them. They must not be changed, but are not frozen: many
are created, and frozen ones are slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import AlreadyExists, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj, Resource


@dataclass(slots=True)
class CreateObject:
    resource: Resource
    obj: Obj


@dataclass(slots=True)
class PatchObject:
    """Patch of an object, applied even if the object was written since it was read."""

    resource: Resource
    obj: Obj
    patch: Obj


@dataclass(slots=True)
class SetFinalizers:
    """Replacement of an object's finalizers, refused by the API if the object was written
    since.
    """

    resource: Resource
    obj: Obj
    finalizers: list[str]


@dataclass(slots=True)
class DeleteObject:
    resource: Resource
    obj: Obj


@dataclass(slots=True)
class WriteStatus:
    """Replacement of an object's status. It goes on top of earlier writes of the same batch, and
    may be deferred if it is not urgent.
    """

    resource: Resource
    obj: Obj
    status: Obj
    is_urgent: bool = True
    """True if another process reacts to it, or if it reports a deterioration. Otherwise it may be
    deferred and combined with later ones.
    """


ApiWrite = CreateObject | PatchObject | SetFinalizers | DeleteObject | WriteStatus


async def perform(api: Api, writes: Iterable[ApiWrite]) -> None:
    """Execute writes in order. A status is based on earlier writes of the batch to the same
    object. Creations of existing objects and deletions of missing ones are skipped.
    """
    latest: dict[tuple[str, str], Obj] = {}
    for write in writes:
        name = write.obj["metadata"]["name"]
        key = write.resource.kind, name
        match write:
            case WriteStatus():
                obj = latest.get(key, write.obj)
                latest[key] = await api.update(
                    write.resource, {**obj, "status": write.status}, subresource="status"
                )
            case CreateObject():
                try:
                    await api.create(write.resource, write.obj)
                except AlreadyExists:  # the cache will show it
                    continue
            case PatchObject():
                latest[key] = await api.patch(write.resource, name, write.patch)
            case SetFinalizers():
                metadata = {**write.obj["metadata"], "finalizers": write.finalizers}
                latest[key] = await api.update(write.resource, {**write.obj, "metadata": metadata})
            case DeleteObject():
                try:
                    await api.delete(
                        write.resource, name, precondition_uid=write.obj["metadata"]["uid"]
                    )
                except NotFound:
                    continue
