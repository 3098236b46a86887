"""What is to be done to the API's objects, as data, and doing it.

Nobody changes a deed; none is frozen, for many are made.
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
    """Create an object."""

    resource: Resource
    obj: Obj


@dataclass(slots=True)
class PatchObject:
    """Patch an object as it was seen."""

    resource: Resource
    obj: Obj
    patch: Obj


@dataclass(slots=True)
class SetFinalizers:
    """Put finalizers on an object, and take off all others, if nobody has written it since it
    was seen.
    """

    resource: Resource
    obj: Obj
    finalizers: list[str]


@dataclass(slots=True)
class DeleteObject:
    """Ask for an object's deletion."""

    resource: Resource
    obj: Obj


@dataclass(slots=True)
class WriteStatus:
    """Replace an object's status."""

    resource: Resource
    obj: Obj
    status: Obj
    is_urgent: bool = True
    """Whether somebody acts by it, or it is bad; else it may wait for more of its kind."""


ApiWrite = CreateObject | PatchObject | SetFinalizers | DeleteObject | WriteStatus


async def perform(api: Api, deeds: Iterable[ApiWrite]) -> None:
    """One after the other; a status is written on top of what was done to its object before."""
    latest: dict[tuple[str, str], Obj] = {}
    for deed in deeds:
        name = deed.obj["metadata"]["name"]
        key = deed.resource.kind, name
        match deed:
            case WriteStatus():
                obj = latest.get(key, deed.obj)
                latest[key] = await api.update(
                    deed.resource, {**obj, "status": deed.status}, subresource="status"
                )
            case CreateObject():
                try:
                    await api.create(deed.resource, deed.obj)
                except AlreadyExists:  # which the picture will show
                    continue
            case PatchObject():
                latest[key] = await api.patch(deed.resource, name, deed.patch)
            case SetFinalizers():
                metadata = {**deed.obj["metadata"], "finalizers": deed.finalizers}
                latest[key] = await api.update(deed.resource, {**deed.obj, "metadata": metadata})
            case DeleteObject():
                try:
                    await api.delete(
                        deed.resource, name, precondition_uid=deed.obj["metadata"]["uid"]
                    )
                except NotFound:
                    continue
