"""Incidents: the life of one fault (target, cause, effect, end, recovery), its API answers, and
the loop that repeats incidents.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from pytest_kscen.chaos.clients import (
    INCIDENT,
    TYPE,
    ClusterClients,
    FaultImpossible,
    delete_same_name,
)
from pytest_kscen.chaos.observer import Observer
from pytest_kscen.chaos.troubles import NOWHERE, ExplanatoryPower
from pytest_kscen.kube.retrying import may_be_done
from pytest_kscen.objects.errors import ApiError, NotFound

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Container,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from pytest_kscen.chance import Stream
    from pytest_kscen.chaos.troubles import Reach
    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Actor, RunContext, RunJournal
    from pytest_kscen.objects.resources import Obj, Resource


@dataclass(slots=True)
class FaultAnswers:
    """Answers of the API to an incident's requests, by part; a fault of one part uses ""."""

    yes: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Record the answer to the request for this part, which the caller makes inside."""
        try:
            yield
        except BaseException as error:
            if may_be_done(error):
                self.lost.append(part)
            raise
        self.yes.append(part)

    def found(self) -> None:
        """Record the parts without an answer as done: their objects were found."""
        self.yes += self.lost
        self.lost.clear()

    def never(self, parts: Container[str]) -> None:
        """Record that these parts were not done; other parts without an answer remain unknown."""
        self.lost = [part for part in self.lost if part not in parts]

    def nothing(self) -> None:
        """Record that no part was done."""
        self.yes.clear()
        self.lost.clear()

    def __contains__(self, part: object) -> bool:
        """Return True if this part was done, or may have been."""
        return part in self.yes or part in self.lost

    def __bool__(self) -> bool:
        return bool(self.yes or self.lost)


T = TypeVar("T")

UNDO_TIMEOUT = 900.0  # seconds of trying to undo a fault
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 80.0  # seconds between two attempts
EXPECTED_ERRORS = (FaultImpossible, ApiError, OSError, TimeoutError)
"""Errors of the cluster and of its network, as opposed to defects of a fault's code."""


class Fault(Protocol):
    """Fault that can be injected into a cluster and undone."""

    @property
    def profile(self) -> str: ...

    @property
    def variant(self) -> str: ...

    @property
    def targets(self) -> Mapping[str, Sequence[str]]:
        """Names of its targets by kind: always nodes; vms, volumes, pods, ports if it has any."""

    @property
    def reach(self) -> Reach:
        """Troubles that it may cause."""

    @property
    def passes(self) -> bool:
        """True if it ends by itself: `heal` then waits for the end."""

    async def aim(self, clients: ClusterClients) -> Fault:
        """Return the fault with its targets read from the cluster.

        Raises FaultImpossible, with the missing part in its message.
        """

    async def inject(self, incident: Incident) -> None:
        """Request the fault, with the answers recorded in `incident.answers`."""

    async def heal(self, incident: Incident) -> None:
        """Undo the fault and verify that; called again if it raises an expected error."""


