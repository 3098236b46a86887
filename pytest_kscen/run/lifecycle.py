"""Life cycle of a run: `RunLifecycle` walks the table of `phases`.

`context.Run` drives it with Ctrl-C, crashes and the test's calls. A phase gives its row's signals,
runs its row's step, and may write the journal entries that its row lists and no others. Nothing
here may import pytest or a cluster.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from pytest_kscen.chaos.cleanup import clear_after, clear_before
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.judge.start_and_end import CLUSTER
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.megatest.view import RunState, run_until
from pytest_kscen.megatest.volume import clear_volumes, multivolume
from pytest_kscen.run.chaos_lease import ChaosLease
from pytest_kscen.run.cleanup import leftovers, unrecovered_volumes
from pytest_kscen.run.phases import (
    INTERRUPTIONS,
    PATIENCE,
    PHASES,
    SHORT_PATIENCE,
    Interruption,
    Phase,
    PhaseSteps,
)
from pytest_kscen.run.preflight import preflight, warn_of_foreign_volumes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.journal import JournalLost
    from pytest_kscen.kube.actor import RunContext
    from pytest_kscen.run.plan import Plan


class Companion(Protocol):
    """Part of a run that the test brought in besides its plan, as applied objects."""

    async def heal(self) -> None:
        """Undo what disturbs the cluster."""

    async def clear(self) -> None:
        """Delete everything that was made."""


class RunLifecycle(PhaseSteps):
    """Life cycle of one run: its phase, its signals and its tasks.

    Owned by `context.Run`, which calls `start`, then `wait` as often as the test lets time pass,
    then `end`. All tasks that act for the run are started here, so that a crash of any ends it.
    """

    def __init__(self, context: RunContext, plan: Plan) -> None:
        self.context = context
        self.plan = plan
        self.phase = Phase.PREPARED
        self.passed = [Phase.PREPARED]
        """Phases that were entered, in their order."""
        self.state = RunState()
        self.lease = ChaosLease(context, self.start_task)
        self.incidents: list[Incident] = []
        """Faults that the test caused itself."""
        self.companions: list[Companion] = []
        self.interrupted = False
        """Set by Ctrl-C and SIGTERM; a crash stops a run as well, and does not set it."""
        self._director = context.actor("run")
        self._duration: float | None = None
        self._on_started: Callable[[], object] = lambda: None
        self._crash: BaseException | None = None
        self._ending: asyncio.Task[Any] | None = None
        self._chaos: list[asyncio.Task[Any]] = []
        self._others: list[asyncio.Task[Any]] = []

    # --- Walking the table ---

    async def start(self, duration: float | None, on_started: Callable[[], object]) -> None:
        """Walk to the phase `active`; call `on_started` once nothing refuses the run.

        After an error call `refuse`: it may have come amid the walk.
        """
        self._duration, self._on_started = duration, on_started
        while self.phase is not Phase.ACTIVE:
            follows = PHASES[self.phase].next
            if follows is None:
                raise RuntimeError(f"a run in the phase {self.phase.value!r} cannot be started")
            await self._enter(follows)

    async def refuse(self) -> None:
        """Enter the phase that the table has for a refusal in the present one, if it has any."""
        if follows := PHASES[self.phase].on_refusal:
            await self._enter(follows)

    async def end(self) -> None:
        """Walk to the phase `over`, then raise the first crash of the run, if there was one.

        A step that raises is recorded as failed, and its row's `on_error` follows. A call that is
        cancelled stops at once: call `resume_end` after it.
        """
        await self._end_after(PHASES[self.phase].next)

    async def resume_end(self, error: BaseException) -> None:
        """Walk to the phase `over` after `error` broke off the task of `end` from outside.

        After a crash of the cluster nothing can be deleted: only the lease is released.
        """
        if self._ending:
            await asyncio.wait((self._ending,))
        if isinstance(error, ActorCrashedError):
            await self._end_after(Phase.RELEASED)
        else:
            await self._end_after(self._phase_after(error))

    async def _end_after(self, follows: Phase | None) -> None:
        self._ending = asyncio.current_task()
        while follows:
            try:
                await self._enter(follows)
                follows = PHASES[self.phase].next
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                follows = self._phase_after(error)
                if follows is None:
                    raise
        self.raise_crash()

    def _phase_after(self, error: BaseException) -> Phase | None:
        """Record that the present phase failed; return the phase that follows."""
        self._interrupt(Interruption.FAILED_STEP, self.phase.value, error)
        return PHASES[self.phase].on_error

    async def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.passed.append(phase)
        row = PHASES[phase]
        self._give(row.signals)
        if row.step:
            await row.step(self)

    def _give(self, signals: tuple[str, ...]) -> None:
        for name in signals:
            getattr(self.state, name).give()

    def record(self, entry: str, **data: Any) -> None:
        """Write a journal entry that the present phase's row lists."""
        if entry not in PHASES[self.phase].records:
            raise RuntimeError(f"the phase {self.phase.value} writes no entry {entry!r}")
        self._director.note(entry, **data)

    # --- Interruptions ---

    def stop(self) -> bool:
        """End the run before its time, at the first Ctrl-C; return False if it is over already."""
        accepted = self._interrupt(Interruption.STOP)
        self.interrupted |= accepted
        return accepted

    def hurry(self) -> bool:
        """Leave volumes behind, but undo all faults, at the second Ctrl-C.

        Return False if the run is over already.
        """
        return self._interrupt(Interruption.HURRY)

    def cluster_crashed(self, crash: ActorCrashedError) -> None:
        """End the run: an actor of the cluster crashed, and nothing that follows is meaningful."""
        self._interrupt(Interruption.CLUSTER_CRASH, CLUSTER, crash)

    def journal_lost(self, lost: JournalLost) -> None:
        """End the run: its journal can no longer be written."""
        self._interrupt(Interruption.LOST_JOURNAL, "journal", lost)

    def _interrupt(
        self, kind: Interruption, actor: str = "", error: BaseException | None = None
    ) -> bool:
        """Record an interruption and give its signals; return False if the phase refuses it."""
        if kind not in PHASES[self.phase].interrupted_by:
            return False
        row = INTERRUPTIONS[kind]
        if row.raised and error:
            self._crash = self._crash or error
            self._director.note(row.records, component=actor, error=repr(error))
            self._director.log(logging.ERROR, "crashed", component=actor, error=repr(error))
        else:
            self._director.note(row.records)
        self._give(row.signals)
        return True

    @property
    def is_running(self) -> bool:
        """True until the run is interrupted or something of it has crashed."""
        return not self.state.stop_requested.given

    def raise_crash(self) -> None:
        if self._crash:
            raise self._crash

    # --- Tasks ---

    def start_actor(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        """Start an actor that ends by itself in the phase `cleanup`, which waits for it."""
        self._others.append(self.start_task(coroutine, name))

    def start_task(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task that its caller ends; a crash ends the run.

        API errors end no actor. An exception that does is a defect of the harness.
        """
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()):
            if not isinstance(error, Exception):
                raise error
            self._interrupt(Interruption.ACTOR_CRASH, task.get_name(), error)

    # --- Steps of the phases, in their order ---

    async def wait(self, seconds: float) -> None:
        """Let this much time pass in the phase `active`, less if the run is stopped meanwhile."""
        if self.is_running:
            await self.state.stop_requested.within(seconds)

    async def check(self) -> None:
        self.record(
            "run-started",
            seed=self.context.chance.seed,
            duration=self._duration,
            label=f"{RUN_LABEL}={self.context.run_id}",
            churn=self.plan.churn is not None,
            chaos=self.plan.declared,
            conditions=list(self.context.health.conditions),
            link_profiles=[each.name for each in self.plan.profiles if each.cuts_links],
        )
        await preflight(self.context, self.plan)
        if not self.context.owned:
            await warn_of_foreign_volumes(self.context)

    def _may_cause_faults(self) -> bool:
        """Return True if the plan has chaos, or the test may cause faults that no plan lists."""
        return bool(self.plan.declared or self.context.parent)

    async def claim_lease(self) -> None:
        if self._may_cause_faults():
            await self.claim()

    async def claim(self) -> None:
        """Claim the chaos lease; called again before a fault of a run that has no chaos planned."""
        await self.lease.claim(self.state.stop_requested)

    async def start_actors(self) -> None:
        """Start reports, then the plan's actors: a run that was stopped meanwhile has none."""
        self._on_started()
        if not self.is_running:
            return
        if self._may_cause_faults():
            await clear_before(self.context, everything=bool(self.plan.chaos))
        if self.plan.churn:
            self.start_actor(multivolume(self.context, self.plan.churn, self.state), "multivolume")
        for profile in self.plan.chaos:
            run = profile.run(self.context, self.state.chaos_stopped)
            self._chaos.append(self.start_task(run, profile.name))

    async def cancel_start(self) -> None:
        begun = [*self._chaos, *self._others]
        for task in begun:
            task.cancel()
        if begun:
            await asyncio.wait(begun)
        await self.lease.release()

    async def freeze(self) -> None:
        for incident in self._lasting_incidents():
            self.record("incident-lasting", incident=incident.id)
        self.record("frozen")

    async def heal(self) -> None:
        if chaos := [*self._chaos, *self.state.chaos_tasks]:
            await asyncio.wait(chaos)
        for companion in self.companions:
            await self._attempt(f"healing {companion}", companion.heal())
        self.record("healed")

    async def judge_liveness(self) -> None:
        """Wait for the volumes that are left; a hurried run does not, and liveness is unknown."""

        async def judge() -> None:
            late = await run_until(
                self.state.volumes_abandoned,
                unrecovered_volumes(self.context, self.state.deadline_of),
            )
            if late is not None:
                self.record("liveness", late=late)

        await self._attempt("liveness", judge())

    async def undo_lasting_faults(self) -> None:
        for incident in reversed(self._lasting_incidents()):
            await self._attempt(f"end of {incident.id}", incident.end())

    def _lasting_incidents(self) -> list[Incident]:
        return [incident for incident in self.incidents if incident.is_on]

    async def clean_up(self) -> None:
        if healing := [task for task in self._chaos if not task.done()]:  # `heal` broke off
            await asyncio.wait(healing)
        if self._others:
            await asyncio.wait(self._others)
        if self._may_cause_faults() or Observer.is_in(self.context):
            await run_until(self.state.volumes_abandoned, Observer.of(self.context).settle())
            await self._attempt("clearing chaos away", clear_after(self.context))
        for companion in reversed(self.companions):
            await self._attempt(f"clearing {companion} away", companion.clear())
        if self._crash and not self.state.volumes_abandoned.given:
            await self._attempt("clearing volumes away", clear_volumes(self.context))

    async def find_leftovers(self) -> None:
        async def find() -> None:
            patience = SHORT_PATIENCE if self.state.volumes_abandoned.given else PATIENCE
            found = await leftovers(self.context, self._director, patience)
            self.record("leftovers", objects=found)

        await self._attempt("looking for leftovers", find())

    async def release_lease(self) -> None:
        await self.lease.release()

    async def finish(self) -> None:
        self.record("run-ended")

    async def _attempt(self, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do one part of a step; an exception is recorded, and raised when the run is over.

        A phase that refuses the interruption passes the exception on at once.
        """
        try:
            await coroutine
        except Exception as error:
            if not self._interrupt(Interruption.FAILED_STEP, name, error):
                raise
