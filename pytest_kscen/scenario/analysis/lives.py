"""The life of each pod of a scenario: made, looked at by the scheduler, placed, gone; a pod that is made again has another.

Waiting is told in major steps, and in minor ones: those that the simulation has gone through meanwhile, as far as events
tell of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from pytest_kscen.scenario.analysis.attempts import Attempt
from pytest_kscen.scenario.analysis.replay import name_of, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.analysis.replay import Name
    from pytest_kscen.scenario.models import PodAttempted, PodScheduled, PodUnscheduled, ScenarioStep, TimelineEvent

PLACED, PENDING, DELETED, PREEMPTED = "placed", "pending", "deleted", "preempted"


@dataclass(eq=False, slots=True)
class Life:
    """One pod's."""

    namespace: str
    name: str
    number: int
    """1, or more for a pod that was made again with the same name."""
    created: ScenarioStep
    origin: str = ""
    """What has made it, where it has got a name by chance."""
    priority: int = 0
    node: str = ""
    is_given: bool = False
    """It came with its node, and the scheduler had nothing to do with it."""
    scheduled: ScenarioStep | None = None
    gone: ScenarioStep | None = None
    is_preempted: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    major_steps: int = 0
    """How long it waited for its node: until it got one, until it was deleted, or to the end."""
    minor_steps: int = 0

    @property
    def state(self) -> str:
        """What became of it: placed, pending, deleted, preempted."""
        if self.gone:
            return PREEMPTED if self.is_preempted else DELETED
        return PLACED if self.node else PENDING

    @property
    def is_pending(self) -> bool:
        """Still at the end."""
        return self.state == PENDING

    @property
    def why_not(self) -> str:
        """Why the last attempt found no place."""
        return self.attempts[-1].why_not if self.attempts and not self.node else ""


class _Lives:
    def __init__(self) -> None:
        self.all: list[Life] = []
        self._now: dict[Name, Life] = {}
        self._numbers: dict[Name, int] = {}

    def see(self, event: TimelineEvent) -> None:
        made, step = event.create or event.patch, event.step
        if made and made.result and made.result.get("kind") == "Pod":
            self._made(made.result, step, is_new=event.create is not None)
        elif event.delete:
            kind, name = target_of(event.delete.operation)
            if kind == "Pod" and (life := self._now.pop(name, None)):
                life.gone = step
        elif event.pod_scheduled:
            self._scheduled(event.pod_scheduled, step)
        elif event.pod_unscheduled:
            self._unscheduled(event.pod_unscheduled, step)
        elif event.pod_attempted:
            self._attempted(event.pod_attempted, step)

    def _made(self, pod: Obj, step: ScenarioStep, *, is_new: bool) -> None:
        metadata = pod["metadata"]
        name = metadata.get("namespace") or "default", metadata["name"]
        if not is_new and (name in self._now or metadata.get("deletionTimestamp")):
            return
        life = self._begin(name, step)
        life.origin = _origin(metadata)
        life.priority = pod["spec"].get("priority") or 0
        life.node = pod["spec"].get("nodeName") or ""
        life.is_given = bool(life.node)

    def _begin(self, name: Name, step: ScenarioStep) -> Life:
        if name in self._now:
            self._now[name].gone = step
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        life = self._now[name] = Life(*name, number, step)
        self.all.append(life)
        return life

    def _of(self, name: Name, step: ScenarioStep) -> Life:
        """A pod whose making is not told begins where it is first told of."""
        return self._now.get(name) or self._begin(name, step)

    def _scheduled(self, what: PodScheduled, step: ScenarioStep) -> None:
        life = self._of(name_of(what.pod), step)
        life.node, life.scheduled = what.bound_to, step

    def _unscheduled(self, what: PodUnscheduled, step: ScenarioStep) -> None:
        life = self._of(name_of(what.pod), step)
        life.node, life.gone, life.is_preempted = life.node or what.bound_to, step, True
        del self._now[name_of(what.pod)]

    def _attempted(self, what: PodAttempted, step: ScenarioStep) -> None:
        life = self._of(name_of(what.pod), step)
        life.attempts.append(
            Attempt(life.namespace, life.name, len(life.attempts) + 1, step, what.results or {}, what.message or "")
        )


def _origin(metadata: Obj) -> str:
    owners = [f"{each['kind']} {each['name']}" for each in metadata.get("ownerReferences") or () if each.get("controller")]
    return next(iter(owners), metadata.get("generateName") or "")


def lives(events: Iterable[TimelineEvent]) -> list[Life]:
    """In the order in which they began."""
    found, lasted = _Lives(), _Minors()
    for event in events:
        found.see(event)
        lasted.see(event.step)
    for life in found.all:
        if not life.is_given:
            end = life.scheduled or life.gone or lasted.last
            life.major_steps = end.major - life.created.major
            life.minor_steps = lasted.between(life.created, end)
    return found.all


class _Minors:
    """How many minor steps each major one has had, as far as events tell."""

    def __init__(self) -> None:
        self._most: dict[int, int] = {}
        self.last: ScenarioStep

    def see(self, step: ScenarioStep) -> None:
        self._most[step.major] = max(self._most.get(step.major, 0), step.minor)
        self.last = step

    def between(self, one: ScenarioStep, other: ScenarioStep) -> int:
        if one.major == other.major:
            return other.minor - one.minor
        before = self._before
        return before[other.major] + other.minor - before[one.major] - one.minor

    @property
    def _before(self) -> dict[int, int]:
        sums = accumulate(self._most.values(), initial=0)
        return dict(zip(self._most, sums, strict=False))
