"""Scenario controller: watches Scenarios and plays one at a time; other Scenarios are Pending until
their turn.

A Scenario that is running when the controller starts is set to Failed, because its controller was
restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.cache import Ref
from pytest_kscen.kube.informer import Informer, Informers
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.scenarios import FAILED, ON, PENDING, SCENARIOS, phase_of
from pytest_kscen.scenario.builtin_waiters import waiters_where_served
from pytest_kscen.scenario.execution import ScenarioExecution
from pytest_kscen.scenario.models import ScenarioSpec, configuration_of, read
from pytest_kscen.scenario.participants import ControllerRegister, Participants
from pytest_kscen.scenario.progress import Progress, ResultsStrategy
from pytest_kscen.scenario.waiting import PATIENCE, Convergence

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.scenario.models import PodAttempted
    from pytest_kscen.scenario.writes import Write

RESTARTED = "the controller restarted while the Scenario was running"
SETTLE = 0.1


class ScenarioController:
    """Actor that plays the Scenarios of one cluster, one at a time in the order of their creation.
    Its public methods forward to the active scenario, and do nothing without one.
    """

    def __init__(
        self,
        actor: Actor,
        register: ControllerRegister,
        *,
        strategy: ResultsStrategy = ResultsStrategy.AT_MOVING_NEXT_STEP,
        settle: float = SETTLE,
        patience: float = PATIENCE,
    ) -> None:
        self.register = register
        self._actor = actor
        self._strategy = strategy
        self._settle = settle
        self._patience = patience
        self._scenarios = Informer(actor.api, actor.clock, SCENARIOS)
        self._informers = Informers(actor.api, actor.clock)
        self._active: ScenarioExecution | None = None
        self._arrived, self._queued = asyncio.Event(), asyncio.Event()

    async def run(self) -> Never:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._scenarios.run(), name="scenarios")
            group.create_task(self._informers.run(), name="informers of scenarios")
            await self._scenarios.synced()
            for scenario in self._scenarios:
                if phase_of(scenario) in ON:
                    await self._set_phase(scenario, FAILED, RESTARTED)
            await self._run_cleanups()
            self._scenarios.on_change(self._changed)
            group.create_task(self._queue_new(), name="queue of scenarios")
            while True:
                self._queued.clear()
                if not self._oldest():
                    await self._queued.wait()
                    continue
                # Add waiters of controllers whose resources are served by now.
                for waiter in waiters_where_served():
                    if waiter.name in self.register.waiters:
                        continue
                    with contextlib.suppress(NotFound):
                        for resource in waiter.resources:
                            await self._actor.api.list(resource, limit=1)
                        self.register.add(waiter, replace=True)
                if oldest := self._oldest():
                    await self._play(oldest)
        raise AssertionError

    def _oldest(self) -> Obj | None:
        return min(
            (each for each in self._scenarios if phase_of(each) == PENDING), key=_age, default=None
        )

    async def _queue_new(self) -> Never:
        """Set each new Scenario to Pending, oldest first, while another one is active."""
        while True:
            self._arrived.clear()
            for each in sorted((each for each in self._scenarios if not phase_of(each)), key=_age):
                await self._set_phase(each, PENDING, "")
            self._queued.set()
            await self._arrived.wait()

    async def admit_write(self, write: Write) -> None:
        if self._active:
            await self._active.admit_write(write)

    def attempted(self, attempt: PodAttempted) -> None:
        if self._active:
            self._active.attempted(attempt)

    def give_up(self, why: str) -> None:
        if self._active:
            self._active.give_up(why)

    def simulates(self, controller: str) -> bool:
        return self._active is not None and controller in self._active.participants.simulated

    def disables(self, controller: str) -> bool:
        return self._active is not None and controller in self._active.participants.disabled

    def informer_of(self, resource: Resource) -> Informer:
        return self._informers.of(resource)

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        self._arrived.set()
        if self._active and (new or old or {})["metadata"]["uid"] == self._active.progress.uid:
            if new is None:
                self._active.give_up("it was deleted")
            elif (
                not old
                or new["spec"] != old["spec"]
                or configuration_of(new) != configuration_of(old)
            ):
                self._active.update(new)

    async def _play(self, scenario: Obj) -> None:
        """Play one Scenario. Nothing is awaited between reading it and following its changes."""
        name, uid = scenario["metadata"]["name"], scenario["metadata"]["uid"]
        spec = read(ScenarioSpec, scenario["spec"])
        version = f"pytest-kscen {importlib.metadata.version('pytest-kscen')}"
        progress = Progress(name, uid, self._actor, version, self._strategy)
        convergence = Convergence(self._actor.api, self._informers, self._actor.clock, self._settle)
        self._active = ScenarioExecution(
            progress,
            convergence,
            Participants.of(self.register, spec),
            spec,
            self._patience,
            configuration_of(scenario),
        )
        self._active.update(scenario)
        try:
            await self._active.run()
            await self._await_own_write(scenario)
        finally:
            self._active = None
            convergence.stop()
        await self._run_cleanups()

    async def _run_cleanups(self) -> None:
        """Undo the cluster changes of the last scenario, however it ended.

        An error is logged, because later scenarios must still be played.
        """
        for each in self.register.cleanups:
            try:
                await each()
            except (ApiError, OSError) as error:
                self._actor.log(logging.WARNING, "cleanup after a scenario failed", why=str(error))

    async def _await_own_write(self, scenario: Obj) -> None:
        """Wait until the informer shows the last write to the Scenario, or its deletion, so that no
        decision is based on an older state.
        """
        try:
            live = await self._actor.api.get(SCENARIOS, scenario["metadata"]["name"])
        except NotFound:
            await self._scenarios.lost(Ref.of(scenario), scenario["metadata"]["uid"])
        else:
            await self._scenarios.reached(live["metadata"]["resourceVersion"])

    async def _set_phase(self, scenario: Obj, phase: str, message: str) -> None:
        status = {"phase": phase, **({"message": message} if message else {})}
        with contextlib.suppress(NotFound):
            await self._actor.api.patch(
                SCENARIOS, scenario["metadata"]["name"], {"status": status}, subresource="status"
            )
        await self._await_own_write(scenario)


def _age(scenario: Obj) -> tuple[str, str]:
    return scenario["metadata"]["creationTimestamp"], scenario["metadata"]["name"]
