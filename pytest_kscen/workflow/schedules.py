"""Schedule controller: plan what each Schedule and CronWorkflow is due for, and carry it out.

Started by `engine.drive`. Each Schedule has a worker of its own, which looks again after changes
and at due times. All state is in the API, and spawned objects are named by their time, so a
restarted controller spawns nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.kube.events import EventRecorder, reference_to
from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.chaos_mesh import CRON_WORKFLOWS, KINDS, MANAGED_BY, PAUSE, SHIPPED
from pytest_kscen.objects.cron import EXACT_COUNT_LIMIT, Cron, CronError
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import owner_reference
from pytest_kscen.workflow import schedule_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Never

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj


ALLOW = "Allow"
DEFAULT_HISTORY_LIMIT = 1
"""Spawned objects that are kept without a `historyLimit`."""


class ScheduleWarning(NamedTuple):
    """Warning Event of a Schedule, with Chaos Mesh's reason."""

    reason: str
    message: str


@dataclass(slots=True)
class SchedulePlan:
    """Decisions of one look at a Schedule: computed by `plan_for` without side effects, and carried
    out by its worker in the order spawn, status, pause, delete.
    """

    spawn: float | None = None
    """Time for which an object is to be spawned."""
    settled: float | None = None
    """Time up to which nothing is left to do: the new `status.time`."""
    delete: list[Obj] = field(default_factory=list)
    pause: list[Obj] = field(default_factory=list)
    """Chaos whose pause annotation is to follow the Schedule's."""
    running: list[Obj] = field(default_factory=list)
    warnings: list[ScheduleWarning] = field(default_factory=list)
    wake: float | None = None
    """Time of the next look, unless something changes before."""


def plan_for(schedule: Obj, spawned: Iterable[Obj], now: float) -> SchedulePlan:
    """Return the decisions for a Schedule, from its spawned objects and the time. No side effects.

    Raise CronError if its cron line cannot be read.
    """
    cron = Cron.of(schedule["spec"]["schedule"])
    jobs = sorted(
        (job for job in spawned if not job["metadata"].get("deletionTimestamp")),
        key=schedule_jobs.age,
    )
    plan = SchedulePlan(running=[job for job in jobs if not schedule_jobs.is_finished(job, now)])
    # The oldest are deleted first; running ones are kept.
    surplus = len(jobs) - int(schedule["spec"].get("historyLimit") or DEFAULT_HISTORY_LIMIT)
    for job in jobs[: max(0, surplus)]:
        if job in plan.running:
            plan.warnings.append(
                ScheduleWarning(
                    "Skip", f"Skip removing history: {job['metadata']['name']} is still running"
                )
            )
        else:
            plan.delete.append(job)
    plan.pause = [
        job
        for job in plan.running
        if schedule_jobs.is_chaos(job)
        and schedule_jobs.is_paused(job) != schedule_jobs.is_paused(schedule)
    ]
    wakes = [
        end for job in plan.running if (end := schedule_jobs.ends_at(job)) is not None and end > now
    ]
    if not schedule_jobs.is_paused(schedule) and not schedule["metadata"].get("deletionTimestamp"):
        last = _plan_missed_time(plan, schedule, cron, jobs, now)
        if (following := cron.next_after(last)) is not None:
            wakes.append(following)
    plan.wake = min(wakes, default=None)
    return plan


def _plan_missed_time(
    plan: SchedulePlan, schedule: Obj, cron: Cron, jobs: list[Obj], now: float
) -> float:
    """Plan the latest missed time, and return it; or the one before it if nothing is due."""
    status, metadata = schedule.get("status") or {}, schedule["metadata"]
    since = epoch_of(status.get("time") or metadata["creationTimestamp"])
    due, count = cron.missed(since, now)
    if due is None:
        return since
    deadline = schedule["spec"].get("startingDeadlineSeconds")
    if deadline is not None:
        _, count = cron.missed(max(since, now - deadline - 1), now)
    if deadline is not None and due + deadline < now:
        plan.settled = due
        moment = datetime.datetime.fromtimestamp(due, cron.zone)
        plan.warnings.append(
            ScheduleWarning(
                "MissSchedule",
                f"Missed scheduled time to start a job: {moment:%a, %d %b %Y %H:%M:%S %z}",
            )
        )
    elif count > EXACT_COUNT_LIMIT:
        plan.settled = due
        message = (
            f"too many missed start times (> {EXACT_COUNT_LIMIT}). Set or decrease "
            ".spec.startingDeadlineSeconds or check clock skew"
        )
        plan.warnings.append(ScheduleWarning("MissSchedule", message))
    elif any(job["metadata"]["name"] == schedule_jobs.name_at(schedule, due) for job in jobs):
        plan.settled = due  # spawned, but the status could not be written
    elif plan.running and schedule["spec"].get("concurrencyPolicy") != ALLOW:
        message = (
            f"Forbid spawning new job because: {plan.running[0]['metadata']['name']} is still "
            "running"
        )
        plan.warnings.append(ScheduleWarning("Forbid", message))
    else:
        plan.spawn = plan.settled = due
    return due


