"""Run one scenario: validate its operations, clear the cluster, then execute major step after
major step.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.gate import GateAttendance
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.scenarios import (
    CONTROLLER_COMPLETED,
    CONTROLLER_PAUSED,
    CONTROLLER_RUNNING,
    FAILED,
    ON,
    OPERATING,
    OPERATING_COMPLETED,
    PAUSED,
    RUNNING,
    STEP_COMPLETED,
    SUCCEEDED,
)
from pytest_kscen.scenario.builtin_waiters import SCHEDULER
from pytest_kscen.scenario.cluster_setup import NotClearedError, clear
from pytest_kscen.scenario.models import Controllers, ScenarioSpec, configuration_of, read
from pytest_kscen.scenario.operations import ScenarioOperationFailed, do, faults
from pytest_kscen.scenario.waiting import NotConvergedError, WaiterFailed
from pytest_kscen.scenario.writes import (
    DELETE,
    Meaning,
    events_of,
    foreign_write_message,
    meaning_of,
    out_of_turn_message,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.models import Operation, PodAttempted
    from pytest_kscen.scenario.participants import Participants
    from pytest_kscen.scenario.progress import Progress
    from pytest_kscen.scenario.waiting import ControllerWaiter, Convergence
    from pytest_kscen.scenario.writes import Write


def changed(new: Obj, old: Obj) -> str:
    """Return the constant parts that differ between two versions, in words; empty if none does."""
    before = _constant(old)
    return " and ".join(what for what, value in _constant(new).items() if value != before[what])


def _constant(scenario: Obj) -> dict[str, Any]:
    return {
        "the scheduler's configuration": configuration_of(scenario),
        "the scenario's controllers": read(Controllers, scenario["spec"].get("controllers")),
    }


TURN_PHASES = (OPERATING_COMPLETED, CONTROLLER_RUNNING, CONTROLLER_PAUSED, CONTROLLER_COMPLETED)
MOST_STEPS = 100_000
"""Minor steps that one controller may make in one major step."""


class ScenarioFailed(Exception):
    """Report that a scenario cannot continue, with the reason; raised inside the execution, which
    turns it into the phase Failed.
    """


@dataclass(eq=False)
class ScenarioExecution:
    """Execution of one Scenario: its operations by step, its controllers one at a time, its
    writes as timeline events.
    """

    progress: Progress
    convergence: Convergence
    participants: Participants
    spec: ScenarioSpec
    patience: float
    configuration: str = ""
    """Configuration of the scheduler; empty for the cluster's own."""
    _done: dict[str, Operation] = field(default_factory=dict)
    _deleted: set[str] = field(default_factory=set)
    _ignored: set[str] = field(default_factory=set)
    _minor_steps: int = 0
    """Minor steps whose writes the server accepted."""
    _failure: str = ""
    _begun: bool = False
    _original: Obj | None = None
    """Scenario at its start."""
    _changed_by: str = ""
    """Writer that last changed the configuration or the controllers."""
    _generation: int = 0
    _spec_changed: asyncio.Event = field(default_factory=asyncio.Event)

    # --- calls from outside ---

    def update(self, scenario: Obj) -> None:
        """Adopt a new version of the Scenario: operations may be added while it runs; a change of
        its controllers or its configuration fails it.
        """
        self._original = self._original or scenario
        if what := changed(scenario, self._original):
            writer = self._changed_by or "another client"
            self.give_up(f"{writer} changed {what} while the scenario was running")
        self.spec = read(ScenarioSpec, scenario["spec"])
        self._generation = scenario["metadata"]["generation"]
        self._spec_changed.set()

    def give_up(self, why: str) -> None:
        """Fail the scenario for this reason, as soon as the running wait or step ends; the first
        reason counts.
        """
        self._failure = self._failure or why
        self._spec_changed.set()
        self.convergence.wake()

    async def admit_write(self, write: Write) -> None:
        """Classify a write that admission has received, and record it; the write is allowed when
        this returns, and may have failed the scenario.
        """
        if (
            write.uid == self.progress.uid
            and write.new
            and write.old
            and not write.subresource
            and changed(write.new, write.old)
        ):
            self._changed_by = write.author
        if not self._begun or self.progress.phase not in ON or write.is_dry:
            return
        if write.is_eviction:
            write = replace(
                write,
                verb=DELETE,
                subresource="",
                new=None,
                old=self.convergence.cached(PODS, write.ref),
            )
        meaning = meaning_of(write, self.participants.simulated, self.participants.known)
        if meaning is Meaning.FOREIGN:
            self.give_up(foreign_write_message(write))
        elif self._repeats_deletion(write) or self._binds_replaced_pod(write):
            return
        elif meaning is Meaning.STEP and not self._has_turn(write.author):
            self.give_up(out_of_turn_message(write, self.progress.step))
        elif meaning is Meaning.STEP:
            await self._record_step(write)
        elif meaning is Meaning.REACTION or (
            meaning is Meaning.RESULT and not self.participants.reports_attempts
        ):
            self._record_events(write)

    def _has_turn(self, name: str) -> bool:
        """Return True if it is the controller's turn, or its turn has just ended within a loop.

        Before the first operation every controller may end its loop.
        """
        step = self.progress.step
        return (
            not self._done
            or name in self.participants.register.partly_gated
            or (step.running == name and step.phase in TURN_PHASES)
        )

    async def _record_step(self, write: Write) -> None:
        """Record the write before it is done; the record is withdrawn if the server refuses the
        write later.
        """
        events: list[str] = []

        def withdraw() -> None:
            self._minor_steps -= 1
            self._deleted.discard(write.uid)
            for each in events:
                self.progress.withdraw_event(each)

        self._minor_steps += 1
        expected = self.convergence.expect(
            write.resource, write.ref, write.has_come, withdraw, is_admitted=False
        )
        try:
            step = self.progress.next_minor(
                CONTROLLER_PAUSED if self.progress.step.running else self.progress.step.phase
            )
            events += self._record_events(write)
            await step
            self.convergence.wake()
        finally:
            if expected:
                self.convergence.mark_admitted(expected)

    def _record_events(self, write: Write) -> list[str]:
        return [self.progress.record_event(**event) for event in events_of(write)]

    def _repeats_deletion(self, write: Write) -> bool:
        """Return True for a repeated deletion: a server that retries calls admission twice, and so
        does an eviction.
        """
        if write.verb != DELETE or not write.uid:
            return False
        repeated = write.uid in self._deleted
        self._deleted.add(write.uid)
        return repeated

    def _binds_replaced_pod(self, write: Write) -> bool:
        """Return True for a binding of a deleted pod whose name a newer pod has; the API refuses
        it.
        """
        uid = ((write.new or {}).get("metadata") or {}).get("uid") if write.is_binding else None
        pod = self.convergence.cached(PODS, write.ref) if uid else None
        return pod is not None and pod["metadata"]["uid"] != uid

    def attempted(self, attempt: PodAttempted) -> None:
        if self._begun and self.progress.phase in ON:
            self.progress.record_event(controller=SCHEDULER, pod_attempted=attempt)

    # --- life cycle ---

    async def run(self) -> None:
        """Run the scenario until it has succeeded or failed. Any error becomes the phase Failed
        with its message, and none is raised.
        """
        self._attendance.notify = self.convergence.wake
        try:
            self._check()
            await self.progress.set_phase(RUNNING)
            async with self._scheduling():
                await clear(self.progress.api, self.progress.actor.clock)
                await self.convergence.watch(PODS)
                self.participants.forget()
                self._begun = True
                await self._steps()
        except (
            ScenarioFailed,
            ScenarioOperationFailed,
            NotConvergedError,
            NotClearedError,
            WaiterFailed,
        ) as error:
            await self._fail(str(error))
        except ApiError as error:
            await self._fail(f"the API server refuses: {error.message}")
        # nothing that goes wrong in one scenario may end all others
        except Exception as error:  # noqa: BLE001
            await self._fail(repr(error))
        else:
            # Operations whose steps would come after the end.
            left = ", ".join(
                each.id
                for each in self.spec.operations
                if each.id not in {*self._done, *self._ignored}
            )
            words = f"not performed, because doneOperation ended it: {left}" if left else ""
            await self.progress.set_phase(SUCCEEDED, self._add_ignored(words))

    @contextlib.asynccontextmanager
    async def _scheduling(self) -> AsyncIterator[None]:
        """Give the scheduler the scenario's configuration for the block, and restore the cluster's
        afterwards. Raise ScenarioFailed if it is invalid or cannot be applied here.
        """
        scheduling = self.participants.register.scheduling
        if scheduling is None:
            if self.configuration:
                raise ScenarioFailed(
                    "it has a configuration for the scheduler, and this cluster's scheduler cannot "
                    "be configured"
                )
            yield
            return
        try:
            await scheduling.adopt(self.configuration)
        except ValueError as error:
            raise ScenarioFailed(f"the scheduler's configuration is refused: {error}") from None
        try:
            yield
        finally:
            if self.configuration:
                await scheduling.revert()

    async def _fail(self, why: str) -> None:
        major = self.progress.step.step.major
        where = f"step {major}: " if major and f"step {major}" not in why else ""
        await self.progress.set_phase(FAILED, self._add_ignored(f"{where}{why}"))

    def _add_ignored(self, message: str = "") -> str:
        ignored = (
            f"ignored, because their steps are past: {', '.join(sorted(self._ignored))}"
            if self._ignored
            else ""
        )
        return "; ".join(each for each in (message, ignored) if each)

    def _check(self) -> list[Operation]:
        operations = self.spec.operations
        if repeated := [each.id for each in operations if self._done.get(each.id, each) != each]:
            raise ScenarioFailed(
                f"operation {repeated[0]!r} is done, and was changed or replaced afterwards"
            )
        if wrong := [why for _, why in faults(operations)]:
            raise ScenarioFailed("; ".join(wrong))
        if why := self.participants.find_error(self.spec):
            raise ScenarioFailed(why)
        return operations

    async def _steps(self) -> None:
        while True:
            major = self._next_major()
            if major is None:
                # No operation is left, and there was no doneOperation.
                while self._next_major() is None:
                    self._raise_failure()
                    self._spec_changed.clear()
                    await self.progress.set_phase(
                        PAUSED,
                        self._add_ignored(
                            "all operations are done, and none of them is a doneOperation"
                        ),
                    )
                    await self._spec_changed.wait()
                self._raise_failure()
                await self.progress.set_phase(RUNNING)
            elif await self._step(major):
                return

    def _next_major(self) -> int | None:
        """Return the step of the next operations; operations of past steps are dropped with a
        message.
        """
        now, self.progress.generation = self.progress.step.step.major, self._generation
        left = [each for each in self._check() if each.id not in self._done]
        for each in left:
            if each.step <= now and each.id not in self._ignored:
                self._ignored.add(each.id)
                self.progress.actor.note(
                    "scenario-operation-ignored",
                    scenario=self.progress.name,
                    id=each.id,
                    step=each.step,
                )
        return min((each.step for each in left if each.step > now), default=None)

    async def _step(self, major: int) -> bool:
        """Perform one major step; return True if it was the last."""
        operations = [
            each for each in self._check() if each.step == major and each.id not in self._done
        ]
        is_first = not self.progress.step.step.major
        await self.progress.set_step_phase(OPERATING, major=major, running="")
        if is_first:  # held controllers are at their gates before the first operation
            await self._wait_at_gate([*self.participants.simulated, *self.participants.disabled])
            await self._wait_for_reactions()
        is_last = False
        for each in operations:
            self._done[each.id] = each
            result = await do(self.progress.api, each, self.convergence.expect)
            self.progress.record_event(id=each.id, **{each.kinds[0]: result})
            is_last = is_last or each.done is not None
        for name in self.participants.simulated:
            await self._run_turn(self.participants.waiter(name))
        if not self.participants.simulated:
            await self._wait_for_reactions()
        await self.progress.set_step_phase(STEP_COMPLETED)
        await self.progress.write(step_ended=True)
        self._raise_failure()
        return is_last

    async def _run_turn(self, waiter: ControllerWaiter) -> None:
        """Give one simulated controller its turn: minor step after minor step, until it makes no
        more writes.
        """
        clock, steps_before, most = self.progress.actor.clock, -1, self._minor_steps + MOST_STEPS
        end = clock.now() + self.patience
        while True:
            await self._wait_for_reactions()
            if self._minor_steps > most:
                raise ScenarioFailed(
                    f"{waiter.name} has made {MOST_STEPS} minor steps in one turn, the maximum"
                )
            if self._minor_steps != steps_before:
                steps_before, end = self._minor_steps, clock.now() + self.patience
            elif not self.convergence.unfinished([waiter]):
                await self.progress.set_step_phase(CONTROLLER_COMPLETED)
                if await self._returned_to_gate(waiter.name):
                    return
            elif clock.now() >= end:
                raise NotConvergedError(self.convergence.report([waiter], self.patience))
            await self.progress.set_step_phase(OPERATING_COMPLETED, running=waiter.name)
            if not await self._enter_phase(OPERATING_COMPLETED, CONTROLLER_RUNNING):
                continue
            await self._reached([waiter], stops_at_step=True)
            while self.progress.step.phase == CONTROLLER_RUNNING and await self.participants.prompt(
                waiter.name
            ):
                await self._reached([waiter], stops_at_step=True)
            if await self._enter_phase(
                CONTROLLER_RUNNING, CONTROLLER_COMPLETED
            ) and await self._returned_to_gate(waiter.name):
                return

    async def _returned_to_gate(self, name: str) -> bool:
        """Wait until the controller is at its gate, which ends its turn; return False if it has
        made another minor step before.
        """
        await self._wait_at_gate(
            [name], or_when=lambda: self.progress.step.phase != CONTROLLER_COMPLETED
        )
        return self.progress.step.phase == CONTROLLER_COMPLETED

    async def _wait_at_gate(
        self, names: Sequence[str], or_when: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until the controllers that have passed their gate are back at it, as far as that is
        visible. Raise ScenarioFailed after `patience` seconds.
        """

        def absent() -> list[str]:
            return [name for name in names if self._attendance.is_in_loop(name)]

        if not await self.convergence.until(
            lambda: self._failure or or_when() or not absent(), self.patience
        ):
            raise ScenarioFailed(
                f"{', '.join(absent())} has passed its gate, and has not returned to it "
                f"within {self.patience:g} s: "
                "await the gate at the end of each loop, before the controller waits for "
                "anything else"
            )
        self._raise_failure()

    @property
    def _attendance(self) -> GateAttendance:
        return GateAttendance.of(self.progress.actor.clock)

    async def _enter_phase(self, phase: str, following: str) -> bool:
        """Enter the next phase, unless a minor step is made before or while the phase is written.
        Return True if the phase is entered.
        """
        if self.progress.step.phase == phase:
            await self.progress.set_step_phase(following)
        return self.progress.step.phase == following

    async def _wait_for_reactions(self) -> None:
        await self._reached(self.participants.before, stops_at_step=False)

    async def _reached(self, waiters: Sequence[ControllerWaiter], *, stops_at_step: bool) -> None:
        def interrupted() -> bool:
            return bool(self._failure) or (
                stops_at_step and self.progress.step.phase != CONTROLLER_RUNNING
            )

        await self.convergence.reached(waiters, or_when=interrupted, patience=self.patience)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure:
            raise ScenarioFailed(self._failure)
