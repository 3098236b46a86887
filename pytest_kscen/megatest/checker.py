"""volume-checker: watches one volume's health and notes each change of each condition, which begin as True.

A change is one between True and anything else, so that an even count says that the volume is well again. What is not
there yet, what a new list shows once more and a volume that is going are no changes; what is there no more is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytest_kscen.megatest.attachments import attached_nodes
from pytest_kscen.megatest.view import VOLUME, name_of
from pytest_kscen.objects.volume_health import Observed

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.subject import Subject
    from pytest_kscen.objects.resources import Obj

WELL = Observed("True")
GONE = Observed("Unknown", "Absent", "the volume says nothing of it any more")
ATTACHED = "Attached"


async def check(rv: Subject) -> None:
    """Lives until it is cancelled."""
    actor = rv.actor("volume-checker")
    actor.note("checker-started", volume=rv.name, conditions=list(rv.health.conditions))
    last: dict[str, Observed] = {}
    states: asyncio.Queue[dict[str, Observed]] = asyncio.Queue()
    latest: Obj | None = None
    said: dict[str, Observed] | None = None

    def hear() -> None:
        nonlocal latest, said
        before, latest = latest, rv.volume
        if latest is None or latest is before or latest["metadata"].get("deletionTimestamp"):
            return  # it is gone or going, or nothing new
        if (saying := rv.health.read(latest)) != said:
            states.put_nowait(saying)
            said = saying

    try:
        with rv.view.listening(rv.name, hear, to=(VOLUME,)):
            hear()
            while True:
                _compare(rv, actor, await states.get(), last)
    except asyncio.CancelledError:
        while not states.empty():  # what was heard in the very moment of the end
            _compare(rv, actor, states.get_nowait(), last)
        raise
    finally:
        actor.note("checker-stopped", volume=rv.name, conditions={name: seen.status for name, seen in last.items()})


def _compare(rv: Subject, actor: Actor, said: dict[str, Observed], last: dict[str, Observed]) -> None:
    for name, seen in (dict.fromkeys(last, GONE) | said).items():
        expected, last[name] = last.get(name, WELL), seen
        if seen.holds != expected.holds:
            _tell(rv, actor, name, expected, seen)


def _tell(rv: Subject, actor: Actor, name: str, expected: Observed, seen: Observed) -> None:
    states = {"volume": rv.name, "condition": name, "expected": expected.status, "observed": seen.status}
    why = {"reason": seen.reason, "details": seen.message}
    false = replicas_false(rv.view.replicas(rv.name), attached_nodes(rv))
    actor.note("condition-changed", **states, **why)
    actor.note("replicas-false", volume=rv.name, replicas=false)
    actor.log(logging.WARNING, "condition changed", **states, transition=f"{expected.status}->{seen.status}")
    actor.log(logging.INFO, "condition details", volume=rv.name, condition=name, **why, replicas=false)


def replicas_false(replicas: list[Obj], wanted: list[str]) -> dict[str, list[str]]:
    """Which conditions of which replicas are False, and why. A replica on whose node nobody wants the volume is not Attached."""
    found = {name_of(replica): _false(replica, wanted) for replica in replicas}
    return {name: conditions for name, conditions in found.items() if conditions}


def _false(replica: Obj, wanted: list[str]) -> list[str]:
    conditions = (replica.get("status") or {}).get("conditions") or ()
    normal = () if replica["spec"].get("nodeName") in wanted else (ATTACHED,)
    return [
        f"{one['type']} ({one.get('reason', '')})"
        for one in conditions
        if one.get("status") == "False" and one["type"] not in normal
    ]
