"""Waiting until several objects are as somebody wants them: a picture of them, looked at after each change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.kube.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj, Resource

T = TypeVar("T")


async def seen(
    actor: Actor,
    resource: Resource,
    namespace: str = "",
    *,
    labels: str = "",
    condition: Callable[[Iterable[Obj]], T],
    timeout: float,  # noqa: ASYNC109  # part of what is waited for: callers state it beside the condition
) -> T:
    """What the condition says of the objects as soon as it says something true."""
    informer = Informer(actor.api, actor.clock, resource, namespace, labels=labels)
    changed = asyncio.Event()
    following = asyncio.get_running_loop().create_task(informer.run(), name=f"{actor.name} looks at {resource.plural}")
    informer.on_change(lambda *_: changed.set())
    try:
        async with asyncio.timeout(timeout):
            await informer.synced()
            while not (held := condition(informer)):
                changed.clear()
                await changed.wait()
    except TimeoutError:
        chosen = f" with {labels}" if labels else ""
        raise TimeoutError(f"{resource.qualified}{chosen} were not as awaited within {timeout:g} s") from None
    finally:
        following.cancel()
    return held
