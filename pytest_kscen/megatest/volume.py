"""Actors volume-main and multivolume: create, check and delete volumes during the run.

`run.lifecycle` starts multivolume; `run.manual` makes single volumes. The signals of `RunState` end
both.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from typing import TYPE_CHECKING

from pytest_kscen.clock import Signal
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.kube.retrying import is_transient
from pytest_kscen.megatest.actors import (
    attach_and_detach,
    create_replicas,
    destroy_replicas,
    resize,
    sweep_replicas,
)
from pytest_kscen.megatest.churn import draw
from pytest_kscen.megatest.health import check, record_shortcomings
from pytest_kscen.megatest.subject import (
    REFUSALS,
    Subject,
    attempt,
    delete_attachments,
    labelled_object,
    record_arrivals,
    record_if_absent,
    record_placement,
    request_attachment,
)
from pytest_kscen.megatest.view import VOLUME, run_until
from pytest_kscen.objects.storage import (
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence
    from typing import Any, Never

    from pytest_kscen.kube.actor import Actor, RunContext
    from pytest_kscen.megatest.churn import Churn, VolumePlan
    from pytest_kscen.megatest.view import RunState
    from pytest_kscen.objects.resources import Obj

    VolumeTask = Callable[[], Coroutine[Any, Any, None]]


PATIENCE = 600.0  # seconds within which a deletion has to be complete
RETRY_PERIOD = 60.0  # seconds between two deletions of a volume, before the cleanup
CLEANUP_RETRY_PERIOD = 5.0  # seconds between two deletions of a volume, during the cleanup
CLEANUP_TIMEOUT = 30.0  # seconds of the cleanup after which a permanent refusal is final
MOST_ATTACHMENTS = 2


async def run_volume(context: RunContext, state: RunState, volume_plan: VolumePlan) -> None:
    """Create one volume and run its life cycle; return when it is deleted.

    If it cannot be created, its actor has recorded the reason.
    """
    rv = Subject(volume_plan.name, context, state, state.watch(context), volume_plan.key)
    async with rv.watch:
        try:
            rest_of_life = await run_until(state.volumes_abandoned, create_volume(rv, volume_plan))
        except REFUSALS:
            return  # the actor has recorded the reason
        if rest_of_life:
            await rest_of_life()


async def create_volume(rv: Subject, volume_plan: VolumePlan) -> VolumeTask:
    """Create the volume and return a function that runs the rest of its life cycle.

    When volumes are abandoned, that function returns at once and the volume stays.
    """
    actor = rv.actor("volume-main")
    nodes = actor.chance.sample(await rv.watch.storage_nodes(), volume_plan.attachments)
    what = {
        "storage_class": volume_plan.storage_class,
        "size": volume_plan.size,
        "lifetime": round(volume_plan.lifetime, 6),
    }
    spec: Obj = {"size": volume_plan.size, "replicatedStorageClassName": volume_plan.storage_class}
    if rv.health.has_layout:  # by default one attachment is allowed, which prevents migrations
        spec["maxAttachments"] = MOST_ATTACHMENTS
    try:
        async with actor.doing("create the volume", volume=rv.name, **what):
            created = await actor.api.create(
                REPLICATED_VOLUMES, labelled_object(actor, REPLICATED_VOLUMES, rv.name, spec)
            )
            actor.note("volume", volume=rv.name, **what, attach=list(nodes))
    except REFUSALS as error:
        if is_transient(error):
            # The response may have been lost: delete the volume if this run created it.
            with contextlib.suppress(*REFUSALS):
                found = (await actor.api.get(REPLICATED_VOLUMES, rv.name))["metadata"]
                if (found.get("labels") or {}).get(RUN_LABEL) == rv.context.run_id:
                    await actor.api.delete(
                        REPLICATED_VOLUMES, rv.name, precondition_uid=found["uid"]
                    )
        raise
    version = str(created["metadata"]["resourceVersion"])

    async def rest_of_life() -> None:
        async with rv.watch:
            await run_until(
                rv.state.volumes_abandoned, _run_volume(rv, actor, volume_plan, nodes, version)
            )

    return rest_of_life


async def _run_volume(
    rv: Subject, actor: Actor, volume_plan: VolumePlan, nodes: Sequence[str], version: str
) -> None:
    with rv.publish_key(), record_placement(rv, actor):
        requested = []  # uids of the attachments
        for node in nodes:
            async with attempt(actor, "attach at first", volume=rv.name, node=node):
                requested.append((await request_attachment(rv, actor, node))["metadata"]["uid"])
        with record_arrivals(rv, actor, requested):
            async with asyncio.TaskGroup() as tasks:
                stop = Signal()
                attacher = tasks.create_task(
                    attach_and_detach(rv, volume_plan.attacher_period, stop),
                    name=f"volume-attacher/{rv.name}",
                )
                disturbing = [
                    tasks.create_task(actor_task, name=f"{role}/{rv.name}")
                    for role, actor_task in _disturbing_actors(rv, volume_plan)
                ]
                await _wait_for_end(rv, actor, volume_plan)
                stop.give()
                await attacher
                if rv.state.is_healing:
                    await rv.state.cleanup_started.wait()
                await _delete_volume(rv, actor, version)
                for task in disturbing:
                    task.cancel()
    rv.state.running.pop(rv.name, None)
    if volume_plan.replica_creator_period:
        await sweep_replicas(rv)


def _disturbing_actors(
    rv: Subject, volume_plan: VolumePlan
) -> Iterator[tuple[str, Coroutine[Any, Any, Never]]]:
    """Yield the actors that change the volume while it exists, by their roles.

    They end by cancellation only, when the volume is deleted.
    """
    if volume_plan.growth:
        yield "volume-resizer", resize(rv, volume_plan.growth)
    if volume_plan.replica_destroyer_period:
        yield (
            "volume-replica-destroyer",
            destroy_replicas(rv, volume_plan.replica_destroyer_period, volume_plan.patience),
        )
    if volume_plan.replica_creator_period:
        yield "volume-replica-creator", create_replicas(rv, volume_plan.replica_creator_period)


async def _wait_for_end(rv: Subject, actor: Actor, volume_plan: VolumePlan) -> None:
    """Wait for the end of the volume's lifetime, or of the run; check its health meanwhile.

    No checker starts once counters are frozen. Churn deletes a volume that does not become ready;
    one that a test created stays until the run is over.
    """
    frozen, lifetime = rv.state.counters_frozen, volume_plan.lifetime
    was_ready = await run_until(rv.state.cleanup_started, _wait_until_ready(rv, actor, volume_plan))
    if not was_ready or frozen.given:
        return
    checker = asyncio.get_running_loop().create_task(
        _run_checker(rv, actor), name=f"volume-checker/{rv.name}"
    )
    try:
        await (frozen.wait() if math.isinf(lifetime) else frozen.within(lifetime))
    finally:
        checker.cancel()
        await asyncio.wait((checker,))


async def _run_checker(rv: Subject, actor: Actor) -> None:
    try:
        await check(rv)
    # a checker that crashes has not judged, and stops no other actor
    except Exception as error:  # noqa: BLE001
        actor.note("check-crashed", volume=rv.name, error=repr(error))
        actor.log(logging.ERROR, "the checker crashed", volume=rv.name, error=repr(error))


async def _wait_until_ready(rv: Subject, actor: Actor, volume_plan: VolumePlan) -> bool:
    def ready() -> bool:
        return rv.health.is_ready(rv.volume)

    was_ready = False
    patience = math.inf if math.isinf(volume_plan.lifetime) else volume_plan.patience
    rv.state.ready_deadlines[rv.name] = actor.clock.now() + volume_plan.patience
    async with (
        attempt(actor, "wait until the volume is ready", volume=rv.name),
        record_shortcomings(rv, actor),
    ):
        was_ready = await rv.watch.until(
            rv.name, ready, timeout=patience, awaited=f"{rv.name} was not ready", to=(VOLUME,)
        )
    rv.state.ready_deadlines.pop(rv.name, None)
    if was_ready:
        actor.note("ready", volume=rv.name)
    else:
        actor.note("never-ready", volume=rv.name, waited=patience)
    return was_ready


async def _delete_volume(rv: Subject, actor: Actor, version: str) -> None:
    """Delete the volume, and retry until it is deleted.

    Attempts are RETRY_PERIOD seconds apart, and CLEANUP_RETRY_PERIOD seconds once the cleanup has
    started. They end CLEANUP_TIMEOUT seconds after its start, or PATIENCE seconds if the refusal
    may be temporary.
    """
    began, over_at = actor.clock.now(), math.inf
    async with attempt(actor, "delete the volume", volume=rv.name):
        while True:
            if rv.state.cleanup_started.given:
                over_at = min(over_at, actor.clock.now())
            try:
                # A remaining attachment would outlive the volume.
                await delete_attachments(rv, actor)
                with record_if_absent(actor, volume=rv.name):
                    await actor.api.delete(REPLICATED_VOLUMES, rv.name)
                left = began + PATIENCE - actor.clock.now()
                await rv.watch.wait_until_deleted(
                    rv.name, version, timeout=left if left > 0 else PATIENCE
                )
                break
            except REFUSALS as error:
                # A timeout has no reason to record.
                waited = actor.clock.now() - began
                what = "never-gone" if round(waited, 6) >= PATIENCE else "not-deleted"
                why = "" if isinstance(error, TimeoutError) else str(error)
                actor.note(what, volume=rv.name, waited=round(waited, 6), why=why)
                if actor.clock.now() >= over_at + (
                    PATIENCE if is_transient(error) else CLEANUP_TIMEOUT
                ):
                    raise
            if math.isinf(over_at):
                await rv.state.cleanup_started.within(RETRY_PERIOD)
            else:
                await actor.clock.sleep(CLEANUP_RETRY_PERIOD)


async def clear_volumes(context: RunContext) -> None:
    """Delete attachments, volumes and replicas with the run's label after a crash.

    `run.lifecycle` calls it at the end of a run that crashed. A refusal is recorded, and the next
    resource is tried.
    """
    actor = context.actor("volume-main")
    for resource in (REPLICATED_VOLUME_ATTACHMENTS, REPLICATED_VOLUMES, REPLICATED_VOLUME_REPLICAS):
        async with attempt(actor, "clear away", resource=resource.qualified):
            for left in await actor.list_own(resource):
                with record_if_absent(actor, left=left["metadata"]["name"]):
                    await actor.api.delete(
                        resource, left["metadata"]["name"], precondition_uid=left["metadata"]["uid"]
                    )


async def multivolume(context: RunContext, churn: Churn, state: RunState) -> None:
    """Start volumes in steps, up to `max_volumes` at a time, until the counters are frozen; then
    wait for the end of all.

    A step that begins below the limit is completed, so the limit may be exceeded by one step.
    """
    async with state.watch(context), asyncio.TaskGroup() as together:
        state.chaos_tasks += [
            together.create_task(profile.run(context, state.counters_frozen), name=profile.name)
            for profile in churn.profiles
        ]
        await run_until(state.counters_frozen, _start_in_steps(context, churn, state, together))


async def _start_in_steps(
    context: RunContext, churn: Churn, state: RunState, volumes: asyncio.TaskGroup
) -> Never:
    actor, running = context.actor("multivolume"), state.running
    while True:
        if len(running) < churn.max_volumes:
            count = actor.chance.whole(*churn.step)
            actor.log(
                logging.INFO,
                "start volumes",
                count=count,
                running=len(running),
                max_volumes=churn.max_volumes,
            )
            for _ in range(count):
                volume_plan = draw(actor.chance, churn)
                running[volume_plan.name] = None
                task = volumes.create_task(
                    run_volume(context, state, volume_plan), name=volume_plan.name
                )
                # Its place becomes free, however the task ended.
                task.add_done_callback(lambda ended: running.pop(ended.get_name(), None))
        await actor.clock.sleep(actor.chance.between(*churn.step_period))
