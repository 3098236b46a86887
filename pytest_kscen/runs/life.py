"""A run's life inside the loop: looked at beforehand, begun, frozen, healed, judged for liveness, cleared away.

Safety is judged while faults are on. When they are over, what is left has to become ready again. A fault made by hand and
left on lasts through that, and is undone after it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.chaos.cleanup import clear_after, clear_before
from pytest_kscen.clock import Signal
from pytest_kscen.megatest.multivolume import multivolume
from pytest_kscen.megatest.season import Season, unless
from pytest_kscen.runs.leftovers import HURRIED, PATIENCE, leftovers
from pytest_kscen.runs.liveness import late
from pytest_kscen.runs.preflight import preflight

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.kube.actor import Stage
    from pytest_kscen.runs.plan import Plan


class Life:
    """One run's actors."""

    def __init__(self, stage: Stage, plan: Plan) -> None:
        self.stage = stage
        self.season = Season()
        self.by_hand: list[Incident] = []
        self._plan = plan
        self._director = stage.actor("run")
        self._calm, self._stop = Signal(), Signal()
        self._chaos: list[asyncio.Task[Any]] = []
        self._others: list[asyncio.Task[Any]] = []

    def stop(self) -> None:
        """End before the time."""
        self._director.note("stopped-early")
        self._stop.give()

    def hurry(self) -> None:
        """Leave volumes behind; chaos is still removed."""
        self._director.note("hurried")
        self.season.abandoned.give()

    @property
    def is_stopped(self) -> bool:
        return self._stop.given

    async def begin(self, duration: float | None) -> None:
        watched = list(self.stage.health.conditions)
        self._director.note("run-started", seed=self.stage.chance.seed, duration=duration, conditions=watched)
        await preflight(self.stage, self._plan)
        if self._plan.chaos:
            await clear_before(self.stage)
        if self._plan.churn:
            self.start(multivolume(self.stage, self._plan.churn, self.season), "multivolume")
        for profile in self._plan.chaos:
            task = asyncio.get_running_loop().create_task(profile.run(self.stage, self._calm), name=profile.profile)
            self._chaos.append(task)

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self._others.append(asyncio.get_running_loop().create_task(coroutine, name=name))

    async def last(self, seconds: float) -> None:
        """Let this much time pass, or less if the run is stopped."""
        if not self._stop.given:
            await self._stop.within(self._director.clock, seconds)

    def raise_crash(self) -> None:
        for task in (*self._chaos, *self._others):
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise error

    async def end(self) -> None:
        self.season.frozen.give()
        for incident in self._lasting():
            self._director.note("incident-lasting", incident=incident.id)
        self._director.note("frozen")
        await self._heal()
        await self._judge_liveness()
        for incident in reversed(self._lasting()):
            await incident.end()
        self.season.over.give()
        if self._others:
            await asyncio.wait(self._others)
        await self._clear()
        self._director.note("run-ended")
        self.raise_crash()

    def _lasting(self) -> list[Incident]:
        """What was stated by hand and not taken back."""
        return [incident for incident in self.by_hand if incident.is_on]

    async def _heal(self) -> None:
        self._calm.give()
        if shaking := [*self._chaos, *self.season.shakers]:
            await asyncio.wait(shaking)
        self._director.note("healed")

    async def _judge_liveness(self) -> None:
        """Whoever hurries does not wait for it, and it stays unknown."""
        found = await unless(self.season.abandoned, late(self.stage))
        if found is not None:
            self._director.note("liveness", late=found)

    async def _clear(self) -> None:
        hands = [self._director]
        if self.stage.parent:
            hands.append(self.stage.in_parent("run"))
        if self._plan.chaos or self.by_hand or self.season.shakers:
            await clear_after(self.stage)
        self._director.note("leftovers", objects=await leftovers(hands, HURRIED if self.season.abandoned.given else PATIENCE))
