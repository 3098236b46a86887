"""What is to be done for a Schedule at one look: decided from the Schedule, what it has spawned, and the time. Pure."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.clock import epoch_of
from pytest_kscen.kube.events import reference_to
from pytest_kscen.objects.cron import FEW, Cron
from pytest_kscen.workflow.schedules import jobs as made

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj

ALLOW = "Allow"
HISTORY = 1
"""How many that it has spawned are kept, if the Schedule does not say."""


class Told(NamedTuple):
    """A warning, with the shipped reason."""

    reason: str
    message: str


@dataclass(slots=True)
class Plan:
    """One look's decisions."""

    spawn: float | None = None
    """The time for which something is to be spawned."""
    settled: float | None = None
    """The time up to which nothing is left to do."""
    delete: list[Obj] = field(default_factory=list)
    pause: list[Obj] = field(default_factory=list)
    """Chaos that is to be as its Schedule is: paused, or not."""
    running: list[Obj] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    wake: float | None = None
    """When to look again, if nothing happens before."""


def plan_for(schedule: Obj, spawned: Iterable[Obj], now: float) -> Plan:
    """A CronError says that its schedule cannot be read."""
    cron = Cron.of(schedule["spec"]["schedule"])
    jobs = sorted((job for job in spawned if not job["metadata"].get("deletionTimestamp")), key=made.age)
    plan = Plan(running=[job for job in jobs if not made.is_finished(job, now)])
    _forget_old(plan, schedule, jobs)
    plan.pause = [job for job in plan.running if made.is_chaos(job) and made.is_paused(job) != made.is_paused(schedule)]
    wakes = [end for job in plan.running if (end := made.ends_at(job)) is not None and end > now]
    if not made.is_paused(schedule) and not schedule["metadata"].get("deletionTimestamp"):
        last = _keep_appointment(plan, schedule, cron, jobs, now)
        if (following := cron.next_after(last)) is not None:
            wakes.append(following)
    plan.wake = min(wakes, default=None)
    return plan


def _forget_old(plan: Plan, schedule: Obj, jobs: list[Obj]) -> None:
    """The oldest go first, and who runs still stays."""
    surplus = len(jobs) - int(schedule["spec"].get("historyLimit") or HISTORY)
    for job in jobs[: max(0, surplus)]:
        if job in plan.running:
            plan.told.append(Told("Skip", f"Skip removing history: {job['metadata']['name']} is still running"))
        else:
            plan.delete.append(job)


def _keep_appointment(plan: Plan, schedule: Obj, cron: Cron, jobs: list[Obj], now: float) -> float:
    """Of several times that were missed only the last counts; this is it, or the one before."""
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
        plan.told.append(Told("MissSchedule", f"Missed scheduled time to start a job: {moment:%a, %d %b %Y %H:%M:%S %z}"))
    elif count > FEW:
        plan.settled = due
        message = f"too many missed start times (> {FEW}). Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        plan.told.append(Told("MissSchedule", message))
    else:
        _decide(plan, schedule, jobs, due)
    return due


def _decide(plan: Plan, schedule: Obj, jobs: list[Obj], due: float) -> None:
    if any(job["metadata"]["name"] == made.name_at(schedule, due) for job in jobs):
        plan.settled = due  # it was spawned, and there was no time left to say so
    elif plan.running and schedule["spec"].get("concurrencyPolicy") != ALLOW:
        message = f"Forbid spawning new job because: {plan.running[0]['metadata']['name']} is still running"
        plan.told.append(Told("Forbid", message))
    else:
        plan.spawn = plan.settled = due


def references(jobs: Iterable[Obj]) -> list[Obj]:
    """What status.active says of them."""
    found = [{name: value for name, value in reference_to(job).items() if name != "resourceVersion"} for job in jobs]
    return sorted(found, key=lambda reference: str(reference["name"]))
