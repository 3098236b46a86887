"""Table of a run's phases, and of what may interrupt them.

`PHASES` has one row per phase and `INTERRUPTIONS` one per interruption; `lifecycle.RunLifecycle`
walks them. `python -m pytest_kscen.run.phases` prints both tables and their drawing for
docs/run-life-cycle.md. The table imports no other module of the package.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping


RECOVERY = 300.0  # seconds of cluster time within which volumes have to be ready again
PATIENCE, SHORT_PATIENCE = 120.0, 5.0  # seconds to wait for deleted objects


class Phase(Enum):
    """Phase of a run; a run is in one at a time."""

    PREPARED = "prepared"
    PREFLIGHT = "preflight"
    LEASE = "lease"
    STARTING = "starting"
    ACTIVE = "active"
    FROZEN = "frozen"
    HEALING = "healing"
    LIVENESS = "liveness"
    UNDOING = "undoing"
    CLEANUP = "cleanup"
    LEFTOVERS = "leftovers"
    RELEASED = "released"
    OVER = "over"
    REFUSED = "refused"


class Interruption(Enum):
    """Event that may come at any moment of a phase that lists it."""

    STOP = "first Ctrl-C or SIGTERM"
    HURRY = "second Ctrl-C or SIGTERM"
    ACTOR_CRASH = "crash of an actor of the run"
    CLUSTER_CRASH = "crash of an actor of the cluster"
    LOST_JOURNAL = "lost journal"
    FAILED_STEP = "failure of one step of a phase"


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """Row of the table of phases.

    Strings are for the drawing and the docs; all other columns are executed.
    """

    entered: str
    """Condition under which the phase is entered."""
    acts: str
    """Actors and actions of the phase."""
    next: Phase | None
    """Phase that follows when the step is done."""
    step: Callable[[PhaseSteps], Awaitable[None]] | None = None
    signals: tuple[str, ...] = ()
    """Signals of `RunState` that are given on entry, before the step."""
    records: tuple[str, ...] = ()
    """Entries that the step may write as the actor `run`."""
    interrupted_by: tuple[Interruption, ...] = ()
    """Interruptions that are recorded and have an effect; others change nothing."""
    on_error: Phase | None = None
    """Phase that follows an error while the run ends, of the step or from outside."""
    on_refusal: Phase | None = None
    """Phase that follows an error before the test has the run."""


@dataclass(frozen=True, slots=True)
class InterruptionRow:
    """Row of the table of interruptions."""

    records: str
    """Journal entry, written when it comes."""
    signals: tuple[str, ...]
    """Signals of `RunState` that it gives."""
    effect: str
    """Effect on the phase, for the docs."""
    raised: bool = False
    """Raise the error to the test when the run is over, unless an earlier one is raised."""


class PhaseSteps(Protocol):
    """Steps of the phases, in their order; `lifecycle.RunLifecycle` carries them out."""

    async def check(self) -> None: ...
    async def claim_lease(self) -> None: ...
    async def start_actors(self) -> None: ...
    async def freeze(self) -> None: ...
    async def heal(self) -> None: ...
    async def judge_liveness(self) -> None: ...
    async def undo_lasting_faults(self) -> None: ...
    async def clean_up(self) -> None: ...
    async def find_leftovers(self) -> None: ...
    async def release_lease(self) -> None: ...
    async def finish(self) -> None: ...
    async def cancel_start(self) -> None: ...


CRASHES = (Interruption.ACTOR_CRASH, Interruption.CLUSTER_CRASH, Interruption.LOST_JOURNAL)
WHILE_STARTING = (Interruption.STOP, Interruption.HURRY, *CRASHES)
WHILE_ENDING = (*WHILE_STARTING, Interruption.FAILED_STEP)

_starting = functools.partial(PhaseRow, interrupted_by=WHILE_STARTING, on_refusal=Phase.REFUSED)


def _ending(
    entered: str,
    acts: str,
    step: Callable[[PhaseSteps], Awaitable[None]],
    next: Phase,
    *,
    on_error: Phase | None = None,
    signals: tuple[str, ...] = (),
    records: tuple[str, ...] = (),
) -> PhaseRow:
    """Return the row of a phase that ends the run: an error skips no later phase, by default."""
    return PhaseRow(entered, acts, next, step, signals, records, WHILE_ENDING, on_error or next)


PHASES: Mapping[Phase, PhaseRow] = {
    Phase.PREPARED: PhaseRow(
        "the run is made", "none", next=Phase.PREFLIGHT, interrupted_by=WHILE_STARTING
    ),
    Phase.PREFLIGHT: _starting(
        "the run is entered",
        "checks of the cluster, read only",
        step=lambda run: run.check(),
        records=("run-started",),
        next=Phase.LEASE,
    ),
    Phase.LEASE: _starting(
        "all checks passed",
        "the chaos lease is claimed, if the run may cause faults",
        step=lambda run: run.claim_lease(),
        next=Phase.STARTING,
    ),
    Phase.STARTING: _starting(
        "the lease is held, or a stop was requested while it was awaited",
        "reports start; chaos of earlier runs is removed; churn and chaos start",
        step=lambda run: run.start_actors(),
        next=Phase.ACTIVE,
    ),
    Phase.ACTIVE: _starting(
        "all actors are started",
        "churn, chaos profiles, the test",
        next=Phase.FROZEN,
        on_error=Phase.FROZEN,
    ),
    Phase.FROZEN: _ending(
        "the time is up, the test leaves its block, or a stop was requested",
        "churn makes no volume; health is counted no more",
        signals=("counters_frozen",),
        step=lambda run: run.freeze(),
        records=("incident-lasting", "frozen"),
        next=Phase.HEALING,
    ),
    Phase.HEALING: _ending(
        "counters are frozen",
        "chaos profiles undo their faults; workflows are aborted",
        signals=("chaos_stopped",),
        step=lambda run: run.heal(),
        records=("healed",),
        next=Phase.LIVENESS,
        on_error=Phase.UNDOING,
    ),
    Phase.LIVENESS: _ending(
        "all faults of the plan are undone",
        f"volumes have {RECOVERY:.0f} s, or the rest of their own time, to become ready",
        step=lambda run: run.judge_liveness(),
        records=("liveness",),
        next=Phase.UNDOING,
    ),
    Phase.UNDOING: _ending(
        "liveness is judged, or volumes are abandoned",
        "faults that the test left on are undone, the newest first",
        step=lambda run: run.undo_lasting_faults(),
        next=Phase.CLEANUP,
    ),
    Phase.CLEANUP: _ending(
        "faults were undone, or failed to be",
        "volumes, chaos objects and applied objects are deleted",
        signals=("cleanup_started",),
        step=lambda run: run.clean_up(),
        next=Phase.LEFTOVERS,
    ),
    Phase.LEFTOVERS: _ending(
        "everything was deleted, or failed to be",
        f"objects with the run's label are listed until there are none, {PATIENCE:.0f} s at most",
        step=lambda run: run.find_leftovers(),
        records=("leftovers",),
        next=Phase.RELEASED,
    ),
    Phase.RELEASED: _ending(
        "leftovers are listed",
        "the chaos lease is released",
        step=lambda run: run.release_lease(),
        next=Phase.OVER,
    ),
    Phase.OVER: PhaseRow(
        "the lease is released",
        "the journal is judged and reported; the first crash is raised",
        step=lambda run: run.finish(),
        records=("run-ended",),
        interrupted_by=CRASHES,
        next=None,
    ),
    Phase.REFUSED: PhaseRow(
        "an error before the test has the run",
        "tasks are cancelled; the lease is released; the error is raised",
        step=lambda run: run.cancel_start(),
        interrupted_by=CRASHES,
        next=None,
    ),
}
"""Phases in their order. The table is executed: `lifecycle.RunLifecycle` walks it."""

STOPPED = ("stop_requested",)
INTERRUPTIONS: Mapping[Interruption, InterruptionRow] = {
    Interruption.STOP: InterruptionRow(
        "stopped-early", STOPPED, "waiting ends; the run goes on with its next phases"
    ),
    Interruption.HURRY: InterruptionRow(
        "volumes-abandoned",
        ("volumes_abandoned",),
        "volumes are kept and not waited for; faults are still undone",
    ),
    Interruption.ACTOR_CRASH: InterruptionRow("crashed", STOPPED, "as a first Ctrl-C", raised=True),
    Interruption.CLUSTER_CRASH: InterruptionRow(
        "crashed",
        STOPPED,
        "as a first Ctrl-C; a run that is ending only releases the lease",
        raised=True,
    ),
    Interruption.LOST_JOURNAL: InterruptionRow(
        "crashed", STOPPED, "as a first Ctrl-C; the verdict is unknown", raised=True
    ),
    Interruption.FAILED_STEP: InterruptionRow(
        "crashed", (), "all other parts of the step, and later phases, are still done", raised=True
    ),
}
"""Interruptions and their effects. The table is executed: `lifecycle.RunLifecycle` walks it."""


def drawing() -> str:
    """Return both tables and a Mermaid drawing of them, as docs/run-life-cycle.md has them."""
    return "\n".join(_drawing_lines())


def _drawing_lines() -> Iterator[str]:
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {Phase.PREPARED.value}"
    for phase, row in PHASES.items():
        if row.next:
            yield f"    {phase.value} --> {row.next.value}"
        else:
            yield f"    {phase.value} --> [*]"
        if row.on_error and row.on_error is not row.next:
            yield f"    {phase.value} --> {row.on_error.value}: error"
        if row.on_refusal:
            yield f"    {phase.value} --> {row.on_refusal.value}: refusal"
    yield "```"
    yield ""
    yield (
        "| Phase | Entered when | Acts | Signals given | Journal entries | Next | On error "
        "| On refusal |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for phase, row in PHASES.items():
        yield _row(
            phase.value,
            row.entered,
            row.acts,
            _code(row.signals),
            _code(row.records),
            row.next.value if row.next else "",
            row.on_error.value if row.on_error else "",
            row.on_refusal.value if row.on_refusal else "",
        )
    yield ""
    yield _row(
        "Interruption", "Phases", "Journal entry", "Signals given", "Effect", "Raised at the end"
    )
    yield "|---|---|---|---|---|---|"
    for kind, effect in INTERRUPTIONS.items():
        phases = [phase.value for phase, row in PHASES.items() if kind in row.interrupted_by]
        yield _row(
            kind.value,
            f"{phases[0]} to {phases[-1]}",
            _code((effect.records,)),
            _code(effect.signals),
            effect.effect,
            "yes" if effect.raised else "no",
        )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(f"{drawing()}\n")
