"""Pure functions that plan a deletion: grace period, finalizers, propagation and namespaces.

Called by verbs.deleting, which admits and commits the plan. Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of, timestamp_of

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Options
    from pytest_kscen.objects.resources import Obj


ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
NEVER_COLLECTED = {("", "events")}
ORPHANS_BY_DEFAULT = {("batch", "jobs"), ("", "replicationcontrollers")}


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """Planned outcome of a delete request.

    `marked` is the object's next state, or None if it does not change. `removed` is True if the
    object is then removed from the store.
    """

    marked: Obj | None
    removed: bool


def plan_deletion(kind: Kind, old: Obj, options: Options, now: float) -> DeletionPlan:
    metadata = dict(old["metadata"])
    marked = {**old, "metadata": metadata}
    is_graceful = _start_grace_period(kind, marked, options, now)
    if is_graceful is None:
        return DeletionPlan(None, removed=False)
    # The finalizers of the object, with the garbage collector's as this request sets them.
    present = metadata.get("finalizers") or []
    if kind.home in NEVER_COLLECTED:
        finalizers: list[str] = [each for each in present if each not in {ORPHAN, FOREGROUND}]
    else:
        wanted = _propagation_finalizer(kind, present, options)
        rest = [each for each in present if each not in {ORPHAN, FOREGROUND}]
        found = [*rest, wanted] if wanted else rest
        finalizers = present if set(found) == set(present) else found  # duplicates stay as written
    if finalizers:
        metadata["finalizers"] = finalizers
        if not is_graceful:
            if not metadata.get("deletionTimestamp"):
                _increase_generation(metadata)
            if (
                not metadata.get("deletionTimestamp")
                or epoch_of(metadata["deletionTimestamp"]) > now
            ):
                metadata["deletionTimestamp"] = timestamp_of(now)
            metadata["deletionGracePeriodSeconds"] = 0
    else:
        metadata.pop("finalizers", None)
    if is_graceful or finalizers:
        return DeletionPlan(
            marked, removed=not finalizers and not metadata["deletionGracePeriodSeconds"]
        )
    return DeletionPlan(None, removed=True)


def _start_grace_period(kind: Kind, obj: Obj, options: Options, now: float) -> bool | None:
    """Start or shorten the grace period in a copy of the object.

    Returns True if a period was set or shortened, False if none is needed, None if one is running
    already and stays.
    """
    metadata, requested = obj["metadata"], options.grace_period
    if requested is not None and requested < 0:
        requested = 1
    if kind.rules.grace_period is None:
        return False
    if metadata.get("deletionTimestamp"):
        return (
            _shorten_grace_period(metadata, requested, now)
            if metadata.get("deletionGracePeriodSeconds")
            else False
        )
    period = kind.rules.grace_period(obj, requested)
    _increase_generation(metadata)
    metadata["deletionTimestamp"] = timestamp_of(now + period)
    metadata["deletionGracePeriodSeconds"] = period
    return True


def _shorten_grace_period(metadata: Obj, requested: int | None, now: float) -> bool | None:
    given = metadata["deletionGracePeriodSeconds"]
    if requested is None or requested >= given:
        return None
    until = epoch_of(metadata["deletionTimestamp"]) - given + requested
    if until < now:
        until, requested = now, min(requested, 1)
    metadata["deletionTimestamp"] = timestamp_of(until)
    metadata["deletionGracePeriodSeconds"] = requested
    return True


def _increase_generation(metadata: Obj) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _propagation_finalizer(kind: Kind, present: list[str], options: Options) -> str:
    """Return the finalizer of the propagation policy; empty for Background."""
    if options.orphan_dependents is not None:
        return ORPHAN if options.orphan_dependents else ""
    if options.propagation:
        return {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation, "")
    for each in present:
        if each in {ORPHAN, FOREGROUND}:
            return each
    return ORPHAN if kind.home in ORPHANS_BY_DEFAULT else ""


NAMESPACES = ("", "namespaces")


def begin_termination(old: Obj, options: Options, now: float) -> Obj:
    """Return a namespace marked as terminating.

    It is removed when both lists of finalizers, in metadata and spec, are empty. Deleting its
    content is the namespace controller's work, which ends with a write to the subresource
    `finalize`.
    """
    metadata = {**old["metadata"], "deletionTimestamp": timestamp_of(now)}
    if options.orphan_dependents is not None:
        requested = [ORPHAN] if options.orphan_dependents else [FOREGROUND]
    else:
        requested = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(options.propagation, [])
    dropped = {ORPHAN, FOREGROUND} - {*requested}
    if options.orphan_dependents is None and not options.propagation:
        dropped = set()
    finalizers = [each for each in metadata.get("finalizers") or [] if each not in dropped]
    finalizers += [each for each in requested if each not in finalizers]
    metadata["finalizers"] = finalizers
    if not finalizers:
        del metadata["finalizers"]
    return {
        **old,
        "metadata": metadata,
        "status": {**old.get("status", {}), "phase": "Terminating"},
    }
