"""Status of chaos objects: the desired phase, the records of targets, and the conditions. Pure.

Called by the daemon. A target that vanishes needs nothing more: it is not injected again, and
counts as recovered.
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
MAX_EVENTS = 20  # latest events that a record keeps


def is_one_shot(chaos: Obj) -> bool:
    return chaos["kind"] == "PodChaos" and chaos["spec"]["action"] in ONE_SHOT


def is_deleted(chaos: Obj) -> bool:
    return bool(chaos["metadata"].get("deletionTimestamp"))


def is_paused(chaos: Obj) -> bool:
    return (chaos["metadata"].get("annotations") or {}).get(PAUSE) == "true"


def is_held(chaos: Obj) -> bool:
    return RECORDS_FINALIZER in (chaos["metadata"].get("finalizers") or ())


def is_released(chaos: Obj) -> bool:
    return (chaos["metadata"].get("annotations") or {}).get(CLEAN_FINALIZER) == "forced"


def remaining_duration(chaos: Obj, now: float) -> float | None:
    """Return the seconds until the object's own duration is over; None if it has none."""
    duration = chaos["spec"].get("duration")
    if not duration or is_one_shot(chaos):
        return None
    return max(
        0.0, epoch_of(chaos["metadata"]["creationTimestamp"]) + seconds_of_text(duration) - now
    )


def desired_phase(chaos: Obj, now: float) -> tuple[str, str]:
    """Return the desired phase, and the reason of the event that reports it.

    Raises ValueError for a malformed duration.
    """
    if is_deleted(chaos):
        return STOP, "Deleted"
    if is_one_shot(chaos):  # without an event for its start
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
    """Return the record after recovery. A target that was never injected needs none, and is not
    counted.
    """
    done = int(record["phase"] == INJECTED)
    timestamped = with_event(record, RECOVER, SUCCEEDED, message, now) if done else record
    return {**timestamped, "phase": NOT_INJECTED, "recoveredCount": record["recoveredCount"] + done}


def vanished(record: Obj, now: str) -> Obj:
    """Return the record of a vanished target, which can no longer be injected."""
    if record["phase"] == INJECTED:
        return recovered(record, now, VANISHED)
    return {**with_event(record, APPLY, FAILED, VANISHED, now), "phase": NOT_INJECTED}


def not_injected(record: Obj, reason: str, now: str) -> Obj:
    """Return the record while injection has to wait. An unchanged reason is recorded once."""
    return (
        {**with_event(record, APPLY, FAILED, reason, now), "phase": WAIT}
        if reason
        else {**record, "phase": WAIT}
    )


def with_event(record: Obj, operation: str, result: str, message: str, now: str) -> Obj:
    events = list(record.get("events") or ())
    event = {"operation": operation, "type": result, **({"message": message} if message else {})}
    timestamped = {**event, "timestamp": now}
    if result == FAILED and events and {**events[-1], "timestamp": now} == timestamped:
        return record
    return {**record, "events": [*events[1 - MAX_EVENTS :], timestamped]}


def has_vanished(record: Obj) -> bool:
    events = record.get("events") or []
    return bool(events) and events[-1].get("message") == VANISHED


def conditions_of(records: Sequence[Obj], *, paused: bool) -> list[Obj]:
    remaining = [record for record in records if not has_vanished(record)]
    facts = {
        SELECTED: bool(records),
        ALL_INJECTED: bool(remaining) and all(record["phase"] == INJECTED for record in remaining),
        ALL_RECOVERED: bool(records) and all(record["phase"] == NOT_INJECTED for record in records),
        PAUSED: paused,
    }
    return [{"type": name, "status": str(holds)} for name, holds in facts.items()]


def status_of(chaos: Obj, desired: str, records: Sequence[Obj]) -> Obj:
    old = chaos.get("status") or {}
    experiment = {**(old.get("experiment") or {}), "desiredPhase": desired}
    if records:
        experiment["containerRecords"] = list(records)
    return {
        **old,
        "conditions": conditions_of(records, paused=is_paused(chaos)),
        "experiment": experiment,
    }