def active_references(jobs: Iterable[Obj]) -> list[Obj]:
    found = [
        {name: value for name, value in reference_to(job).items() if name != "resourceVersion"}
        for job in jobs
    ]
    return sorted(found, key=lambda reference: str(reference["name"]))


COMPONENT = "kscen-schedule"
RETRY_AFTER = 10.0
"""Seconds until a refused request is retried."""


class ScheduleController:
    """Controller of all Schedules and CronWorkflows: starts a worker for each, and watches their
    objects.

    One informer per spawned type is shared by all workers. A resource that the cluster does not
    serve is skipped.
    """

    def __init__(self, actor: Actor, family: EngineResources = SHIPPED) -> None:
        self.actor = actor
        self.recorder = EventRecorder(actor.api, actor.clock, COMPONENT)
        self._family = family
        self._followers: dict[str, ScheduleWorker] = {}
        """Workers by the uid of their Schedule."""
        self._spawned: dict[str, Informer] = {}
        """Caches of spawned objects, by type."""

    async def run(self) -> Never:
        async with asyncio.TaskGroup() as group:
            self._group = group
            for resource in (self._family.schedules, CRON_WORKFLOWS):
                try:
                    await self.actor.api.resource_of(resource.api_version, resource.kind)
                except NotFound:
                    continue
                await self._follow_all(Informer(self.actor.api, self.actor.clock, resource))
            await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def _follow_all(self, schedules: Informer) -> None:
        """Start a worker for each Schedule of the informer, and notify it of changes.

        A worker's error affects its own Schedule alone, which is tried again after a change.
        """

        async def work(uid: str, follower: ScheduleWorker) -> None:
            try:
                await follower.run()
            except Exception as error:  # noqa: BLE001  # any content
                self.actor.log(
                    logging.ERROR, "cannot be followed", schedule=follower.where, error=str(error)
                )
            finally:
                del self._followers[uid]

        def changed(new: Obj | None, old: Obj | None) -> None:
            for obj in filter(None, (old, new)):
                uid = obj["metadata"]["uid"]
                if obj is new and uid not in self._followers:
                    follower = self._followers[uid] = ScheduleWorker(self, schedules, obj)
                    self._group.create_task(
                        work(uid, follower), name=f"schedule {obj['metadata']['name']}"
                    )
                if uid in self._followers:
                    self._followers[uid].changed.set()

        self._group.create_task(schedules.run(), name=schedules.resource.plural)
        await schedules.synced()
        schedules.on_change(changed)

    async def spawned_of(self, type_: str) -> Informer:
        """Return the synced cache of objects that Schedules of this type have spawned."""

        def changed(new: Obj | None, old: Obj | None) -> None:
            for uid in _owners(new or old or {}):
                if uid in self._followers:
                    self._followers[uid].changed.set()

        if type_ not in self._spawned:
            wanted = (
                self._family.workflows if type_ == schedule_jobs.WORKFLOW else KINDS[type_].resource
            )
            resource = await self.actor.api.resource_of(wanted.api_version, wanted.kind)
            informer = self._spawned[type_] = Informer(
                self.actor.api, self.actor.clock, resource, labels=MANAGED_BY
            )
            informer.index("owner", _owners)
            informer.on_change(changed)
            self._group.create_task(informer.run(), name=f"scheduled {resource.plural}")
        informer = self._spawned[type_]
        await informer.synced()
        return informer


def _owners(obj: Obj) -> list[str]:
    return [
        owner["uid"]
        for owner in obj["metadata"].get("ownerReferences") or ()
        if owner.get("controller")
    ]


