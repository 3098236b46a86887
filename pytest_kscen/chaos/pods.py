"""pod-destroyer: deletes some of the pods with a label, again and again. Each deletion is an incident until all are back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.chaos.faults.pods import Destruction
from pytest_kscen.chaos.incidents import PASSING, cause
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.chaos.recurring import ended, skipped
from pytest_kscen.objects.numbers import valid_range
from pytest_kscen.objects.selectors import parse_labels
from pytest_kscen.objects.storage import AGENT_LABEL, CONTROLLER_LABEL, NAMESPACE

if TYPE_CHECKING:
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Stage

AT_ONCE = {AGENT_LABEL: (1, 2), CONTROLLER_LABEL: (1, 3)}
OTHERS_AT_ONCE = (1, 1)


@dataclass(frozen=True, slots=True)
class PodDestroy:
    """Which pods, how many at once, how often; ranges are (least, most), times in seconds.

    Without a label: the storage's agents and its controllers, side by side.
    """

    label: str | None = None
    namespace: str = NAMESPACE
    pods: tuple[int, int] | None = None
    period: tuple[float, float] = (30.0, 60.0)

    profile: ClassVar[str] = Destruction.profile

    def __post_init__(self) -> None:
        valid_range("period", self.period)
        if self.pods is not None:
            valid_range("pods", self.pods, whole=True)
        if self.label is not None:
            valid_label(self.label)
        if not isinstance(self.namespace, str) or not self.namespace:
            raise ValueError(f"namespace={self.namespace!r}: give a name")

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,) if self.label else tuple(AT_ONCE)

    @property
    def soonest(self) -> float:
        return self.period[0]

    def needs_machines(self) -> int:
        return 0

    async def run(self, stage: Stage, stop: Signal) -> None:
        async with asyncio.TaskGroup() as destroyers:
            for label in self.labels:
                name = stage.one_more(f"pod-destroyer/{label}")
                destroyers.create_task(self._destroy(stage, stop, label, name), name=name)

    async def _destroy(self, stage: Stage, stop: Signal, label: str, name: str) -> None:
        actor = stage.actor(name)
        at_once = self.pods or AT_ONCE.get(label, OTHERS_AT_ONCE)
        async with Observer.of(stage).held(), asyncio.TaskGroup() as recoveries:
            while not await stop.within(actor.chance.between(*self.period)):
                fault = Destruction(label, actor.chance.whole(*at_once), self.namespace)
                try:
                    incident = await cause(stage, fault, by=name)
                except PASSING as error:
                    skipped(actor, self.profile, error)
                else:
                    recoveries.create_task(ended(incident), name=f"recovery of {incident.id}")


def valid_label(label: object) -> None:
    why = ""
    try:
        if isinstance(label, str) and parse_labels(label):
            return
    except ValueError as error:
        why = f"{error}: "
    raise ValueError(f"label={label!r}: {why}write it as in app=agent")