@dataclass(slots=True, eq=False)
class Incident:
    """Fault that is or was active. Times are seconds since the run began."""

    fault: Fault
    clients: ClusterClients
    journal: RunJournal
    observer: Observer
    id: str
    started_at: float = 0.0
    removed_at: float | None = None
    recovered_at: float | None = None
    effects: list[str] = field(default_factory=list)
    answers: FaultAnswers = field(default_factory=FaultAnswers)
    parts_done: list[str] = field(default_factory=list)
    """Parts that are undone and reported, of a fault with several."""
    done: bool = False
    """True if the responsible controller has reported success."""
    _ending: asyncio.Task[None] | None = None

    @property
    def profile(self) -> str:
        return self.fault.profile

    @property
    def variant(self) -> str:
        return self.fault.variant

    @property
    def targets(self) -> Mapping[str, Sequence[str]]:
        return self.fault.targets

    @property
    def had_effect(self) -> bool:
        return bool(self.effects)

    @property
    def is_on(self) -> bool:
        return self.removed_at is None

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every object that it creates."""
        return {TYPE: self.variant, INCIDENT: self.id, **self.clients.nested.labels}

    def note(self, what: str, **data: Any) -> None:
        self.clients.nested.note(what, incident=self.id, **data)

    def has_effect(self, what: str, volume: str = "") -> None:
        """Report an effect, on this volume if one is given."""
        self.effects.append(what)
        self.note("incident-effect", effect=what, **({"volume": volume} if volume else {}))

    def may_have_effect(self, what: str, volume: str = "") -> None:
        """Report a possible effect, for which there is no proof."""
        self.note("incident-possible-effect", effect=what, **({"volume": volume} if volume else {}))

    def was_done(self, what: str) -> None:
        """Record that the responsible controller has reported success."""
        self.done = True
        self.observer.mark_active(self)
        self.has_effect(what)

    async def put(self, actor: Actor, resource: Resource, obj: Obj, part: str = "") -> None:
        """Create the object that causes the fault or one part of it, and record the answer."""
        await delete_same_name(actor, resource, obj)
        with self.answers.of(part):
            await actor.api.create(resource, obj)
        self.reaches(self.fault.reach)

    async def look_for(self, actor: Actor, resource: Resource, name: str, namespace: str) -> None:
        """Check if the object exists, if the answer to its creation was lost."""
        if self.answers.lost:
            try:
                await actor.api.get(resource, name, namespace)
            except NotFound:
                self.answers.nothing()
            else:
                self.answers.found()
                self.reaches(self.fault.reach)

    def reaches(self, reach: Reach) -> None:
        """Set the troubles that the observer may attribute to this incident from now on."""
        self.observer.reaches(self, reach)

    def refused(self, nodes: Iterable[str]) -> None:
        """Report targets on which the fault was not injected."""
        if refused := sorted(nodes):
            self.note("incident-refused", nodes=refused)

    def recovered(self, at: float) -> None:
        """Report the recovery: no affected object has been in trouble since `at`."""
        self.recovered_at = at
        self.note("incident-recovered", took=round(at - (self.removed_at or at), 6))

    async def begin(self) -> None:
        await self.observer.watch(self)
        self.started_at = self.journal.now
        targets = {kind: list(names) for kind, names in self.targets.items()}
        reach = self.fault.reach
        self.note(
            "incident-started",
            profile=self.profile,
            variant=self.variant,
            targets=targets,
            sides=[
                list(side)
                for side in ((reach.nodes, reach.against) if reach.against else (reach.nodes,))
            ],
            powers_off=reach.power is ExplanatoryPower.POWERS_OFF and not self.fault.passes,
        )
        try:
            async with self.clients.nested.doing(
                f"cause {self.variant}",
                incident=self.id,
                **{kind: ", ".join(names) for kind, names in targets.items()},
            ):
                await self.fault.inject(self)
        except BaseException as error:
            self.note("incident-failed", error=repr(error))
            await self.end()
            raise
        if self.fault.passes:
            self._begin_to_end()

    async def end(self) -> None:
        """Undo the fault.

        Further calls wait for the same end. A cancellation is raised after it.
        """
        await await_despite_cancellation(self._begin_to_end())

    def _begin_to_end(self) -> asyncio.Task[None]:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(
                self._end(), name=f"end of {self.id}"
            )
        return self._ending

    async def _end(self) -> None:
        if self.answers:
            clock = self.clients.nested.clock
            pause, give_up = FIRST_PAUSE, clock.now() + UNDO_TIMEOUT
            while True:
                try:
                    async with self.clients.nested.doing(f"undo {self.variant}", incident=self.id):
                        await self.fault.heal(self)
                    break
                except EXPECTED_ERRORS as error:
                    if clock.now() >= give_up:
                        self.note("incident-not-undone", error=repr(error))
                        self.observer.give_up(self)
                        raise
                await clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        if not self.answers:
            self.refused(self.targets["nodes"])
            self.reaches(NOWHERE)
        self.removed_at = self.journal.now
        self.note("incident-ended", lasted=round(self.removed_at - self.started_at, 6))
        self.observer.ended(self)


async def cause_incident(context: RunContext, fault: Fault, *, by: str = "chaos") -> Incident:
    """Inject the fault, and return its incident, which is active until its `end` is called."""
    clients = ClusterClients.of(context, by)
    aimed = await fault.aim(clients)
    name = f"{aimed.variant}-{clients.nested.chance.suffix(8)}"
    incident = Incident(aimed, clients, context.journal, Observer.of(context), name)
    await incident.begin()
    return incident


async def await_despite_cancellation(task: asyncio.Task[T]) -> T:
    """Await a task without cancelling it; a cancellation of the caller is raised after it."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
        except BaseException:  # noqa: BLE001  # the task's own error is raised below
            break
    if cancelled:
        raise cancelled
    return task.result()


class RepeatedProfile(Protocol):
    """Profile whose incidents follow each other after pauses, each for a drawn time."""

    name: ClassVar[str]

    @property
    def period(self) -> tuple[float, float]: ...
    @property
    def incident(self) -> tuple[float, float]: ...


async def repeat_incidents(
    context: RunContext,
    stop: Signal,
    profile: RepeatedProfile,
    kind: str,
    draw: Callable[[ClusterClients, float], Awaitable[Fault]],
) -> None:
    """Cause incidents, one at a time, until `stop` is given.

    `draw` returns the fault of the next incident, given the seconds that it will last. `kind` is
    the actor's name, which seeds its draws.
    """
    clients = ClusterClients.of(context, context.next_name(kind))
    actor = clients.nested
    async with Observer.of(context).held():
        while not await stop.within(actor.chance.between(*profile.period)):
            seconds = actor.chance.between(*profile.incident)
            try:
                incident = await cause_incident(
                    context, await draw(clients, seconds), by=actor.name
                )
            except EXPECTED_ERRORS as error:
                note_skipped(actor, profile.name, error)
                continue
            try:
                await stop.within(seconds)
            finally:
                await end_incident(incident)


async def end_incident(incident: Incident) -> None:
    """End the incident; log the error if it cannot be undone, and let the run continue."""
    try:
        await incident.end()
    except EXPECTED_ERRORS as error:
        incident.clients.nested.log(
            logging.ERROR, "cannot be undone", incident=incident.id, error=repr(error)
        )


def note_skipped(actor: Actor, profile: str, error: Exception) -> None:
    """Report why an incident is skipped."""
    why = str(error) if isinstance(error, FaultImpossible) else repr(error)
    actor.note("incident-skipped", profile=profile, why=why)
    actor.log(logging.WARNING, "no incident this time", profile=profile, why=why)


def draw_variant(chance: Stream, variants: Sequence[str], weights: Mapping[str, int]) -> str:
    """Draw a variant by its weight. With all variants, a number from 0 to 99 decides."""
    possible = {variant: weight for variant, weight in weights.items() if variant in variants}
    number = chance.below(sum(possible.values()))
    for variant, weight in possible.items():
        number -= weight
        if number < 0:
            return variant
    raise ValueError("no variant has a weight: give at least one variant that can be drawn")
