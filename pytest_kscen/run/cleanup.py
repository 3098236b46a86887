"""End of a run: volumes that do not recover, and objects with the run's label that are left.

`RunLifecycle` calls both functions; neither deletes anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.chaos.profiles import PROFILES
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.kube.waiting import StateUnknown, wait_for
from pytest_kscen.objects.errors import ApiError, Forbidden, MethodNotAllowed, NotFound
from pytest_kscen.objects.resources import EVENTS
from pytest_kscen.objects.storage import REPLICATED_VOLUMES
from pytest_kscen.run.phases import RECOVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kscen.kube.actor import Actor, RunContext
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Resource


LOGGED_AFTER = 10.0  # seconds for which requests are refused before that is logged


async def unrecovered_volumes(
    context: RunContext, deadline_of: Callable[[str], float]
) -> list[str] | None:
    """Return the run's volumes that are not ready within RECOVERY, or by their own deadline.

    Deadlines are of volumes that were never ready, or lack a disk that the run itself deleted.
    None means unknown: no volume is known to be late, and of one the state could not be read to
    the end. A volume that is deleted meanwhile is not late.
    """
    actor = context.actor("run")
    staying = [
        volume["metadata"]["name"]
        for volume in await actor.list_own(REPLICATED_VOLUMES)
        if not volume["metadata"].get("deletionTimestamp")
    ]
    async with asyncio.TaskGroup() as waiting:
        tasks = [
            waiting.create_task(
                _recovers(context, actor, name, deadline_of(name)), name=f"healing of {name}"
            )
            for name in staying
        ]
    found = {name: task.result() for name, task in zip(staying, tasks, strict=True)}
    late = [name for name, recovered in found.items() if recovered is False]
    return late if late or None not in found.values() else None


async def _recovers(context: RunContext, actor: Actor, name: str, deadline: float) -> bool | None:
    try:
        await wait_for(
            actor.with_retry_time(LOGGED_AFTER).api,
            actor.clock,
            REPLICATED_VOLUMES,
            name,
            condition=lambda volume: volume is None or context.health.is_ready(volume),
            timeout=max(RECOVERY, deadline - actor.clock.now()),
        )
    except StateUnknown as unseen:
        actor.log(
            logging.WARNING,
            "cannot read whether the volume became ready again",
            volume=name,
            why=str(unseen),
        )
        return None
    except TimeoutError:
        return False
    return True


API_WARNINGS = logging.getLogger("pytest_kscen.kube.remote.connection")
"""Logger of the API server's warnings, by its name: embedded clusters never import the module."""

_listing_everything = ContextVar("listing everything", default=False)


@contextlib.contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress deprecation warnings for requests made inside this context.

    A list of every kind that is served includes the deprecated ones. Requests of other tasks are
    still warned of.
    """
    API_WARNINGS.addFilter(_is_requested)  # adding it twice has no effect
    token = _listing_everything.set(True)
    try:
        yield
    finally:
        _listing_everything.reset(token)


def _is_requested(_: logging.LogRecord) -> bool:
    return not _listing_everything.get()


LIST_PAUSE = 2.0


@dataclass(slots=True)
class LabelledObjects:
    """Objects with the run's label, found in one pass over all kinds."""

    empty: set[tuple[str, str]] = field(default_factory=set)
    """Resources and namespaces that had none in this pass or an earlier one."""
    found: dict[str, str] = field(default_factory=dict)
    """Names by uid: the two clusters may be one, and a kind may be served in several groups."""
    forbidden: dict[str, str] = field(default_factory=dict)
    """Errors of resources that may never be listed."""
    failed: dict[str, str] = field(default_factory=dict)
    """Errors of resources that could not be listed in this pass."""


async def leftovers(context: RunContext, actor: Actor, patience: float) -> list[str]:
    """Return the objects that are left after `patience` seconds, or sooner if there are none.

    Resources that could not be listed are recorded in the journal.
    """
    end = context.clock.now() + patience
    seen = await _list_all(context, LabelledObjects())
    while (seen.found or seen.failed) and context.clock.now() < end:
        await context.clock.sleep(LIST_PAUSE)
        seen = await _list_all(context, LabelledObjects(seen.empty))
    for resource, why in (seen.forbidden | seen.failed).items():
        actor.note("not-listed", resource=resource, why=why)
    return list(seen.found.values())


async def _list_all(context: RunContext, seen: LabelledObjects) -> LabelledObjects:
    """List every kind once, without retries: an absent server would take them for each kind."""
    if context.parent:
        created = (each for profile in PROFILES.values() for each in profile.creates)
        in_parent = dict.fromkeys(each.resource for each in created if each.in_parent)
        for resource in in_parent:
            await _list_labelled(
                context, seen, context.parent.api_for("run"), resource, context.parent.namespace
            )
    api = context.api_for("run")
    try:
        resources = await api.resources()
    except (ApiError, OSError) as error:
        seen.failed["everything"] = repr(error)
        return seen
    with suppress_warnings():
        for resource in resources:
            if resource.plural != EVENTS.plural:
                await _list_labelled(context, seen, api, resource)
    return seen


async def _list_labelled(
    context: RunContext, seen: LabelledObjects, api: Api, resource: Resource, namespace: str = ""
) -> None:
    place = (resource.qualified, namespace)
    if place in seen.empty:
        return
    try:
        items = (await api.list(resource, namespace, labels=f"{RUN_LABEL}={context.run_id}")).items
    except (MethodNotAllowed, NotFound):
        return
    except Forbidden as error:
        seen.forbidden[resource.qualified] = repr(error)
        return
    except (ApiError, OSError) as error:
        seen.failed[resource.qualified] = repr(error)
        return
    if not items:
        seen.empty.add(place)
    for item in items:
        metadata = item["metadata"]
        name = (
            f"{metadata['namespace']}/{metadata['name']}"
            if metadata.get("namespace")
            else metadata["name"]
        )
        seen.found.setdefault(metadata["uid"], f"{resource.plural}/{name}")
