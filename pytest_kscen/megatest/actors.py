"""Actors of one volume: attacher, resizer, replica creator, replica destroyer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from pytest_kscen.megatest.subject import (
    REFUSALS,
    attach,
    attached_nodes,
    attempt,
    detach,
    detach_everywhere,
    disk_being_deleted,
    explain_timeout,
    labelled_object,
    nodes_of,
    record_if_absent,
    until_accepted,
)
from pytest_kscen.megatest.view import name_of, run_until
from pytest_kscen.objects import quantities
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.quantities import NANO, Quantity, QuantityFormat
from pytest_kscen.objects.storage import (
    ACCESS,
    DISKFUL,
    REPLICAS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
    TIE_BREAKER,
    volume_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Never

    from pytest_kscen.clock import Signal
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.megatest.churn import Growth, Seconds
    from pytest_kscen.megatest.subject import Subject
    from pytest_kscen.objects.resources import Obj


ATTACH_ONLY = 10  # of a hundred cycles that find the volume attached nowhere


class Cycle(Enum):
    NORMAL = "normal"
    ATTACH = "attach"
    DETACH = "detach"
    MIGRATION = "migration"


def cycle_for(attached: Sequence[str], wanted: str, number: int) -> Cycle:
    match len(attached):
        case 0:
            return Cycle.ATTACH if number < ATTACH_ONLY else Cycle.NORMAL
        case 1:
            return Cycle.DETACH if wanted in attached else Cycle.MIGRATION
        case _:  # a cycle was interrupted by the end of its machine
            return Cycle.DETACH


async def attach_and_detach(rv: Subject, period: Seconds | None, stop: Signal) -> None:
    """Attach and detach the volume until `stop`, then detach it from all nodes.

    Without a period it only waits and detaches.
    """
    actor = rv.actor("volume-attacher")
    if period:
        await run_until(stop, Cycles(rv, actor, period).run())
    await stop.wait()
    await detach_everywhere(rv, actor)


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of one volume's attacher, one after the other until it is cancelled.

    A refused request ends the cycle; the next cycle begins with the current state.
    """

    rv: Subject
    actor: Actor
    period: Seconds

    async def run(self) -> Never:
        while True:
            await self._pause()
            if not (nodes := await self.rv.watch.storage_nodes()):
                self.actor.log(logging.WARNING, "no node to attach to", volume=self.rv.name)
                continue
            wanted, attached = self.actor.chance.choice(nodes), attached_nodes(self.rv)
            cycle = cycle_for(attached, wanted, self.actor.chance.below(100))
            chosen = {
                "volume": self.rv.name,
                "cycle": cycle.value,
                "wanted": wanted,
                "attached": attached,
            }
            self.actor.note("cycle", **chosen)
            self.actor.log(logging.INFO, "cycle chosen", **chosen)
            with contextlib.suppress(*REFUSALS):
                match cycle:
                    case Cycle.NORMAL:
                        await self._attach(wanted)
                        await self._pause()
                        await self._detach(wanted)
                    case Cycle.ATTACH:
                        await self._attach(wanted)
                    case Cycle.DETACH:
                        await self._detach(self.actor.chance.choice(attached))
                    case Cycle.MIGRATION:
                        await self._attach(wanted)
                        await self._detach(attached[0])
                        await self._pause()
                        await self._detach(wanted)

    async def _pause(self) -> None:
        await self.rv.pause(self.actor, self.period)

    async def _attach(self, node: str) -> None:
        await attach(self.rv, self.actor, node)

    async def _detach(self, node: str) -> None:
        await detach(self.rv, self.actor, node)


PATIENCE = 300.0  # seconds within which a resize has to be done
UNIT = 1024  # bytes that every size is a multiple of


