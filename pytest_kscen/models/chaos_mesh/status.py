"""The status of chaos: what is wanted of it now, what has become of each target, and the conditions
that follow. Pure.

A target that vanishes needs nothing more: it is not injected again, and counts as recovered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of
from pytest_kscen.objects.arguments import seconds_of_text
from pytest_kscen.objects.chaos_mesh import (
    ALL_INJECTED,
    ALL_RECOVERED,
    PAUSE,
    PAUSED,
    RECORDS_FINALIZER,
    RUN,
    SELECTED,
    STOP,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.models.chaos_mesh.targets import Target
    from pytest_kscen.objects.resources import Obj

INJECTED, NOT_INJECTED, WAIT = "Injected", "Not Injected", "Not Injected/Wait"
APPLY, RECOVER = "Apply", "Recover"
SUCCEEDED, FAILED = "Succeeded", "Failed"
CLEAN_FINALIZER = "chaos-mesh.chaos-mesh.org/cleanFinalizer"
VANISHED = "the target has vanished"
ONE_SHOT = ("pod-kill", "container-kill")
MAX_EVENTS = 20  # that a record keeps, the latest


def is_one_shot(chaos: Obj) -> bool:
    """Done once, and never undone."""
    return chaos["kind"] == "PodChaos" and chaos["spec"]["action"] in ONE_SHOT


def is_deleted(chaos: Obj) -> bool:
    return bool(chaos["metadata"].get("deletionTimestamp"))


def is_paused(chaos: Obj) -> bool:
    return (chaos["metadata"].get("annotations") or {}).get(PAUSE) == "true"


def is_held(chaos: Obj) -> bool:
    return RECORDS_FINALIZER in (chaos["metadata"].get("finalizers") or ())


def is_let_go(chaos: Obj) -> bool:
    """Whether somebody has lost patience with it."""
    return (chaos["metadata"].get("annotations") or {}).get(CLEAN_FINALIZER) == "forced"


def remaining_duration(chaos: Obj, now: float) -> float | None:
    """The seconds until its own duration is over; None if it has none."""
    duration = chaos["spec"].get("duration")
    if not duration or is_one_shot(chaos):
        return None
    return max(
        0.0, epoch_of(chaos["metadata"]["creationTimestamp"]) + seconds_of_text(duration) - now
    )


def desired_phase(chaos: Obj, now: float) -> tuple[str, str]:
    """What is wanted of it, and the reason of the event that says so.

    A ValueError says that its duration is none.
    """
    if is_deleted(chaos):
        return STOP, "Deleted"
    if is_one_shot(chaos):  # it begins at once, and nobody says so
        return RUN, ""
    if remaining_duration(chaos, now) == 0.0:
        return STOP, "TimeUp"
    return (STOP, "Paused") if is_paused(chaos) else (RUN, "Started")


def records_of(chaos: Obj) -> list[Obj]:
    return list(((chaos.get("status") or {}).get("experiment") or {}).get("containerRecords") or ())


def new_record(target: Target) -> Obj:
    return {
        "id": target.id,
        "selectorKey": target.key,
        "phase": NOT_INJECTED,
        "injectedCount": 0,
        "recoveredCount": 0,
        "events": [],
    }


def injected(record: Obj, now: str) -> Obj:
    return {
        **with_event(record, APPLY, SUCCEEDED, "", now),
        "phase": INJECTED,
        "injectedCount": record["injectedCount"] + 1,
    }


def recovered(record: Obj, now: str, message: str = "") -> Obj:
    """One that was never injected is recovered by being let alone."""
    done = int(record["phase"] == INJECTED)
    told = with_event(record, RECOVER, SUCCEEDED, message, now) if done else record
    return {**told, "phase": NOT_INJECTED, "recoveredCount": record["recoveredCount"] + done}


def vanished(record: Obj, now: str) -> Obj:
    """What was not injected yet cannot be any more."""
    if record["phase"] == INJECTED:
        return recovered(record, now, VANISHED)
    return {**with_event(record, APPLY, FAILED, VANISHED, now), "phase": NOT_INJECTED}


def not_injected(record: Obj, why: str, now: str) -> Obj:
    """Why is said once."""
    return (
        {**with_event(record, APPLY, FAILED, why, now), "phase": WAIT}
        if why
        else {**record, "phase": WAIT}
    )


def with_event(record: Obj, operation: str, result: str, message: str, now: str) -> Obj:
    events = list(record.get("events") or ())
    said = {"operation": operation, "type": result, **({"message": message} if message else {})}
    told = {**said, "timestamp": now}
    if result == FAILED and events and {**events[-1], "timestamp": now} == told:
        return record
    return {**record, "events": [*events[1 - MAX_EVENTS :], told]}


def has_vanished(record: Obj) -> bool:
    events = record.get("events") or []
    return bool(events) and events[-1].get("message") == VANISHED


def conditions_of(records: Sequence[Obj], *, paused: bool) -> list[Obj]:
    left = [record for record in records if not has_vanished(record)]
    facts = {
        SELECTED: bool(records),
        ALL_INJECTED: bool(left) and all(record["phase"] == INJECTED for record in left),
        ALL_RECOVERED: bool(records) and all(record["phase"] == NOT_INJECTED for record in records),
        PAUSED: paused,
    }
    return [{"type": name, "status": str(holds)} for name, holds in facts.items()]


def status_of(chaos: Obj, desired: str, records: Sequence[Obj]) -> Obj:
    """The whole status, as Chaos Mesh writes it."""
    old = chaos.get("status") or {}
    experiment = {**(old.get("experiment") or {}), "desiredPhase": desired}
    if records:
        experiment["containerRecords"] = list(records)
    return {
        **old,
        "conditions": conditions_of(records, paused=is_paused(chaos)),
        "experiment": experiment,
    }
