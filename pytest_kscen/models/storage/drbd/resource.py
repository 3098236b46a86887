"""Rules and actions of one resource on all its nodes.

Driven by `Drbd`: every command, power failure and network change ends in one update of the common
state, which the kernel's services report. Nothing here schedules notifications.
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


# constants, because looking up enumeration members is slow
PRIMARY, UP_TO_DATE = Role.PRIMARY, DiskState.UP_TO_DATE
CONSISTENT, _DISKLESS = DiskState.CONSISTENT, DiskState.DISKLESS
NEEDS_RESYNC = (DiskState.OUTDATED, DiskState.INCONSISTENT)


class StateResolver:
    """Rules that bring the replicas of one resource to a consistent state.

    Disk states are derived from connected peers, votes are counted, and a Primary with quorum
    writes, until no step changes anything; then replicas that miss data are resynced.
    """

    def __init__(
        self,
        replicas: dict[str, DrbdReplica],
        mesh: ConnectionMesh,
        writes: WriteTracker,
        kernel: KernelServices,
        update_state: Callable[[], None],
    ) -> None:
        self.resyncs: dict[str, Resync] = {}
        """Resyncs under way, by the node that receives data."""
        self._replicas = replicas
        self._mesh = mesh
        self._writes = writes
        self._kernel = kernel
        self._update_state = update_state

    def resolve(self) -> None:
        """Repeat the steps until the state is stable, then start, continue or stop resyncs."""
        needs_another_step = True
        while needs_another_step:
            # Replicas that crashed as Primary come last: intact ones decide first.
            unsure = [
                one
                for one in self._replicas.values()
                if one.config and (one.disk is CONSISTENT or one.suspended)
            ]
            if len(unsure) > 1:
                unsure.sort(key=lambda one: bool(one.activity))
            changed = False
            for replica in unsure:
                if (
                    replica.disk is CONSISTENT
                    and replica.config
                    and (
                        has_enough_votes(
                            replica.config, _visible_to(replica), had_quorum=replica.quorum
                        )
                        or self._has_up_to_date_peer(replica)
                    )
                ):
                    if replica.behind or (replica.activity and self._has_up_to_date_peer(replica)):
                        replica.apply_event(DiskEvent.OVERTAKEN)
                    else:
                        replica.apply_event(DiskEvent.CONFIRMED)
                        replica.activity = 0.0
                    changed = True
                if (
                    replica.role is PRIMARY
                    and replica.suspended
                    and replica.behind
                    and self._has_up_to_date_peer(replica)
                ):
                    # on-suspended-primary-outdated force-secondary: others took over meanwhile
                    replica.demote()
                    changed = True
            disks_changed, votes_changed = changed, self._count_votes()
            primaries = [
                replica
                for replica in self._replicas.values()
                if replica.role is PRIMARY and not replica.suspended
            ]
            writer = min(primaries, key=lambda replica: replica.promoted, default=None)
            writes_missed = self._update_writes(writer)
            needs_another_step = disks_changed or votes_changed or writes_missed
        self._update_resyncs(writer)

    def _has_up_to_date_peer(self, replica: DrbdReplica) -> bool:
        return any(peer.disk is UP_TO_DATE for peer in self._mesh.peers(replica))

    def _count_votes(self) -> bool:
        """Update quorum and suspension of all replicas. Return True if another step may be needed:
        a changed quorum matters only if the quorum rule depends on it.
        """
        quorum_changed, changed = False, False
        for replica in self._replicas.values():
            if replica.config:
                visible = _visible_to(replica)
                quorum = has_quorum(replica.config, visible, had_quorum=replica.quorum)
                suspended = replica.role is PRIMARY and not (quorum and visible.up_to_date)
                if quorum is not replica.quorum:
                    replica.quorum, quorum_changed = quorum, True
                if suspended is not replica.suspended:
                    replica.suspended, changed = suspended, True
        return changed or (
            quorum_changed
            and any(
                depends_on_previous_quorum(one.config)
                for one in self._replicas.values()
                if one.config
            )
        )

    def _update_writes(self, writer: DrbdReplica | None) -> bool:
        """Let absent replicas fall behind the writer. Nothing is written while a connected peer
        with a disk is silent, because its acknowledgement holds up all later writes.
        """
        if writer is None or any(
            link.silent and _blocks_writes(peer, writer)
            for peer, link in self._mesh.links_from(writer.node).items()
        ):
            self._writes.set_absent(())
            return False
        absent = self._mesh.unconnected(writer)
        changed = False
        for replica in absent:
            if not replica.behind and (replica.diskful or replica.suspended):
                replica.behind = changed = True
            if replica.disk is UP_TO_DATE:
                replica.apply_event(DiskEvent.OVERTAKEN)
                changed = True
        self._writes.set_absent(tuple(replica for replica in absent if replica.diskful))
        return changed

    def _update_resyncs(self, writer: DrbdReplica | None) -> None:
        for node, resync in list(self.resyncs.items()):
            if not self._may_continue(resync, writer):
                self._stop_resync(node)
        for target in self._replicas.values():
            if (
                target.config
                and target.disk in NEEDS_RESYNC
                and target.node not in self.resyncs
                and self._receives_writes(target, writer)
            ):
                self._start_resync(target)
        for resync in self.resyncs.values():
            self._kernel.resyncs.update_rate(resync)

    def _may_continue(self, resync: Resync, writer: DrbdReplica | None) -> bool:
        target, source = self._replicas.get(resync.target), self._replicas.get(resync.source)
        if target is None or target.config is None or target.disk is not DiskState.INCONSISTENT:
            return False
        link = self._mesh.link(resync.source, resync.target)
        if link is not resync.link or not (
            link.silent or (link.connected and source and source.disk is UP_TO_DATE)
        ):
            return False
        return self._receives_writes(target, writer)

    def _receives_writes(self, target: DrbdReplica, writer: DrbdReplica | None) -> bool:
        """Return True if a target receives new writes during its resync; otherwise it
        would miss data again at once.

        A suspended Primary counts like the writer, since this resync may let it continue.
        """
        frozen = [one for one in self._replicas.values() if one.role is PRIMARY and one.suspended]
        if frozen:
            partition = self._mesh.partition_of(target)
            frozen = [one for one in frozen if one in partition]
        for one in (*filter(None, (writer,)), *frozen):
            link = None if one is target else self._mesh.link(one.node, target.node)
            if one is not target and (
                link is None
                or not (link.connected or (link.silent and _blocks_writes(target.node, one)))
            ):
                return False
        return True

    def _start_resync(self, target: DrbdReplica) -> None:
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
        target.apply_event(DiskEvent.SYNC_BEGAN)

        def finish() -> None:
            self._stop_resync(target.node)
            target.missing, target.behind = 0.0, False
            target.apply_event(DiskEvent.SYNC_ENDED)
            self._update_state()

        resync = Resync(source.node, target.node, link, target.missing, finish)
        self.resyncs[target.node] = resync
        self._kernel.resyncs.begin(resync)

    def _stop_resync(self, node: str) -> None:
        left = self._kernel.resyncs.end(self.resyncs.pop(node))
        if node in self._replicas:
            self._replicas[node].missing = left


def _visible_to(replica: DrbdReplica) -> VisibleReplicas:
    visible_peers = replica.visible_peers.values()
    up_to_date, diskless, quorate = (
        0 + (replica.disk is UP_TO_DATE),
        0 + (replica.disk is _DISKLESS),
        0,
    )
    for peer in visible_peers:
        if peer.disk is UP_TO_DATE:
            up_to_date += 1
            quorate += peer.quorum
        elif peer.disk is _DISKLESS:
            diskless += 1
    return VisibleReplicas(
        up_to_date, 1 + len(visible_peers) - up_to_date - diskless, diskless, quorate
    )


def _blocks_writes(silent: str, writer: DrbdReplica) -> bool:  # a diskless peer stores nothing
    return writer.visible_peers[silent].disk is not _DISKLESS


class DrbdResource:
    """A resource on all its nodes: commands, power failures and network changes act on it.

    Each of them settles pending writes first and updates the common state last.
    """

    def __init__(self, name: str, kernel: KernelServices) -> None:
        self.name = name
        self.replicas: dict[str, DrbdReplica] = {}
        self.writes = WriteTracker(kernel.clock.now, kernel.parameters.write_rate)
        self.mesh = ConnectionMesh(name, self.replicas, kernel, self.update_state)
        self.resolver = StateResolver(
            self.replicas, self.mesh, self.writes, kernel, self.update_state
        )
        self.size: int | None = None
        """Bytes of the device, if any replica has a disk: all disks have grown before it does."""
        self.visible_statuses: dict[str, ResourceStatus | None] = {}
        """Statuses without amounts, as computed since the last update."""
        self.statuses: dict[str, ResourceStatus] = {}
        """Statuses with amounts, kept while no amount changes."""
        self._kernel = kernel
        self._initialisations = 0
        self._promotions = 0

    @property
    def is_removed(self) -> bool:
        return not any(replica.config or replica.diskful for replica in self.replicas.values())

    @property
    def has_missing_data(self) -> bool:
        """True if a replica misses data that no resync is bringing, so that statuses have to be
        computed with amounts.
        """
        return bool([one for one in self.replicas.values() if one.missing or one.activity])

    @property
    def is_static(self) -> bool:
        """True if no amount changes until the next update of the state, so that statuses may be
        cached.
        """
        return not self.resolver.resyncs and not self.writes.has_absent

    def dismantle(self) -> None:
        """Break the reference cycles of a removed resource. Long runs remove many, which the
        garbage collector would otherwise have to search for.
        """
        del self.mesh, self.resolver

    def update_state(self) -> None:
        """Let the replicas settle on a new state, drop the cached statuses, and report the change.
        Called at the end of every command and event.
        """
        self.resolver.resolve()
        self.size = min(
            [one.size for one in self.replicas.values() if one.disk is not DISKLESS], default=None
        )
        self.visible_statuses.clear()
        self.statuses.clear()
        self._kernel.changed(self)

    def update_network(self) -> None:
        """Follow a change of the network. Resyncs may need another rate even if no connection
        changed.
        """
        if self.mesh.update_quality() or self.resolver.resyncs:
            self.update_state()

    def up(self, node: str, config: ResourceConfig) -> None:
        replica = self.replicas.setdefault(node, DrbdReplica(node))
        before = replica.config
        if before == config:
            return
        self.writes.settle()
        replica.configure(config)
        if before is None or not config.has_same_effect_as(before):
            self.mesh.adjust(replica, before)
            self.update_state()

    def down(self, node: str, *, wipe: bool) -> None:
        replica = self.replicas[node]
        self.writes.settle()
        replica.stop()
        if wipe:
            replica.wipe()
        if not replica.diskful:
            del self.replicas[node]
        self.mesh.disconnect(node)
        self.update_state()

    def lose_power(self, node: str) -> None:
        replica = self.replicas[node]
        self.writes.settle()
        self.mesh.lose_power(node)
        if replica.role is Role.PRIMARY and replica.diskful and not replica.suspended:
            replica.activity = min(float(replica.size), self._kernel.parameters.activity)
        replica.stop()
        self.mesh.update_links(node)
        self.update_state()

    def initialize(self, node: str) -> None:
        replica = self.replicas[node]
        self.writes.settle()
        self._initialisations += 1
        replica.data, replica.missing = self._initialisations, 0.0
        replica.apply_event(DiskEvent.INITIALIZED)
        self.update_state()

    def promote(self, node: str) -> None:
        self._promotions += 1
        replica = self.replicas[node]
        replica.role, replica.promoted = Role.PRIMARY, self._promotions
        self.update_state()

    def demote(self, node: str) -> None:
        self.replicas[node].demote()
        self.update_state()