async def resize(rv: Subject, growth: Growth) -> Never:
    actor = rv.actor("volume-resizer")
    least, most = (quantities.parse(step).value // UNIT or 1 for step in growth.step)
    while True:
        await rv.pause(actor, growth.period)
        if rv.volume is None:
            continue
        size = quantities.parse(rv.volume["spec"]["size"]).value
        wanted = min(
            size + actor.chance.whole(least, most) * UNIT, quantities.parse(growth.max_size).value
        )
        if wanted <= size:
            actor.log(
                logging.INFO,
                "the volume has its maximum size",
                volume=rv.name,
                size=rv.volume["spec"]["size"],
            )
            continue
        text = str(Quantity(wanted * NANO, QuantityFormat.BINARY))
        async with attempt(actor, "resize the volume", volume=rv.name, size=text) as ongoing:
            with record_if_absent(actor, volume=rv.name):
                with until_accepted(ongoing):
                    await actor.api.patch(REPLICATED_VOLUMES, rv.name, {"spec": {"size": text}})
                await _grown(rv, wanted, text)


async def _grown(rv: Subject, wanted: int, text: str) -> None:
    reason = ""

    def grown() -> bool:
        nonlocal reason
        if (
            rv.volume and "deletionTimestamp" not in rv.volume["metadata"]
        ):  # all replicas of a terminating volume are being deleted
            reason = disk_being_deleted(rv)
        return actual_size(rv.volume) >= wanted

    with explain_timeout(lambda: reason):
        await rv.watch.until(
            rv.name, grown, timeout=PATIENCE, awaited=f"{rv.name} did not grow to {text}"
        )


def actual_size(volume: Obj | None) -> int:
    """Return the size in bytes, 0 if the status has none.

    The storage's first generation publishes it as actualSize, the second as size.
    """
    status = (volume or {}).get("status") or {}
    return quantities.parse(status.get("actualSize") or status.get("size") or 0).value


RETRY_PERIOD = 60.0  # seconds until replicas that were left are listed again after an error


async def create_replicas(rv: Subject, period: Seconds) -> Never:
    """Create replicas without data, one in each period, as long as a replica name is free.

    The storage would never remove a surplus replica with data.
    """
    actor = rv.actor("volume-replica-creator")
    while True:
        await rv.pause(actor, period)
        kind = actor.chance.choice((ACCESS, TIE_BREAKER))
        replicas, nodes = rv.watch.replicas(rv.name), await rv.watch.storage_nodes()
        free = [node for node in nodes if node not in nodes_of(replicas)]
        name = first_free(rv.name, map(name_of, replicas))
        if name is None or (kind == ACCESS and not free):
            actor.log(
                logging.INFO,
                "no free name or node for a replica",
                volume=rv.name,
                type=kind,
                replicas=len(replicas),
            )
            continue
        node = actor.chance.choice(free) if kind == ACCESS else ""
        async with attempt(
            actor, "create a replica", volume=rv.name, replica=name, type=kind, node=node
        ):
            spec = {"replicatedVolumeName": rv.name, "type": kind}
            if node:  # the storage chooses the node of a tie-breaker
                spec["nodeName"] = node
            await actor.api.create(
                REPLICATED_VOLUME_REPLICAS,
                labelled_object(actor, REPLICATED_VOLUME_REPLICAS, name, spec),
            )


async def sweep_replicas(rv: Subject) -> None:
    """Delete replicas that were created while the volume was being deleted; no other actor does.

    Repeated until all requests succeed, at the latest when the run's cleanup starts.
    """
    actor = rv.actor("volume-replica-creator")
    while not await _swept(rv, actor) and not rv.state.cleanup_started.given:
        await rv.state.cleanup_started.within(RETRY_PERIOD)


async def _swept(rv: Subject, actor: Actor) -> bool:
    """Delete the remaining replicas; return False if any request was refused.

    An error does not keep it from trying the other replicas.
    """
    left: list[str] | None = None
    async with attempt(actor, "look for replicas that were left", volume=rv.name):
        left = [
            name_of(one)
            for one in await actor.list_own(REPLICATED_VOLUME_REPLICAS)
            if volume_of(one) == rv.name
        ]
    is_swept = left is not None
    for replica in left or ():
        try:
            async with actor.doing(
                "delete a replica that was left", volume=rv.name, replica=replica
            ):
                # The answer to an earlier attempt may have been lost.
                with contextlib.suppress(NotFound):
                    await actor.api.delete(REPLICATED_VOLUME_REPLICAS, replica)
        except REFUSALS:
            is_swept = False
    return is_swept


def first_free(volume: str, taken: Iterable[str]) -> str | None:
    names = list(taken)
    return next(
        (
            name
            for name in (f"{volume}-{number}" for number in range(REPLICAS))
            if name not in names
        ),
        None,
    )


CHECK_PERIOD = 10.0  # seconds


@dataclass(slots=True)
class Replacements:
    """Disks that the storage has to create in place of the disks that the destroyer deleted.

    A watch records `replicas-restored` when the volume has its former number of disks and all are
    up to date. Storage with a layout replaces no disk of a complete volume: there the remaining
    disks suffice.
    """

    rv: Subject
    actor: Actor
    patience: float
    tasks: asyncio.TaskGroup
    wanted: int = 0
    """Number of disks that the volume must have; 0 if it lacks none."""
    deleted_uids: set[str] = field(default_factory=set)
    """Uids of deleted replicas, which the watch may still have."""

    def disks(self) -> list[Obj]:
        """Return the disks that count as present.

        A layout replaces no disk of a complete volume, so a terminating disk counts there.
        Elsewhere terminating and deleted disks do not count, even if the watch still has them.
        """
        disks = [
            replica
            for replica in self.rv.watch.replicas(self.rv.name)
            if replica["spec"].get("type") == DISKFUL
        ]
        if self.rv.health.has_layout:
            return disks
        return [
            disk
            for disk in disks
            if not disk["metadata"].get("deletionTimestamp")
            and disk["metadata"]["uid"] not in self.deleted_uids
        ]

    def expect(self, before: int) -> None:
        """Expect the number of disks `before` a deletion, which may have failed.

        The first call starts the watch, which ends when they are up to date; later calls extend
        the deadline.
        """
        if not self.wanted:
            self.tasks.create_task(self._watch(), name=f"replacements/{self.rv.name}")
        self.wanted = max(self.wanted, 1 if self.rv.health.has_layout else before)
        self.rv.state.repair_deadlines[self.rv.name] = (
            self.actor.clock.now() + self.patience + CHECK_PERIOD
        )  # the watch may notice it one period late

    async def _watch(self) -> None:
        while self._exists():
            await self.actor.clock.sleep(CHECK_PERIOD)
            if not self._exists():
                break
            disks = self.disks()
            if len(disks) >= self.wanted and all(map(self.rv.health.is_up_to_date, disks)):
                self.actor.note("replicas-restored", volume=self.rv.name)
                break
        self.wanted = 0
        self.deleted_uids.clear()
        self.rv.state.repair_deadlines.pop(self.rv.name, None)

    def _exists(self) -> bool:
        return self.rv.volume is not None and not self.rv.volume["metadata"].get(
            "deletionTimestamp"
        )


async def destroy_replicas(rv: Subject, period: Seconds, patience: float) -> Never:
    """Delete a random replica of the volume in each period, without waiting for the deletion.

    `patience` is the time in seconds that the storage has to replace a disk.
    """
    actor = rv.actor("volume-replica-destroyer")
    async with asyncio.TaskGroup() as tasks:
        replacements = Replacements(rv, actor, patience, tasks)
        while True:
            await rv.pause(actor, period)
            replicas = [
                one
                for one in rv.watch.replicas(rv.name)
                if not one["metadata"].get("deletionTimestamp")
            ]
            if not replicas:
                actor.log(logging.INFO, "no replica to delete", volume=rv.name)
                continue
            chosen = actor.chance.choice(replicas)
            name, spec = name_of(chosen), chosen["spec"]
            what = {"replica": name, "type": spec.get("type", ""), "node": spec.get("nodeName", "")}
            is_disk, before = spec.get("type") == DISKFUL, len(replacements.disks())
            within = {"patience": patience} if is_disk else {}
            async with attempt(actor, "delete a replica", volume=rv.name, **what, **within):
                with record_if_absent(actor, volume=rv.name, replica=name):
                    await actor.api.delete(REPLICATED_VOLUME_REPLICAS, name)
                replacements.deleted_uids.add(chosen["metadata"]["uid"])
            if is_disk:
                replacements.expect(before)
