"""Progress of a scenario: step, phase and events, kept in memory and written into its status as
the strategy requires.

Phase and step are written at once; the result when a step ends, when no operation is left, or at
the end.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.kube.api import JSON_PATCH
from pytest_kscen.objects.errors import ApiError, Invalid, NotFound, TooLarge
from pytest_kscen.objects.scenarios import OVER, PAUSED, RUNNING, SCENARIOS
from pytest_kscen.scenario.models import (
    ScenarioResult,
    ScenarioStep,
    StepStatus,
    TimelineEvent,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

VARIABLE = "UPDATE_SCENARIO_RESULTS_STRATEGY"
LIMIT = 1_400_000  # bytes of JSON; etcd's limit for an object, with its spec, is 1.5 MiB


class ResultsStrategy(Enum):
    """Strategy that decides when the result is written into the Scenario's status: after each step,
    at a pause, or at the end. Chosen by an environment variable.
    """

    AT_MOVING_NEXT_STEP = "AtMovingNextStep"
    ON_PAUSE = "OnPause"
    ON_DONE = "OnDone"

    @classmethod
    def of(cls, text: str = "") -> ResultsStrategy:
        """Return the strategy of this name, else of the environment variable, else the default.

        Raise ValueError for an unknown name.
        """
        text = text or os.environ.get(VARIABLE, "")
        try:
            return cls(text) if text else cls.AT_MOVING_NEXT_STEP
        except ValueError:
            names = ", ".join(each.value for each in cls)
            raise ValueError(f"{VARIABLE}={text!r}: unknown strategy; there are {names}") from None

    def is_due(self, phase: str, *, step_ended: bool) -> bool:
        match self:
            case ResultsStrategy.AT_MOVING_NEXT_STEP:
                return step_ended or phase != RUNNING
            case ResultsStrategy.ON_PAUSE:
                return phase in (PAUSED, *OVER)
            case ResultsStrategy.ON_DONE:
                return phase in OVER


@dataclass(eq=False)
class Progress:
    """Progress of one scenario.

    An event is recorded before its write is done, and withdrawn if the write fails.
    """

    name: str
    uid: str
    actor: Actor
    version: str
    strategy: ResultsStrategy = ResultsStrategy.AT_MOVING_NEXT_STEP
    limit: int = LIMIT
    phase: str = ""
    message: str = ""
    generation: int = 0
    step: StepStatus = field(default_factory=StepStatus)
    events: list[TimelineEvent] = field(default_factory=list)
    """Events that fit into one object; later ones are only counted."""
    _generated: int = 0
    _omitted: int = 0
    _size: int = 0
    _write_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def api(self) -> Api:
        return self.actor.api

    def record_event(self, **what: Any) -> str:
        """Record an event at the current step; return its id, generated if it is missing."""
        if "id" not in what:
            self._generated += 1
            what["id"] = f"generated-{self._generated}"
        event = TimelineEvent(step=self.step.step, **what)
        entry = written(event)
        self.actor.note("scenario-event", scenario=self.name, event=entry)
        self._size += len(orjson.dumps(entry)) if not self._omitted else 0
        if self._omitted or self._size > self.limit:
            self._omitted += 1
        else:
            self.events.append(event)
        return event.id

    def withdraw_event(self, id: str) -> None:
        self.actor.note("scenario-event-undone", scenario=self.name, id=id)
        self.events = [each for each in self.events if each.id != id]

    async def set_phase(self, phase: str, message: str = "") -> None:
        """Set the scenario's phase, and write it with the result if that is due."""
        self.phase, self.message = phase, message
        self.actor.note(
            "scenario-phase",
            scenario=self.name,
            phase=phase,
            **({"message": message} if message else {}),
        )
        await self.write()

    async def set_step_phase(
        self, phase: str, *, major: int | None = None, running: str | None = None
    ) -> None:
        """Set the step's phase, and write it; a new major step begins with minor step 0."""
        step = self.step.step if major is None else ScenarioStep(major, 0)
        await self._set_step(
            StepStatus(step, phase, self.step.running if running is None else running)
        )

    def next_minor(self, phase: str) -> Awaitable[None]:
        """Begin the next minor step, because a simulated controller writes; later events belong
        to it.

        Awaiting the result waits until the step is written.
        """
        step = self.step.step
        return self._set_step(
            replace(self.step, step=ScenarioStep(step.major, step.minor + 1), phase=phase)
        )

    def _set_step(self, step: StepStatus) -> Awaitable[None]:
        """Record the step at once; await the result to wait until it is written."""

        async def write() -> None:
            async with self._write_lock:  # a later write is never older
                await self._patch({"stepStatus": written(self.step)})

        self.step = step
        self.actor.note("scenario-step", scenario=self.name, **written(step))
        return write()

    async def write(self, *, step_ended: bool = False) -> None:
        """Write phase and step, and the result if it is due.

        A result that is too large for one object is cut by half until the server accepts it.
        """
        async with self._write_lock:
            status: Obj = {
                "phase": self.phase,
                "message": self.message or None,
                "stepStatus": written(self.step),
            }
            status["observedGeneration"] = self.generation
            if not self.strategy.is_due(self.phase, step_ended=step_ended):
                await self._patch(status)
                return
            while True:
                note = None
                if self._omitted:
                    total = len(self.events) + self._omitted
                    note = (
                        f"the last {self._omitted} of {total} events do not fit in this "
                        "object; the run's journal has all"
                    )
                result = ScenarioResult(self.version, by_major_step(self.events), note)
                try:
                    await self._patch({**status, "scenarioResult": written(result)})
                except ApiError as error:
                    is_too_large = isinstance(error, TooLarge) or "too large" in error.message
                    if not self.events or not is_too_large:
                        raise
                    self._omitted += len(self.events) - len(self.events) // 2
                    del self.events[len(self.events) // 2 :]
                else:
                    return

    async def _patch(self, status: Obj) -> None:
        """Replace these fields of the status.

        Nothing is written if the Scenario is deleted or another one has its name.
        """
        patch: list[Obj] = [{"op": "test", "path": "/metadata/uid", "value": self.uid}]
        for name, value in status.items():
            patch.append({"op": "add", "path": f"/status/{name}", "value": value})
            if value is None:
                patch.append({"op": "remove", "path": f"/status/{name}"})
        try:
            await self.api.patch(
                SCENARIOS, self.name, patch, patch_type=JSON_PATCH, subresource="status"
            )
        except (NotFound, Invalid):
            try:
                live = await self.api.get(SCENARIOS, self.name)
            except NotFound:
                return
            if live["metadata"]["uid"] == self.uid:
                raise


def by_major_step(events: Iterable[TimelineEvent]) -> dict[str, list[TimelineEvent]]:
    found: dict[str, list[TimelineEvent]] = {}
    for event in events:
        found.setdefault(str(event.step.major), []).append(event)
    return found
