"""The agent's pod on a node: it applies the orders for each replica there and reports its state.

Started by the storage's image. It reads the API and drives the node's kernel; which replicas there
are and which of them is Primary, the controller decides.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.models.storage.api_writes import SetFinalizers, WriteStatus, perform
from pytest_kscen.models.storage.attachment_rules import without_finalizer
from pytest_kscen.models.storage.drbd import (
    ConnectionState,
    DiskState,
    DrbdRefused,
    ReplicationState,
    Role,
)
from pytest_kscen.models.storage.generations.generation import (
    PORTS,
    AgentReport,
    is_initial_replica,
)
from pytest_kscen.models.storage.volume_view import AGENT_FINALIZER, ReplicaAddress
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS

if TYPE_CHECKING:
    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.models.storage.drbd import ResourceConfig, ResourceStatus
    from pytest_kscen.models.storage.generations.generation import AgentOrders, ReportAnswer
    from pytest_kscen.models.storage.system import StorageSystem
    from pytest_kscen.models.storage.volume_view import VolumeReplica
    from pytest_kscen.objects.resources import Obj


# All times in seconds.
PEER_REMOVAL_GRACE = 1.0  # wait after a lost peer: its replica may have been removed
CONNECT_GRACE = 5.0  # wait for links to connect and for short resyncs to end
PROGRESS_INTERVAL = 10.0  # between two reports of a resync's progress
REPORT_INTERVAL = 60.0  # until peers' roles and amounts are reported, if nothing else was
_UP_TO_DATE, CONNECTED, SYNC_TARGET = (
    DiskState.UP_TO_DATE,
    ConnectionState.CONNECTED,
    ReplicationState.SYNC_TARGET,
)  # looking up enumeration members is slow
COMPLETE_DISKS = (_UP_TO_DATE, DiskState.DISKLESS)


class ReportPacing:
    """Decision when an agent reports a replica's state.

    Bad news, completion and answers to orders are due at once; a state on its way to completion is
    reported when it is complete, or after a few seconds; all else goes with the next report.
    """

    def __init__(self) -> None:
        self._reported: dict[str, tuple[ResourceStatus, ReportAnswer]] = {}
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}
        """Time at which the next report is due, by replica."""

    def delay(
        self, replica: VolumeReplica, status: ResourceStatus, answer: ReportAnswer, now: float
    ) -> float:
        """Return the seconds until the state is due. An answer to new orders is due at once."""
        reported, answered = self._reported.get(replica.name, (None, answer))
        if answered != answer:
            return 0.0
        due = self._due[replica.name] = self._due_at(replica, status, reported, now)
        return max(0.0, due - now)

    def delay_if_sooner(
        self, replica: VolumeReplica, status: ResourceStatus, now: float
    ) -> float | None:
        """Return the seconds until the state is due if that is earlier than planned; otherwise
        None.
        """
        reported, _ = self._reported.get(replica.name, (None, None))
        if reported == status:  # the state is again the reported one
            self._clear(replica.name)
            return None
        due = self._due_at(replica, status, reported, now)
        if due >= self._due.get(replica.name, math.inf):
            return None
        self._due[replica.name] = due
        return max(0.0, due - now)

    def record_report(
        self, replica: VolumeReplica, status: ResourceStatus, answer: ReportAnswer
    ) -> None:
        self._reported[replica.name] = status, answer
        self._clear(replica.name)

    def forget(self, replica: str) -> None:
        for known in (self._reported, self._since, self._due):
            known.pop(replica, None)

    def _clear(self, replica: str) -> None:
        self._since.pop(replica, None)
        self._due.pop(replica, None)

    def _due_at(
        self,
        replica: VolumeReplica,
        status: ResourceStatus,
        reported: ResourceStatus | None,
        now: float,
    ) -> float:
        return self._since.setdefault(replica.name, now) + _report_delay(replica, status, reported)


def is_syncing(status: ResourceStatus) -> bool:
    """Return True if a replica of the resource receives data, so that amounts change by
    themselves.
    """
    return SYNC_TARGET in [link.replication for link in status.connections.values()]


def _report_delay(
    replica: VolumeReplica, status: ResourceStatus, reported: ResourceStatus | None
) -> float:
    """Return the seconds that a state may wait for its report, by the first rule that applies."""
    if reported == status or (
        replica.in_sync and replica.is_diskful and status.disk_state != _UP_TO_DATE
    ):
        return 0.0
    if reported is None:
        # at once, or else another disk would begin, too
        has_begun = not replica.initialized and status.disk_state == _UP_TO_DATE
        return (
            0.0
            if has_begun or _is_complete(status) or replica.in_quorum > status.quorum
            else CONNECT_GRACE
        )
    before = reported.connections
    others = [
        node
        for node, link in status.connections.items()
        if node not in before or before[node].state is not link.state
    ]
    if not others and reported[:-1] == status[:-1]:  # all but the connections
        return PROGRESS_INTERVAL if is_syncing(status) else REPORT_INTERVAL
    if (
        _is_complete(status)
        or status.role is not reported.role
        or (status.suspended and not reported.suspended)
        # new peers come with new votes
        or (reported.quorum and not status.quorum and status.connections.keys() == before.keys())
    ):
        return 0.0
    is_cut = any(node in before and before[node].state is CONNECTED for node in others)
    return PEER_REMOVAL_GRACE if is_cut else CONNECT_GRACE


def _is_complete(status: ResourceStatus) -> bool:
    if not status.quorum or status.disk_state not in COMPLETE_DISKS:
        return False
    return not [link for link in status.connections.values() if link.state is not CONNECTED]


AGENT_NAME = "replicated-volume-agent"
EVENT_DELAY = 0.1  # until a kernel has reported all consequences of one event
RETRY_AFTER_REFUSAL = 2.0  # until a refused command is repeated
RETRY_UNREACHABLE = 1.0  # until an agent that cannot reach the API tries again
# constants, because looking up enumeration members is slow
PRIMARY, UP_TO_DATE = Role.PRIMARY, DiskState.UP_TO_DATE


class _CachedOrders(NamedTuple):
    replica: str
    inputs: object
    orders: AgentOrders


class StorageAgent:
    """Agent process on one node.

    All that it remembers could be read again from the API and from the kernel, so a restart loses
    nothing.
    """

    def __init__(self, system: StorageSystem, container: ContainerContext) -> None:
        self._system = system
        self._node = container.node
        self._context = ControllerContext.of(
            f"{AGENT_NAME} on {container.node}", container.api, container.clock, system.informers
        )
        self._configs: dict[str, ResourceConfig] = {}
        self._read: dict[str, _CachedOrders] = {}
        self._pace = ReportPacing()

    async def run(self) -> None:
        await self._system.synced()
        controller = self._context.controller(
            self._reconcile, self._system.volumes, self._system.replicas
        )

        def orders_changed(volume: str) -> None:
            controller.enqueue_after(volume, EVENT_DELAY)

        def kernel_changed(volume: str) -> None:
            delay = self._due_in(volume)
            if delay is not None:
                controller.enqueue_after(volume, max(EVENT_DELAY, delay))

        remove_agent = self._system.add_agent(self._node, orders_changed, kernel_changed)
        try:
            for obj in self._system.replicas_by_node.of(self._node):
                controller.enqueue(obj["spec"]["replicatedVolumeName"])
            await controller.run()
        finally:
            remove_agent()

    def _due_in(self, volume: str) -> float | None:
        known, status = self._read.get(volume), self._system.drbd.status(self._node, volume)
        obj = self._system.replicas.get(known.replica) if known else None
        if known is None or status is None or obj is None:
            return 0.0 if volume in self._configs else None  # None: this agent took it down
        if (status.role == PRIMARY) != known.orders.primary:
            return 0.0
        replica = self._system.parsed.of(obj, self._system.volumes.get(volume))
        return self._pace.delay_if_sooner(replica, status, self._context.now())

    async def _reconcile(self, volume: str) -> float | None:
        if not self._system.machines[self._node].reachable:
            return RETRY_UNREACHABLE
        await self._context.api.wait_until_visible()  # includes the ports of the last decisions
        definition = self._system.volumes.get(volume)
        replicas = self._system.parsed.replicas_of(
            self._system.replicas_by_volume.of(volume), definition
        )
        ours = [replica for replica in replicas if replica.node == self._node]
        replica = next((one for one in ours if one.held), None)
        for one in ours:
            if one.deleting and not one.held:
                # The controller has released it: stop it, and remove the agent's finalizer. The
                # data goes too, unless another replica of the volume uses it.
                self._pace.forget(one.name)
                if replica is None:
                    self._take_down(volume)
                if AGENT_FINALIZER in one.obj["metadata"].get("finalizers", ()):
                    finalizers = without_finalizer(one.obj, AGENT_FINALIZER)
                    await perform(
                        self._context.api,
                        [SetFinalizers(REPLICATED_VOLUME_REPLICAS, one.obj, finalizers)],
                    )
        if replica is None or definition is None:
            if not ours and self._system.drbd.status(self._node, volume):
                self._take_down(volume)
            return None
        return await self._manage(
            definition, replica, [one for one in replicas if one is not replica]
        )

    async def _manage(
        self, volume: Obj, replica: VolumeReplica, others: list[VolumeReplica]
    ) -> float | None:
        name = volume["metadata"]["name"]
        address = replica.address
        if address is None:
            neighbours = self._system.parsed.replicas_of(
                self._system.replicas_by_node.of(self._node), None
            )
            taken = [one.address.port for one in neighbours if one.address]
            port = next(port for port in PORTS if port not in taken)
            address = ReplicaAddress(self._system.machines[self._node].address, port)
        initial = is_initial_replica(replica, others)
        inputs = (
            self._system.generation.order_inputs(volume, replica),
            replica.type,
            replica.address,
            initial,
        )
        known = self._read.get(name)
        if known and known.replica == replica.name and known.inputs == inputs:
            orders = known.orders
        else:
            orders = self._system.generation.orders(volume, replica, initial=initial)
            self._read[name] = _CachedOrders(replica.name, inputs, orders)
        status, refusal = self._apply(name, orders, orders.config) if orders.config else (None, "")
        report = AgentReport(
            address, orders, status, {other.node: other for other in others}, refusal
        )
        delay = await self._report(replica, report)
        if refusal:
            return RETRY_AFTER_REFUSAL
        return delay or (PROGRESS_INTERVAL if status and is_syncing(status) else None)

    async def _report(self, replica: VolumeReplica, report: AgentReport) -> float | None:
        """Report the state if it is due, and return None; otherwise return the seconds until it is.

        A new address is reported at once; the state follows when it is due.
        """
        status, answer = report.status, report.answer(replica)
        delay = self._pace.delay(replica, status, answer, self._context.now()) if status else 0.0
        if delay and replica.address:
            return delay
        if delay:
            report = report._replace(status=None)
        reported = self._system.generation.report(replica, report, self._context.timestamp())
        if reported != replica.obj.get("status"):
            await perform(
                self._context.api, [WriteStatus(REPLICATED_VOLUME_REPLICAS, replica.obj, reported)]
            )
        if status and not delay:
            self._pace.record_report(replica, status, answer)
        return delay or None

    def _apply(
        self, volume: str, orders: AgentOrders, config: ResourceConfig
    ) -> tuple[ResourceStatus | None, str]:
        """Apply the orders to the kernel. Return the status afterwards, and the reason of a
        refusal.
        """
        drbd, node = self._system.drbd, self._node
        known = self._configs.get(volume)
        status = drbd.status(node, volume) if known is config or known == config else None
        if status is None:
            drbd.up(node, volume, config)
            self._configs[volume] = config
            status = drbd.status(node, volume)
        if status is None:
            return None, ""
        is_primary, begins = (
            status.role == PRIMARY,
            orders.initial and status.disk_state != UP_TO_DATE,
        )
        if is_primary == orders.primary and not begins:
            return status, ""
        try:
            if begins:
                drbd.initialize(node, volume)
            if orders.primary and not is_primary:
                drbd.primary(node, volume)
            elif is_primary and not orders.primary:
                drbd.secondary(node, volume)
        except DrbdRefused as refused:
            return drbd.status(node, volume), str(refused)
        return drbd.status(node, volume), ""

    def _take_down(self, volume: str) -> None:
        self._system.drbd.down(self._node, volume, wipe=True)
        self._configs.pop(volume, None)
        self._read.pop(volume, None)
