"""Run the probes of one node or workflow, from its start to its end.

Called by `engine.node_probes`. Any response and any error is an outcome of its probe and does not
stop other probes. Each attempt is written to the journal as `workflow-probe`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.workflow.probes.form import ProbeContext, ProbeOutcome, ProbeVerdict
from pytest_kscen.workflow.probes.probe import (
    AWAITED,
    CONTINUOUS,
    END,
    FAILED,
    ON_CHAOS,
    PASSED,
    START,
    Probe,
    score_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.probes.form import ProbeForm


async def outcome_of(form: ProbeForm, context: ProbeContext, within: float) -> ProbeOutcome:
    """Probe once; an error, or no response `within` these seconds, is a failed outcome."""
    try:
        async with asyncio.timeout(within):
            return await form.ask(context, within)
    except TimeoutError as error:
        return ProbeOutcome(False, str(error) or f"there was no answer within {within:g} s")
    except (ApiError, OSError, ValueError) as error:
        return ProbeOutcome(False, str(error))
    except Exception as error:  # noqa: BLE001  # answers may contain anything
        return ProbeOutcome(False, f"its answer cannot be evaluated: {error!r}")


@dataclass(slots=True)
class _ProbeRecord:
    """Counts and verdict of one probe, for its status."""

    probe: Probe
    count: int = 0
    failures: int = 0
    verdict: str = AWAITED
    message: str = ""
    last: float | None = None

    def shown(self) -> Obj:
        status: Obj = {
            "name": self.probe.name,
            "when": self.probe.when,
            "verdict": self.verdict,
            "weight": self.probe.weight,
        }
        status |= {"count": self.count, "failures": self.failures}
        if self.message:
            status["message"] = self.message
        if self.last is not None:
            status["lastProbeTime"] = timestamp_of(self.last)
        return status

    def resume(self, before: Obj) -> None:
        self.count, self.failures = before.get("count", 0), before.get("failures", 0)
        self.verdict, self.message = before.get("verdict", AWAITED), before.get("message", "")


class ProbeRunner:
    """Runs the probes of one node or workflow, as tasks of the given group.

    `subject` identifies it in the journal: workflow, namespace and, for a node, node. `failed` is
    called once for each Continuous or OnChaos probe that has failed its subject; `judged` after
    every other change of a verdict. `before` are results of a previous engine, and `owner` is the
    owner reference of the pods that are created.
    """

    def __init__(
        self,
        actor: Actor,
        probes: Sequence[Probe],
        subject: dict[str, str],
        failed: Callable[[Probe, str], None],
        *,
        judged: Callable[[], None] = lambda: None,
        group: asyncio.TaskGroup | None = None,
        owner: Obj | None = None,
        before: Iterable[Obj] = (),
    ) -> None:
        self._actor = actor
        self._subject = subject
        self._failed = failed
        self._judged = judged
        self._group = group
        self._context = ProbeContext(actor, subject, owner)
        self._records = {probe.name: _ProbeRecord(probe) for probe in probes}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {CONTINUOUS: [], ON_CHAOS: []}
        self._is_over = False
        for result in before:
            if record := self._records.get(result.get("name", "")):
                record.resume(result)

    async def at_start(self) -> list[ProbeVerdict]:
        runs = (self._run_once(START, probe) for probe in self._probes if probe.runs_at_start)
        return list(await asyncio.gather(*runs))

    def begin_continuous(self) -> None:
        self._begin(CONTINUOUS)

    def chaos_is_on(self, on: bool) -> None:  # noqa: FBT001  # its only argument
        if not on:
            self._end(ON_CHAOS)
        elif not self._tasks[ON_CHAOS]:
            self._begin(ON_CHAOS)

    async def at_end(self) -> list[ProbeVerdict]:
        """Stop the repeated probes and run the End probes; return their verdicts."""
        await self.stop()
        runs = (self._run_once(END, probe) for probe in self._probes if probe.runs_at_end)
        return list(await asyncio.gather(*runs))

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel the repeated probes for good; return their tasks, which may still have to end."""
        self._is_over = True
        return [*self._end(CONTINUOUS), *self._end(ON_CHAOS)]

    async def stop(self) -> None:
        for outcome in await asyncio.gather(*self.close(), return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    @property
    def results(self) -> list[Obj]:
        return [record.shown() for record in self._records.values()]

    @property
    def score(self) -> float | None:
        return score_of(self.results)

    @property
    def _probes(self) -> list[Probe]:
        return [record.probe for record in self._records.values()]

    # --- Start and End probes ---

    async def _run_once(self, moment: str, probe: Probe) -> ProbeVerdict:
        """Run a Start or End probe until it passes, as often as its failure threshold allows."""
        await self._sleep(probe.initial_delay)
        for attempt in range(1, probe.failure_threshold + 1):
            began = self._actor.clock.now()
            outcome = await self._ask(moment, probe, attempt)
            if outcome.passed:
                break
            if attempt < probe.failure_threshold:
                await self._sleep(began + probe.interval - self._actor.clock.now())
        self._set_verdict(probe, outcome)
        return ProbeVerdict(probe, outcome.passed, outcome.message)

    # --- Continuous and OnChaos probes ---

    def _begin(self, moment: str) -> None:
        if self._is_over:
            return
        begin = (self._group or asyncio.get_running_loop()).create_task
        self._tasks[moment] = [
            begin(self._repeat(moment, probe), name=f"probe {probe.name} of {self._context.of}")
            for probe in self._probes
            if probe.when == moment
        ]

    def _end(self, moment: str) -> list[asyncio.Task[None]]:
        tasks, self._tasks[moment] = self._tasks[moment], []
        for task in tasks:
            task.cancel()
        return tasks

    async def _repeat(self, moment: str, probe: Probe) -> None:
        await self._sleep(probe.initial_delay)
        in_a_row = attempt = 0
        while True:
            began = self._actor.clock.now()
            attempt += 1
            outcome = await self._ask(moment, probe, attempt)
            in_a_row = 0 if outcome.passed else in_a_row + 1
            is_new = (outcome.passed or in_a_row == probe.failure_threshold) and self._set_verdict(
                probe, outcome
            )
            if in_a_row == probe.failure_threshold and probe.stop_on_failure:
                self._failed(probe, outcome.message)
                return
            if is_new:
                self._judged()
            await self._sleep(began + probe.interval - self._actor.clock.now())

    # --- one attempt ---

    async def _ask(self, moment: str, probe: Probe, attempt: int) -> ProbeOutcome:
        outcome = await outcome_of(probe.form, self._context, probe.timeout)
        record = self._records[probe.name]
        record.count += 1
        record.failures += not outcome.passed
        record.last = self._actor.clock.now()
        note = {
            "probe": probe.name,
            "when": moment,
            "passed": outcome.passed,
            "message": outcome.message,
            "attempt": attempt,
        }
        self._actor.note("workflow-probe", **self._subject, **note)
        return outcome

    def _set_verdict(self, probe: Probe, outcome: ProbeOutcome) -> bool:
        """Set the verdict of a probe, and return whether it has changed. A failed verdict stays
        failed, whatever later attempts give.
        """
        record = self._records[probe.name]
        before = record.verdict
        if before != FAILED:
            record.verdict, record.message = (PASSED if outcome.passed else FAILED), outcome.message
        return record.verdict != before

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            await self._actor.clock.sleep(seconds)
