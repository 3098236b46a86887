"""Waiting until an object is as somebody wants it: a watch of this one object, for a stated time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj, Resource

T = TypeVar("T")

AGAIN = 1.0  # seconds before a watch that broke is opened again


async def wait_for(
    api: Api,
    clock: Clock,
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    condition: Callable[[Obj | None], T],
    timeout: float,  # noqa: ASYNC109  # part of what is waited for: callers state it beside the condition
) -> T:
    """What the condition says as soon as it says something true; None to it means that the object is not there."""
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    if held := await _watch_once(api, resource, name, namespace, condition):
                        return held
                except (ApiError, ConnectionError):
                    await clock.sleep(AGAIN)
    except TimeoutError:
        where = f"{namespace}/{name}" if namespace else name
        raise TimeoutError(f"{resource.qualified} {where} was not as awaited within {timeout:g} s") from None


async def _watch_once(api: Api, resource: Resource, name: str, namespace: str, condition: Callable[[Obj | None], T]) -> T | None:
    fields = f"metadata.name={name}"
    listing = await api.list(resource, namespace, fields=fields)
    if held := condition(listing.items[0] if listing.items else None):
        return held
    watch = api.watch(resource, namespace, fields=fields, resource_version=listing.resource_version)
    try:
        async for event in watch:
            if event.type == "ERROR":
                return None
            if held := condition(None if event.type == "DELETED" else event.object):
                return held
    finally:
        watch.close()
    return None
