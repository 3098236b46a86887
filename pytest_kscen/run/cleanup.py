"""Delete every object that carries the run label; suppress deprecation warnings meanwhile."""

from __future__ import annotations

import contextlib
import logging
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.objects.errors import ApiError, Forbidden, MethodNotAllowed, NotFound
from pytest_kscen.objects.resources import CILIUM_NETWORK_POLICIES, EVENTS
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.kube.actor import Actor, RunContext
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Resource


# A real API server warns whoever asks for what is deprecated, and the log tells it. Who looks
# into everything that is served has asked for nothing of that, and it is no news to anybody:
# while such a look lasts, its own requests' warnings are left out. What others ask for
# meanwhile is told as ever.


TELLS = logging.getLogger("pytest_kscen.kube.remote.connection")
"""By its name: on an embedded cluster nobody needs that module."""

_looks = ContextVar("looks", default=False)


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """What the task that is inside asks for is not told of."""
    TELLS.addFilter(_is_news)  # one that is there already is not added again
    inside = _looks.set(True)
    try:
        yield
    finally:
        _looks.reset(inside)


def _is_news(_: logging.LogRecord) -> bool:
    return not _looks.get()


PATIENCE, HURRIED = 120.0, 5.0  # seconds for what was deleted to be gone
LOOK_AGAIN = 2.0
IN_PARENT = (CILIUM_NETWORK_POLICIES, VIRTUAL_MACHINE_OPERATIONS)


@dataclass(slots=True)
class Look:
    """What one look has seen, and where nothing was at this or an earlier one."""

    empty: set[tuple[str, str]] = field(default_factory=set)
    there: dict[str, str] = field(default_factory=dict)
    """Names by uid: the two clusters may be one, and a kind may be served in several groups."""
    forbidden: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Why a resource could not be looked into, for good or this time."""


async def leftovers(context: RunContext, actor: Actor, patience: float) -> list[str]:
    """The names of what is still there, after waiting for what is on its way.

    Where nobody could look is noted.
    """
    end = context.clock.now() + patience
    look = await _look(context, Look())
    while (look.there or look.failed) and context.clock.now() < end:
        await context.clock.sleep(LOOK_AGAIN)
        look = await _look(context, Look(look.empty))
    for resource, why in (look.forbidden | look.failed).items():
        actor.note("not-listed", resource=resource, why=why)
    return list(look.there.values())


async def _look(context: RunContext, look: Look) -> Look:
    """Without anybody's patience: a server that is away for good would exhaust it for each of
    its resources.
    """
    if context.parent:
        for resource in IN_PARENT:
            await _labelled(
                context, look, context.parent.api_for("run"), resource, context.parent.namespace
            )
    api = context.api_for("run")
    try:
        resources = await api.resources()
    except (ApiError, OSError) as error:
        look.failed["everything"] = repr(error)
        return look
    with unwarned():
        for resource in resources:
            if resource.plural != EVENTS.plural:
                await _labelled(context, look, api, resource)
    return look


async def _labelled(
    context: RunContext, look: Look, api: Api, resource: Resource, namespace: str = ""
) -> None:
    place = (resource.qualified, namespace)
    if place in look.empty:
        return
    try:
        items = (await api.list(resource, namespace, labels=f"{RUN_LABEL}={context.run_id}")).items
    except (MethodNotAllowed, NotFound):
        return
    except Forbidden as error:
        look.forbidden[resource.qualified] = repr(error)
        return
    except (ApiError, OSError) as error:
        look.failed[resource.qualified] = repr(error)
        return
    if not items:
        look.empty.add(place)
    for item in items:
        metadata = item["metadata"]
        name = (
            f"{metadata['namespace']}/{metadata['name']}"
            if metadata.get("namespace")
            else metadata["name"]
        )
        look.there.setdefault(metadata["uid"], f"{resource.plural}/{name}")
