"""Pure functions that plan a deletion: grace period, finalizers, propagation policy, and
namespace termination.
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
class Plan:
    """`marked` is the object's next state if it gets one; `goes` says that it is removed (after
    that).
    """

    marked: Obj | None
    goes: bool


def plan(kind: Kind, old: Obj, options: Options, now: float) -> Plan:
    metadata = dict(old["metadata"])
    marked = {**old, "metadata": metadata}
    is_graceful = _give_time(kind, marked, options, now)
    if is_graceful is None:
        return Plan(None, goes=False)
    # The object's finalizers, with the garbage collector's as this deletion wants them.
    present = metadata.get("finalizers") or []
    if kind.home in NEVER_COLLECTED:
        finalizers: list[str] = [each for each in present if each not in {ORPHAN, FOREGROUND}]
    else:
        wanted = _dependents_end(kind, present, options)
        rest = [each for each in present if each not in {ORPHAN, FOREGROUND}]
        found = [*rest, wanted] if wanted else rest
        finalizers = (
            present if set(found) == set(present) else found
        )  # where one is told twice it stays so
    if finalizers:
        metadata["finalizers"] = finalizers
        if not is_graceful:
            if not metadata.get("deletionTimestamp"):
                _count(metadata)
            if (
                not metadata.get("deletionTimestamp")
                or epoch_of(metadata["deletionTimestamp"]) > now
            ):
                metadata["deletionTimestamp"] = timestamp_of(now)
            metadata["deletionGracePeriodSeconds"] = 0
    else:
        metadata.pop("finalizers", None)
    if is_graceful or finalizers:
        return Plan(marked, goes=not finalizers and not metadata["deletionGracePeriodSeconds"])
    return Plan(None, goes=True)


def _give_time(kind: Kind, obj: Obj, options: Options, now: float) -> bool | None:
    """True: the object has been given time (or less of it); False: it needs none; None: its time
    is running already.
    """
    metadata, asked = obj["metadata"], options.grace_period
    if asked is not None and asked < 0:
        asked = 1
    if kind.rules.grace_period is None:
        return False
    if metadata.get("deletionTimestamp"):
        return (
            _shorten(metadata, asked, now) if metadata.get("deletionGracePeriodSeconds") else False
        )
    period = kind.rules.grace_period(obj, asked)
    _count(metadata)
    metadata["deletionTimestamp"] = timestamp_of(now + period)
    metadata["deletionGracePeriodSeconds"] = period
    return True


def _shorten(metadata: Obj, asked: int | None, now: float) -> bool | None:
    given = metadata["deletionGracePeriodSeconds"]
    if asked is None or asked >= given:
        return None
    until = epoch_of(metadata["deletionTimestamp"]) - given + asked
    if until < now:
        until, asked = now, min(asked, 1)
    metadata["deletionTimestamp"] = timestamp_of(until)
    metadata["deletionGracePeriodSeconds"] = asked
    return True


def _count(metadata: Obj) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _dependents_end(kind: Kind, present: list[str], options: Options) -> str:
    """The finalizer that stands for it; in the background there is none."""
    if options.orphan_dependents is not None:
        return ORPHAN if options.orphan_dependents else ""
    if options.propagation:
        return {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation, "")
    for each in present:
        if each in {ORPHAN, FOREGROUND}:
            return each
    return ORPHAN if kind.home in ORPHANS_BY_DEFAULT else ""


# The end of a namespace: it is terminating from the first deletion on, and goes when both its
# lists of finalizers are empty. Emptying it is a controller's work, who then takes its own
# finalizer out of the spec by the subresource `finalize`.


NAMESPACES = ("", "namespaces")


def begin_termination(old: Obj, options: Options, now: float) -> Obj:
    metadata = {**old["metadata"], "deletionTimestamp": timestamp_of(now)}
    finalizers = [
        each for each in metadata.get("finalizers") or [] if each not in _unwanted(options)
    ]
    finalizers += [each for each in _wanted(options) if each not in finalizers]
    metadata["finalizers"] = finalizers
    if not finalizers:
        del metadata["finalizers"]
    return {
        **old,
        "metadata": metadata,
        "status": {**old.get("status", {}), "phase": "Terminating"},
    }


def _wanted(options: Options) -> list[str]:
    if options.orphan_dependents is not None:
        return [ORPHAN] if options.orphan_dependents else [FOREGROUND]
    return {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(options.propagation, [])


def _unwanted(options: Options) -> list[str]:
    if options.orphan_dependents is None and not options.propagation:
        return []
    return [each for each in (ORPHAN, FOREGROUND) if each not in _wanted(options)]
