"""volume-checker: record health changes of a volume, and the reasons why one is not ready yet."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Never

from pytest_kscen.megatest.subject import attached_nodes
from pytest_kscen.megatest.view import VOLUME, name_of
from pytest_kscen.objects.storage import Observed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.subject import Subject
    from pytest_kscen.objects.resources import Obj


HEALTHY = Observed("True")
ABSENT_CONDITION = Observed(
    "Unknown", "Absent", "the volume's status has no such condition any more"
)
ATTACHED = "Attached"


async def check(rv: Subject) -> None:
    """Record each change of the volume's conditions until cancelled.

    Changes that were received before the cancellation still count. The first and the last entry
    are `checker-started` and `checker-stopped`.
    """
    actor = rv.actor("volume-checker")
    actor.note("checker-started", volume=rv.name, conditions=list(rv.health.conditions))
    last: dict[str, Observed] = {}
    states: asyncio.Queue[dict[str, Observed]] = asyncio.Queue()
    latest: Obj | None = None
    previous: dict[str, Observed] | None = None

    def receive() -> None:
        nonlocal latest, previous
        before, latest = latest, rv.volume
        if latest is None or latest is before or latest["metadata"].get("deletionTimestamp"):
            return  # deleted, terminating, or unchanged
        if (current := rv.health.read(latest)) != previous:
            states.put_nowait(current)
            previous = current

    try:
        with rv.watch.listening(rv.name, receive, to=(VOLUME,)):
            receive()
            while True:
                _compare(rv, actor, await states.get(), last)
    except asyncio.CancelledError:
        while not states.empty():  # changes that came with the cancellation
            _compare(rv, actor, states.get_nowait(), last)
        raise
    finally:
        actor.note(
            "checker-stopped",
            volume=rv.name,
            conditions={name: seen.status for name, seen in last.items()},
        )


def _compare(
    rv: Subject, actor: Actor, observed: dict[str, Observed], last: dict[str, Observed]
) -> None:
    """Record and log each condition that has begun or ceased to hold; update `last`.

    A condition that the status lacks now, and had before, counts as unknown.
    """
    for name, seen in (dict.fromkeys(last, ABSENT_CONDITION) | observed).items():
        expected, last[name] = last.get(name, HEALTHY), seen
        if seen.holds == expected.holds:
            continue
        states = {
            "volume": rv.name,
            "condition": name,
            "expected": expected.status,
            "observed": seen.status,
        }
        why = {"reason": seen.reason, "details": seen.message}
        false = replicas_false(rv.watch.replicas(rv.name), attached_nodes(rv))
        actor.note("condition-changed", **states, **why)
        actor.note("replicas-false", volume=rv.name, replicas=false)
        actor.log(
            logging.WARNING,
            "condition changed",
            **states,
            transition=f"{expected.status}->{seen.status}",
        )
        actor.log(
            logging.INFO, "condition details", volume=rv.name, condition=name, **why, replicas=false
        )


def replicas_false(replicas: list[Obj], wanted: list[str]) -> dict[str, list[str]]:
    """Return the False conditions of each replica, with their reasons.

    A replica on a node without a requested attachment is expected to be not Attached.
    """
    found = {}
    for replica in replicas:
        normal = () if replica["spec"].get("nodeName") in wanted else (ATTACHED,)
        conditions = [
            f"{one['type']} ({one.get('reason', '')})"
            for one in (replica.get("status") or {}).get("conditions") or ()
            if one.get("status") == "False" and one["type"] not in normal
        ]
        if conditions:
            found[name_of(replica)] = conditions
    return found


REPEAT_AFTER = 10.0  # seconds
ABSENT = Observed("absent")


@contextlib.asynccontextmanager
async def record_shortcomings(rv: Subject, actor: Actor) -> AsyncIterator[None]:
    """Record the reasons why the volume is not ready, while the body waits for it.

    They are written when they change, at most every REPEAT_AFTER seconds, and when the wait ends.
    """
    wait = _ShortcomingRecorder(rv, actor)
    repeating = asyncio.get_running_loop().create_task(
        wait.repeat(), name=f"shortcomings of {rv.name}"
    )
    try:
        yield
    finally:
        repeating.cancel()
        wait.record(last=True)


@dataclass(slots=True)
class _ShortcomingRecorder:
    rv: Subject
    actor: Actor
    reported: list[tuple[str, Observed]] = field(default_factory=list)
    reported_replicas: dict[str, list[str]] = field(default_factory=dict)

    async def repeat(self) -> Never:
        while True:
            await self.actor.clock.sleep(REPEAT_AFTER)
            self.record()

    def record(self, *, last: bool = False) -> None:
        """Record the shortcomings if they changed.

        A message may contain a counter, so a changed message alone counts only in the last record.
        """
        if self.rv.volume is None or self.rv.health.is_ready(self.rv.volume):
            return
        lacks = list(_missing_conditions(self.rv).items())
        replicas = replicas_false(self.rv.watch.replicas(self.rv.name), attached_nodes(self.rv))
        same = lacks == self.reported if last else _states(lacks) == _states(self.reported)
        if same and replicas == self.reported_replicas:
            return
        self.reported, self.reported_replicas = lacks, replicas
        self.actor.note("not-ready", volume=self.rv.name, **_as_data(lacks, replicas))


def shortcomings(rv: Subject) -> dict[str, Any]:
    """Return the reasons why the volume is not ready, in the form of the entry `not-ready`.

    `run.manual` uses it for the message of a test whose volume did not become ready.
    """
    return _as_data(
        _missing_conditions(rv).items(),
        replicas_false(rv.watch.replicas(rv.name), attached_nodes(rv)),
    )


def _as_data(
    lacks: Iterable[tuple[str, Observed]], replicas: dict[str, list[str]]
) -> dict[str, Any]:
    return {"conditions": {name: seen._asdict() for name, seen in lacks}, "replicas": replicas}


def _missing_conditions(rv: Subject) -> dict[str, Observed]:
    """Return conditions that do not hold, or that the volume promises and does not have.

    Those of the status that the health does not judge are among them: they often name the
    cause.
    """
    stated = ((rv.volume or {}).get("status") or {}).get("conditions") or ()
    seen = dict.fromkeys(rv.health.conditions, ABSENT)
    seen |= {
        one["type"]: Observed(one["status"], one.get("reason", ""), one.get("message", ""))
        for one in stated
    }
    seen |= rv.health.read(rv.volume)
    return {name: one for name, one in seen.items() if not one.holds}


def _states(lacks: Iterable[tuple[str, Observed]]) -> list[tuple[str, str, str]]:
    return [(name, seen.status, seen.reason) for name, seen in lacks]
