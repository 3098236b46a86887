"""Wait, with a timeout, until one object or a selection of objects meets a condition.

Each wait has a watch of its own, which selects only these objects.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.objects.errors import ApiError, error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api, Listing
    from pytest_kscen.objects.resources import Obj, Resource

T = TypeVar("T")

REOPEN_DELAY = 1.0  # seconds before a watch that broke or ended is opened again


class StateUnknown(TimeoutError):
    """Timeout with unknown state, because the last list was not answered."""


async def wait_for(
    api: Api,
    clock: Clock,
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    condition: Callable[[Obj | None], T],
    # callers give it with the condition
    timeout: float,  # noqa: ASYNC109
) -> T:
    """Wait for a condition on one object and return its first true value; the condition gets
    None while the object is absent.
    """
    where = f"{namespace}/{name}" if namespace else name
    return await _wait(
        *(api, clock, resource, namespace, {"fields": f"metadata.name={name}"}),
        condition=lambda objects: condition(next(iter(objects), None)),
        timeout=timeout,
        what=f"{resource.qualified} {where}",
    )


async def wait_for_list(
    api: Api,
    clock: Clock,
    resource: Resource,
    namespace: str = "",
    *,
    labels: str,
    condition: Callable[[Iterable[Obj]], T],
    timeout: float,  # noqa: ASYNC109  # as above
) -> T:
    """Wait for a condition on the list of objects that these labels select."""
    return await _wait(
        *(api, clock, resource, namespace, {"labels": labels}),
        condition=condition,
        timeout=timeout,
        what=f"{resource.qualified} with {labels}",
    )


async def _wait(
    api: Api,
    clock: Clock,
    resource: Resource,
    namespace: str,
    selectors: dict[str, str],
    *,
    condition: Callable[[Iterable[Obj]], T],
    timeout: float,  # noqa: ASYNC109  # as above
    what: str,
) -> T:
    refused, seen = "", False
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    seen = False
                    listing = await api.list(resource, namespace, **selectors)
                    seen = True
                    if result := await _watch_once(
                        api, resource, namespace, selectors, condition, listing=listing
                    ):
                        return result
                except (ApiError, ConnectionError) as error:
                    refused = f"; the last refusal was {error!r}"
                await clock.sleep(REOPEN_DELAY)
    except TimeoutError:
        kind = TimeoutError if seen else StateUnknown
        raise kind(
            f"{what} did not reach the awaited state within {timeout:g} s{refused}"
        ) from None


async def _watch_once(
    api: Api,
    resource: Resource,
    namespace: str,
    selectors: dict[str, str],
    condition: Callable[[Iterable[Obj]], T],
    *,
    listing: Listing,
) -> T | None:
    objects = {_key(each): each for each in listing.items}
    if result := condition(objects.values()):
        return result
    watch = api.watch(resource, namespace, **selectors, resource_version=listing.resource_version)
    try:
        async for event in watch:
            if event.type == "ERROR":
                raise error_of(event.object)
            if event.type == "DELETED":
                objects.pop(_key(event.object), None)
            else:
                objects[_key(event.object)] = event.object
            if result := condition(objects.values()):
                return result
    finally:
        watch.close()
    return None


def _key(obj: Obj) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
