"""One resource on all its nodes.

Whatever happens to it, its replicas agree anew on what each knows and may do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.models.storage.drbd.kernel import Resync
from pytest_kscen.models.storage.drbd.mesh import ConnectionMesh
from pytest_kscen.models.storage.drbd.replicas import DISKLESS, DiskEvent, DrbdReplica, WriteTracker
from pytest_kscen.models.storage.drbd.states import (
    DiskState,
    Role,
    VisibleReplicas,
    depends_on_previous_quorum,
    has_enough_votes,
    has_quorum,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.models.storage.drbd.kernel import KernelServices
    from pytest_kscen.models.storage.drbd.states import ResourceConfig, ResourceStatus


# What the replicas of a resource agree on whenever something has happened to one of them or
# between them. Disks learn what they can know, votes are counted, whoever may write does, until
# nobody learns anything new; then whoever has missed something is brought up to date.


PRIMARY, UP_TO_DATE = (
    Role.PRIMARY,
    DiskState.UP_TO_DATE,
)  # an enumeration takes its time to find them
CONSISTENT, _DISKLESS = DiskState.CONSISTENT, DiskState.DISKLESS
NEEDS_RESYNC = (DiskState.OUTDATED, DiskState.INCONSISTENT)


class StateResolver:
    """Of one resource."""

    def __init__(
        self,
        replicas: dict[str, DrbdReplica],
        mesh: ConnectionMesh,
        writes: WriteTracker,
        kernel: KernelServices,
        agree: Callable[[], None],
    ) -> None:
        self.resyncs: dict[str, Resync] = {}
        """By the nodes that are brought up to date."""
        self._replicas = replicas
        self._mesh = mesh
        self._writes = writes
        self._kernel = kernel
        self._agree = agree

    def reach(self) -> None:
        is_news = True
        while is_news:
            # Those that crashed last: the others' word counts more.
            unsure = [
                one
                for one in self._replicas.values()
                if one.config and (one.disk is CONSISTENT or one.suspended)
            ]
            if len(unsure) > 1:
                unsure.sort(key=lambda one: bool(one.activity))
            changed = False
            for replica in unsure:
                if replica.disk is CONSISTENT and self._knows(replica):
                    if replica.behind or (replica.activity and self._meets_fresh_data(replica)):
                        replica.turn(DiskEvent.OVERTAKEN)
                    else:
                        replica.turn(DiskEvent.CONFIRMED)
                        replica.activity = 0.0
                    changed = True
                if (
                    replica.role is PRIMARY
                    and replica.suspended
                    and replica.behind
                    and self._meets_fresh_data(replica)
                ):
                    # on-suspended-primary-outdated force-secondary: it froze while others took over
                    replica.demote()
                    changed = True
            is_judged, is_counted = changed, self._count_votes()
            primaries = [
                replica
                for replica in self._replicas.values()
                if replica.role is PRIMARY and not replica.suspended
            ]
            writer = min(primaries, key=lambda replica: replica.promoted, default=None)
            is_missed = self._write(writer)
            is_news = is_judged or is_counted or is_missed
        self._bring_up_to_date(writer)

    # --- what disks can know ---

    def _knows(self, replica: DrbdReplica) -> bool:
        assert replica.config
        sight = _visible_to(replica)
        return has_enough_votes(
            replica.config, sight, had_quorum=replica.quorum
        ) or self._meets_fresh_data(replica)

    def _meets_fresh_data(self, replica: DrbdReplica) -> bool:
        return any(peer.disk is UP_TO_DATE for peer in self._mesh.peers(replica))

    # --- who may go on ---

    def _count_votes(self) -> bool:
        """That one has quorum, or has not, is news to those alone who go by it."""
        is_counted_anew, changed = False, False
        for replica in self._replicas.values():
            if replica.config:
                sight = _visible_to(replica)
                quorum = has_quorum(replica.config, sight, had_quorum=replica.quorum)
                suspended = replica.role is PRIMARY and not (quorum and sight.up_to_date)
                if quorum is not replica.quorum:
                    replica.quorum, is_counted_anew = quorum, True
                if suspended is not replica.suspended:
                    replica.suspended, changed = suspended, True
        return changed or (
            is_counted_anew
            and any(
                depends_on_previous_quorum(one.config)
                for one in self._replicas.values()
                if one.config
            )
        )

    # --- who writes, and who misses it ---

    def _write(self, writer: DrbdReplica | None) -> bool:
        if writer is None or self._waits_for_answer(writer):
            self._writes.flow_past(())
            return False
        absent = self._mesh.others(writer)
        changed = False
        for replica in absent:
            changed = self._overtake(replica) or changed
        self._writes.flow_past(tuple(replica for replica in absent if replica.diskful))
        return changed

    def _waits_for_answer(self, writer: DrbdReplica) -> bool:
        """A write that a connected peer has not acknowledged holds up all others."""
        silent = [peer for peer, link in self._mesh.links_from(writer.node).items() if link.silent]
        return any(_blocks_writes(peer, writer) for peer in silent)

    def _overtake(self, replica: DrbdReplica) -> bool:
        is_new = not replica.behind and (replica.diskful or replica.suspended)
        if is_new:
            replica.behind = True
        if replica.disk is UP_TO_DATE:
            replica.turn(DiskEvent.OVERTAKEN)
            return True
        return is_new

    # --- who is brought up to date ---

    def _bring_up_to_date(self, writer: DrbdReplica | None) -> None:
        for node, resync in list(self.resyncs.items()):
            if not self._may_go_on(resync, writer):
                self._break_off(node)
        for target in self._replicas.values():
            if (
                target.config
                and target.disk in NEEDS_RESYNC
                and target.node not in self.resyncs
                and self._keeps_up(target, writer)
            ):
                self._begin(target)
        for resync in self.resyncs.values():
            self._kernel.resyncs.pace(resync)

    def _may_go_on(self, resync: Resync, writer: DrbdReplica | None) -> bool:
        target, source = self._replicas.get(resync.target), self._replicas.get(resync.source)
        if target is None or target.config is None or target.disk is not DiskState.INCONSISTENT:
            return False
        link = self._mesh.link(resync.source, resync.target)
        if link is not resync.link or not (
            link.silent or (link.connected and source and source.disk is UP_TO_DATE)
        ):
            return False
        return self._keeps_up(target, writer)

    def _keeps_up(self, target: DrbdReplica, writer: DrbdReplica | None) -> bool:
        """Whether it gets what is being written: what has not its writer's ear would be overtaken
        again at once.

        So it would be by a Primary that is suspended, and goes on because of it.
        """
        frozen = [one for one in self._replicas.values() if one.role is PRIMARY and one.suspended]
        if frozen:
            reached = self._mesh.reached(target)
            frozen = [one for one in frozen if one in reached]
        return all(
            one is target or self._gets_from(one, target)
            for one in (*filter(None, (writer,)), *frozen)
        )

    def _gets_from(self, writer: DrbdReplica, target: DrbdReplica) -> bool:
        link = self._mesh.link(writer.node, target.node)
        return link is not None and (
            link.connected or (link.silent and _blocks_writes(target.node, writer))
        )

    def _begin(self, target: DrbdReplica) -> None:
        sources = [peer for peer in self._mesh.peers(target) if peer.disk is UP_TO_DATE]
        if not sources:
            return
        source = min(
            sources,
            key=lambda peer: (peer.role is not PRIMARY, peer.config.node_id if peer.config else 0),
        )
        link = self._mesh.link(source.node, target.node)
        assert link
        target.missing = min(float(target.size), self._writes.missing(target) + target.activity)
        target.activity, target.data = 0.0, source.data
        target.turn(DiskEvent.SYNC_BEGAN)
        resync = Resync(
            source.node, target.node, link, target.missing, lambda: self._finish(target)
        )
        self.resyncs[target.node] = resync
        self._kernel.resyncs.begin(resync)

    def _break_off(self, node: str) -> None:
        left = self._kernel.resyncs.end(self.resyncs.pop(node))
        if node in self._replicas:
            self._replicas[node].missing = left

    def _finish(self, target: DrbdReplica) -> None:
        self._break_off(target.node)
        target.missing, target.behind = 0.0, False
        target.turn(DiskEvent.SYNC_ENDED)
        self._agree()


def _visible_to(replica: DrbdReplica) -> VisibleReplicas:
    sees = replica.sees.values()
    up_to_date, diskless, quorate = (
        0 + (replica.disk is UP_TO_DATE),
        0 + (replica.disk is _DISKLESS),
        0,
    )
    for peer in sees:
        if peer.disk is UP_TO_DATE:
            up_to_date += 1
            quorate += peer.quorum
        elif peer.disk is _DISKLESS:
            diskless += 1
    return VisibleReplicas(up_to_date, 1 + len(sees) - up_to_date - diskless, diskless, quorate)


def _blocks_writes(silent: str, writer: DrbdReplica) -> bool:
    """Whether what is written waits for the answer of one who is silent: a disk would have to
    have it.
    """
    return writer.sees[silent].disk is not _DISKLESS


class DrbdResource:
    """What commands, the network and the power do to it."""

    def __init__(self, name: str, kernel: KernelServices) -> None:
        self.name = name
        self.replicas: dict[str, DrbdReplica] = {}
        self.writes = WriteTracker(kernel.clock.now, kernel.figures.write_rate)
        self.mesh = ConnectionMesh(name, self.replicas, kernel, self.agree)
        self.accord = StateResolver(self.replicas, self.mesh, self.writes, kernel, self.agree)
        self.size: int | None = None
        """Of the device, if any replica has a disk: all disks have grown before it does."""
        self.faces: dict[str, ResourceStatus | None] = {}
        """As they were shown since the replicas last agreed."""
        self.statuses: dict[str, ResourceStatus] = {}
        """The same with amounts, while none of them moves."""
        self._kernel = kernel
        self._initialisations = 0
        self._promotions = 0

    @property
    def is_gone(self) -> bool:
        """Up nowhere, and no disk remembers it."""
        return not any(replica.config or replica.diskful for replica in self.replicas.values())

    @property
    def is_dirty(self) -> bool:
        """Whether somebody has something to get, while nobody gets anything."""
        return bool([one for one in self.replicas.values() if one.missing or one.activity])

    @property
    def is_still(self) -> bool:
        """Whether its amounts stay what they are until its replicas agree anew."""
        return not self.accord.resyncs and not self.writes.are_missed

    def end(self) -> None:
        """It is gone, and its parts no longer hold each other: so many come and go that nobody
        is to search for what is left.
        """
        del self.mesh, self.accord

    def agree(self) -> None:
        self.accord.reach()
        self.size = min(
            [one.size for one in self.replicas.values() if one.disk is not DISKLESS], default=None
        )
        self.faces.clear()
        self.statuses.clear()
        self._kernel.changed(self)

    def look(self) -> None:
        """The network may have changed; who is brought up to date over it may have to go at
        another pace.
        """
        if self.mesh.look() or self.accord.resyncs:
            self.agree()

    def up(self, node: str, config: ResourceConfig) -> None:
        replica = self.replicas.setdefault(node, DrbdReplica(node))
        before = replica.config
        if before == config:
            return
        self.writes.settle()
        replica.configure(config)
        if before is None or not config.is_agreed_with(before):
            self.mesh.adjust(replica, before)
            self.agree()

    def down(self, node: str, *, wipe: bool) -> None:
        replica = self.replicas[node]
        self.writes.settle()
        replica.stop()
        if wipe:
            replica.wipe()
        if not replica.diskful:
            del self.replicas[node]
        self.mesh.leave(node)
        self.agree()

    def lose_power(self, node: str) -> None:
        replica = self.replicas[node]
        self.writes.settle()
        self.mesh.die(node)
        if replica.role is Role.PRIMARY and replica.diskful and not replica.suspended:
            replica.activity = min(float(replica.size), self._kernel.figures.activity)
        replica.stop()
        self.mesh.fit(node)
        self.agree()

    def initialize(self, node: str) -> None:
        replica = self.replicas[node]
        self.writes.settle()
        self._initialisations += 1
        replica.data, replica.missing = self._initialisations, 0.0
        replica.turn(DiskEvent.INITIALIZED)
        self.agree()

    def promote(self, node: str) -> None:
        self._promotions += 1
        replica = self.replicas[node]
        replica.role, replica.promoted = Role.PRIMARY, self._promotions
        self.agree()

    def demote(self, node: str) -> None:
        self.replicas[node].demote()
        self.agree()
