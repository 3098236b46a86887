"""Observer of a run: watches replicas, volumes, nodes and machines, and reports to each incident
its effects on them.

Incidents call it; it sends no writes. `troubles.attribute_trouble` decides which incident owns a
trouble. An incident has recovered when its own and its possible troubles have been over for SETTLED
seconds. If an active incident may prolong them, the recovery time is unknown and that incident
takes them over. An object that is deleted while in trouble did not recover.

A missing link becomes a trouble after DETECTION_TIME seconds, in which DRBD would detect a lost
one. Troubles of its volume since then are attributed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pytest_kscen.chaos import troubles
from pytest_kscen.chaos.troubles import (
    DETECTION_TIME,
    SETTLED,
    SuspectedIncident,
    attribute_trouble,
    node_of,
)
from pytest_kscen.kube.cache import Ref
from pytest_kscen.kube.informer import Informer, SharedInformers
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES, volume_of
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES, phase_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from pytest_kscen.chaos.incidents import Incident
    from pytest_kscen.chaos.troubles import Key, MissingLink, ObservedState, Reach
    from pytest_kscen.kube.actor import RunContext
    from pytest_kscen.kube.informer import ListenerHandlers
    from pytest_kscen.objects.resources import Obj

Reading = TypeVar("Reading")

NAME = "chaos-observer"
FIRST_SYNC = 5.0  # seconds to wait for the informers; a resource that is not served never syncs
NOT_READ: tuple[None, list[ObservedState]] = None, []
RECOVERY = 300.0  # seconds to wait for the recovery of an incident
REPORTED = 3  # effects of each kind that are reported per volume
LISTED = 10  # troubles in one message


@dataclass(slots=True, eq=False, kw_only=True)
class WatchedIncident(SuspectedIncident):
    """Incident whose effects or recovery are still observed."""

    incident: Incident
    reported: dict[tuple[object, ...], int] = field(default_factory=dict)
    """Reports by kind of effect."""
    deleted_troubles: list[ObservedState] = field(default_factory=list)
    """Troubles whose objects were deleted; from before its end only if no other trouble was left.
    """
    overlapping: list[str] = field(default_factory=list)
    """Incidents from which it took over troubles that were not over at its end: it has no recovery
    time.
    """
    stable_since: float = 0.0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def count_report(self, *kind: object) -> bool:
        """Count an effect of this kind, and return True if it is among the first REPORTED ones."""
        self.reported[kind] = self.reported.get(kind, 0) + 1
        return self.reported[kind] <= REPORTED


class Observer:
    """Observer of one run. Runs while it is held, or while an incident has not recovered."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._actor = context.actor(NAME)
        self._watched: dict[str, WatchedIncident] = {}
        self._recoveries: dict[str, asyncio.Task[None]] = {}
        self._holders = 0
        self._observation: asyncio.Task[None] | None = None
        self._seen = asyncio.Event()
        self._reset()

    @classmethod
    def of(cls, context: RunContext) -> Observer:
        """Return the observer of the run; the first call creates it."""
        if NAME not in context.shared:
            context.shared[NAME] = cls(context)
        observer: Observer = context.shared[NAME]
        return observer

    @classmethod
    def is_in(cls, context: RunContext) -> bool:
        """Return True if the run has used its observer."""
        return NAME in context.shared

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        self._acquire()
        try:
            yield
        finally:
            self._release()

    async def watch(self, incident: Incident) -> None:
        """Start to watch an incident, before its first request."""
        self._acquire()
        try:
            await _within(self._seen, FIRST_SYNC)
        except BaseException:
            self._release()
            raise
        self._seen.set()
        watched = WatchedIncident(
            incident.fault.reach, self._context.journal.now, unanswered=True, incident=incident
        )
        self._watched[incident.id] = watched

    def reaches(self, incident: Incident, reach: Reach) -> None:
        """Set the reach of the incident, after its request was answered."""
        watched = self._watched[incident.id]
        watched.reaches(reach)
        if watched.unanswered:
            watched.unanswered, watched.since = False, self._context.journal.now
            for each in self._watched.values():
                if each.own_troubles or each.possible_troubles:
                    each.changed.set()

    def mark_active(self, incident: Incident) -> None:
        """Record that the responsible controller has reported success."""
        self._watched[incident.id].mark_active(self._context.journal.now)

    def ended(self, incident: Incident) -> None:
        """Start to wait for the recovery of an incident that was undone."""
        watched = self._watched[incident.id]
        watched.until = watched.stable_since = self._context.journal.now
        watched.overlapping = list(dict.fromkeys(watched.inherited_from.values()))
        if watched.open_troubles:
            watched.deleted_troubles.clear()
        recovery = asyncio.get_running_loop().create_task(
            self._wait_for_recovery(watched), name=f"recovery from {incident.id}"
        )
        self._recoveries[incident.id] = recovery
        recovery.add_done_callback(lambda _: self._forget(incident.id))

    def give_up(self, incident: Incident) -> None:
        """Stop watching an incident that could not be undone."""
        del self._watched[incident.id]
        self._release()

    async def settle(self) -> None:
        """Wait until each ended incident has recovered, or for RECOVERY seconds."""
        while self._recoveries:
            await asyncio.wait(list(self._recoveries.values()))

    def _acquire(self) -> None:
        self._holders += 1
        if self._observation is None:
            self._observation = asyncio.get_running_loop().create_task(self._observe(), name=NAME)
            self._observation.add_done_callback(self._observation_ended)

    def _release(self) -> None:
        self._holders -= 1
        if not self._holders and self._observation:
            self._observation.cancel()
            self._reset()

    def _reset(self) -> None:
        """Forget all states: the next incident starts with the states of that time."""
        self._observation = None
        self._seen.clear()
        self._troubles = troubles.Troubles(
            self._trouble_began, self._trouble_over, self._trouble_deleted, self._link_missing
        )
        self._due: asyncio.Queue[tuple[float, MissingLink]] | None = None
        self._unattributed: dict[Key, tuple[float, ObservedState]] = {}

    def _forget(self, incident: str) -> None:
        del self._watched[incident], self._recoveries[incident]
        self._release()

    def _observation_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (crash := task.exception()):
            self._actor.note("observer-crashed", error=repr(crash))
            self._actor.log(
                logging.ERROR,
                "crashed: effects are not observed until the next incident",
                error=repr(crash),
            )
            self._reset()

    async def _observe(self) -> None:
        shared, machines = SharedInformers.of_run(self._context), self._machines()
        async with shared.listen() as handlers, asyncio.TaskGroup() as tasks:
            replicas, volumes, nodes = map(
                shared.of, (REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES, NODES)
            )
            of_volume = replicas.index("volume", lambda replica: [volume_of(replica)], stable=True)

            def nodes_of(volume: Obj) -> tuple[str, ...]:
                return tuple(
                    node_of(replica) for replica in of_volume.of(volume["metadata"]["name"])
                )

            tasks.create_task(handlers.run(), name=NAME)
            for machine in machines:
                tasks.create_task(machine.run(), name=f"{NAME} of {machine.resource.plural}")
                self._follow(handlers, machine, phase_of, troubles.of_machine)
            self._follow(
                handlers,
                replicas,
                troubles.connections,
                lambda replica, links: troubles.of_replica(
                    replica, links, of_volume.of(volume_of(replica))
                ),
                unless=troubles.has_same_links,
                may_go=lambda replica: not _is_deleted(volumes.get(volume_of(replica))),
            )
            self._follow(
                handlers,
                volumes,
                self._context.health.read,
                lambda volume, health: troubles.of_volume(volume, health, nodes_of(volume)),
            )
            self._follow(handlers, nodes, troubles.readiness, troubles.of_node)
            tasks.create_task(
                self._report_missing_links(replicas), name=f"{NAME} of links that are due"
            )
            for informer in (replicas, volumes, nodes, *machines):
                await informer.synced()
            self._seen.set()

    def _machines(self) -> list[Informer]:
        """Return the informer of the parent cluster's virtual machines, if there is a parent."""
        if self._context.parent is None:
            return []
        actor, jitter = (
            self._context.in_parent(NAME),
            self._context.chance.stream(f"{NAME} of {VIRTUAL_MACHINES.qualified}"),
        )
        return [
            Informer(
                actor.api,
                actor.clock,
                VIRTUAL_MACHINES,
                self._context.parent.namespace,
                jitter=jitter,
            )
        ]

    def _follow(
        self,
        handlers: ListenerHandlers,
        informer: Informer,
        read: Callable[[Obj], Reading | None],
        aspects: Callable[[Obj, Reading], Iterable[ObservedState]],
        *,
        unless: Callable[[Obj, Obj], bool] = lambda _new, _old: False,
        may_go: Callable[[Obj], bool] = lambda _old: False,
    ) -> None:
        """Report the aspects of each object to the troubles, whenever its reading changes.

        `read` returns the part of an object from which its aspects are computed, or None. Changes
        for which `unless` returns True are skipped. If `may_go` returns True for a deleted object,
        its troubles are over.
        """
        shown: dict[Ref, tuple[Reading, list[ObservedState]]] = {}

        def handler(new: Obj | None, old: Obj | None) -> None:
            if new and old and unless(new, old):
                return
            ref = Ref.of(new or old or {})
            earlier, before = shown.get(ref, NOT_READ)
            reading = read(new) or None if new else None
            if reading == earlier:
                return
            now = list(aspects(new, reading)) if new and reading else []
            if new and reading:
                shown[ref] = reading, now
            else:
                del shown[ref]
            if new:
                self._troubles.update(
                    before, now, deleting=bool(new["metadata"].get("deletionTimestamp"))
                )
            else:
                self._troubles.update(before, now, is_deleted=not (old and may_go(old)))

        handlers.on_change(informer, handler)

    def _link_missing(self, due: MissingLink) -> None:
        """Queue a missing link if an incident may prevent it."""
        if self._due is not None and any(
            each.reach.covers(due.ends[0]) for each in self._watched.values()
        ):
            self._due.put_nowait((self._context.journal.now, due))

    async def _report_missing_links(self, replicas: Informer) -> None:
        await replicas.synced()
        self._due = asyncio.Queue()
        while True:
            since, due = await self._due.get()
            await self._actor.clock.sleep(
                max(0.0, since + DETECTION_TIME - self._context.journal.now)
            )
            if self._troubles.is_still_due(due) and not any(
                _is_deleted(replicas.get(end.key[1])) for end in due.ends
            ):
                self._troubles.report_missing(due, since)
                # Attribute troubles of the link's volume again, to the incident that prevents it.
                (link, _), now = due.ends, self._context.journal.now
                for began, trouble in [*self._unattributed.values()]:
                    if trouble.volume == link.volume and began >= since:
                        suspects = [each for each in self._watched.values() if each.since <= began]
                        owner, _ = attribute_trouble(trouble, suspects, now)
                        if owner and link.key in owner.own_troubles:
                            del self._unattributed[trouble.key]
                            self._attribute(trouble, owner, now)

    def _trouble_began(self, trouble: ObservedState) -> None:
        now = self._context.journal.now if trouble.due is None else trouble.due + DETECTION_TIME
        owner, others = attribute_trouble(trouble, self._watched.values(), now)
        if owner:
            self._attribute(trouble, owner, now)
        elif trouble.kind == troubles.VOLUME:
            self._unattributed[trouble.key] = now, trouble
        for other in others:
            other.possible_troubles[trouble.key] = trouble
            other.changed.set()
            if other.count_report(trouble.kind, trouble.volume, "possible"):
                other.incident.may_have_effect(trouble.words, trouble.volume)

    def _attribute(self, trouble: ObservedState, owner: WatchedIncident, now: float) -> None:
        owner.add_trouble(trouble, now)
        owner.changed.set()
        if owner.count_report(trouble.kind, trouble.volume):
            owner.incident.has_effect(trouble.words, trouble.volume)

    def _trouble_over(self, trouble: ObservedState) -> None:
        for watched in self._watched.values():
            if watched.until is None and watched.has(trouble):
                watched.deleted_troubles.clear()
        self._drop(trouble)

    def _drop(self, trouble: ObservedState) -> None:
        self._unattributed.pop(trouble.key, None)
        for watched in self._watched.values():
            if watched.drop_trouble(trouble):
                watched.stable_since = self._context.journal.now
                watched.changed.set()

    def _trouble_deleted(self, trouble: ObservedState) -> None:
        for watched in self._watched.values():
            if watched.has(trouble) and trouble.key not in watched.inherited_from:
                watched.deleted_troubles.append(trouble)
        self._drop(trouble)

    async def _wait_for_recovery(self, watched: WatchedIncident) -> None:
        incident = watched.incident
        try:
            async with asyncio.timeout(RECOVERY) as limit:
                others = await self._wait_until_stable(watched)
        except TimeoutError:
            if not limit.expired():
                raise
            left = _words(watched.open_troubles)
            incident.note("incident-unrecovered", waited=RECOVERY, left=left)
            self._actor.log(
                logging.WARNING,
                "not recovered from",
                incident=incident.id,
                waited=RECOVERY,
                left="; ".join(left),
            )
        else:
            if others:
                incident.note(
                    "incident-overtaken",
                    by=[each.incident.id for each in others],
                    left=_words(watched.open_troubles),
                )
                for other in others:  # each may prolong these troubles
                    for trouble in filter(other.reach.covers, watched.open_troubles):
                        if not other.has(trouble):
                            other.possible_troubles[trouble.key] = trouble
                            other.inherited_from[trouble.key] = incident.id
            elif watched.deleted_troubles:
                volumes = list(
                    dict.fromkeys(one.volume for one in watched.deleted_troubles if one.volume)
                )
                incident.note(
                    "incident-target-deleted",
                    left=_words(watched.deleted_troubles),
                    volumes=volumes,
                )
            elif watched.overlapping:
                incident.note("incident-overlapping", others=watched.overlapping)
            else:
                incident.recovered(watched.stable_since)

    async def _wait_until_stable(self, watched: WatchedIncident) -> list[WatchedIncident]:
        """Wait until all its troubles have been over for SETTLED seconds.

        Return at once the active incidents that may prolong them, if there are any.
        """
        while True:
            watched.changed.clear()
            on = [
                each
                for each in self._watched.values()
                if each.until is None and not each.unanswered
            ]
            if others := [
                each for each in on if any(map(each.reach.covers, watched.open_troubles))
            ]:
                return others
            if watched.own_troubles:
                await watched.changed.wait()
            elif not await _within(watched.changed, SETTLED):
                if not watched.possible_troubles:
                    return []
                watched.volumes.clear()  # the troubles that it explains are over
                await watched.changed.wait()


def _words(aspects: list[ObservedState]) -> list[str]:
    """Return the first LISTED descriptions, and the number of further ones."""
    words = [one.words for one in aspects[:LISTED]]
    return [*words, f"{len(aspects) - LISTED} more"] if len(aspects) > LISTED else words


def _is_deleted(replica: Obj | None) -> bool:
    return replica is None or bool(replica["metadata"].get("deletionTimestamp"))


async def _within(event: asyncio.Event, seconds: float) -> bool:
    if not event.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
    return event.is_set()