class ScheduleWorker:
    """Worker of one Schedule: plans and carries out one look after the other.

    A warning is reported when it first appears, not at every look. A refused request is retried
    after `RETRY_AFTER` seconds.
    """

    def __init__(
        self, schedules: ScheduleController, schedules_cache: Informer, schedule: Obj
    ) -> None:
        self.changed = asyncio.Event()
        self._all = schedules
        self._actor = schedules.actor
        self._schedules = schedules_cache
        self._name = schedule["metadata"]["name"]
        self._namespace = schedule["metadata"]["namespace"]
        self._uid = schedule["metadata"]["uid"]
        self._about = {
            "schedule": self._name,
            "namespace": self._namespace,
            "by": schedules_cache.resource.kind,
        }
        self._last_warnings: set[ScheduleWarning] = set()
        """Warnings of the last look, which are not repeated."""

    async def run(self) -> None:
        """Look at the Schedule after changes and at due times, until it is deleted."""
        while schedule := self._schedules.get(self._name, self._namespace):
            if schedule["metadata"]["uid"] != self._uid:
                return
            self.changed.clear()
            # Wait until this instant, or until something has changed.
            until = await self._look(schedule)
            if until is None:
                await self.changed.wait()
                continue
            sleep = asyncio.ensure_future(self._actor.clock.sleep(until - self._actor.clock.now()))
            changed = asyncio.ensure_future(self.changed.wait())
            try:
                await asyncio.wait((sleep, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleep.cancel()
                changed.cancel()

    async def _look(self, schedule: Obj) -> float | None:
        """Carry out the decisions for now; return the time of the next look, None to wait for a
        change. A refused request is retried after `RETRY_AFTER` seconds.
        """
        try:
            schedule_jobs.body_of(schedule)
            cache = await self._all.spawned_of(schedule_jobs.type_of(schedule))
            plan = plan_for(
                schedule, cache.index("owner", _owners).of(self._uid), self._actor.clock.now()
            )
        except (CronError, schedule_jobs.ScheduleError) as error:
            self._report_warnings(
                schedule, {ScheduleWarning("Failed", f"Failed to get run time: {error}")}
            )
            return None
        except (ApiError, OSError) as error:
            self._report_warnings(
                schedule, {ScheduleWarning("Failed", f"Failed to list active jobs: {error}")}
            )
            return self._actor.clock.now() + RETRY_AFTER
        self._report_warnings(schedule, set(plan.warnings))
        try:
            running = plan.running
            if plan.spawn is not None:
                running = [*running, await self._spawn(schedule, plan.spawn, cache)]
            await self._write_status(schedule, plan.settled, running)
            is_paused = schedule_jobs.is_paused(schedule)
            pause = {"metadata": {"annotations": {PAUSE: str(is_paused).lower()}}}
            for job in plan.pause:
                name = job["metadata"]["name"]
                with (
                    self._reporting_errors(schedule, f"set pause to {is_paused} for {name}"),
                    contextlib.suppress(NotFound),
                ):
                    await self._actor.api.patch(cache.resource, name, pause, self._namespace)
            for job in plan.delete:
                name = job["metadata"]["name"]
                with (
                    self._reporting_errors(schedule, f"delete {self._namespace}/{name}"),
                    contextlib.suppress(NotFound),
                ):
                    await self._actor.api.delete(
                        cache.resource, name, self._namespace, propagation="Background"
                    )
                    self._actor.note("schedule-forgot", **self._about, object=name)
        except (ApiError, OSError) as error:
            self._actor.log(logging.WARNING, "refused", schedule=self.where, error=str(error))
            return min(self._actor.clock.now() + RETRY_AFTER, plan.wake or float("inf"))
        return plan.wake

    async def _spawn(self, schedule: Obj, due: float, cache: Informer) -> Obj:
        """Create the object of this time; return the existing one if an earlier attempt created
        it.
        """
        job = schedule_jobs.build(
            schedule, cache.resource, due, self._actor.labels, owner_reference(schedule)
        )
        name = job["metadata"]["name"]
        with self._reporting_errors(schedule, "create new object"):
            try:
                obj = await self._actor.api.create(cache.resource, job)
            except AlreadyExists:
                found = await self._actor.api.get(cache.resource, name, self._namespace)
                if self._uid not in _owners(found):
                    raise
                return found
        self._actor.note(
            "schedule-spawned", **self._about, object=name, kind=job["kind"], due=timestamp_of(due)
        )
        self._actor.log(logging.INFO, "spawned", schedule=self.where, object=name, kind=job["kind"])
        self._all.recorder.normal(schedule, "Spawned", f"Create new object: {name}")
        await cache.reached(obj["metadata"]["resourceVersion"])
        return obj

    async def _write_status(
        self, schedule: Obj, settled: float | None, running: Iterable[Obj]
    ) -> None:
        before = schedule.get("status") or {}
        status = {"active": active_references(running)}
        if settled is not None:
            status["time"] = timestamp_of(settled)  # type: ignore[assignment]  # a text
        if all(before.get(field, []) == value for field, value in status.items()):
            return
        resource = self._schedules.resource
        with self._reporting_errors(schedule, "update status"):
            patch = {"status": status}
            now = await self._actor.api.patch(
                resource, self._name, patch, self._namespace, subresource="status"
            )
        await self._schedules.reached(now["metadata"]["resourceVersion"])

    def _report_warnings(self, schedule: Obj, warnings: set[ScheduleWarning]) -> None:
        for reason, message in sorted(warnings - self._last_warnings):
            self._all.recorder.warning(schedule, reason, message)
            self._actor.note("schedule-warned", **self._about, reason=reason, message=message)
            self._actor.log(logging.WARNING, reason, schedule=self.where, why=message)
        self._last_warnings = warnings

    @contextlib.contextmanager
    def _reporting_errors(self, schedule: Obj, activity: str) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            if not isinstance(error, NotFound):
                self._all.recorder.warning(schedule, "Failed", f"Failed to {activity}: {error}")
            raise

    @property
    def where(self) -> str:
        return f"{self._namespace}/{self._name}"
