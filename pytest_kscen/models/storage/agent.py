"""The life of an agent's pod: for each replica on its node, orders are read, the kernel is told,
and its state is reported.
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


# When a kernel's state is told: what is bad or complete at once, what is on its way to be so
# together, the rest along with it.


PEER_REMOVAL_GRACE = (
    1.0  # seconds within which it is seen whether a peer that was lost is to be one no more
)
CONNECT_GRACE = 5.0  # seconds within which links that come and short resyncs have come
PROGRESS_INTERVAL = 10.0  # seconds
REPORT_INTERVAL = 60.0  # seconds after which peers' roles and amounts are told, if nothing else was
_UP_TO_DATE, CONNECTED, SYNC_TARGET = (
    DiskState.UP_TO_DATE,
    ConnectionState.CONNECTED,
    ReplicationState.SYNC_TARGET,
)  # enumerations take their time
COMPLETE_DISKS = (_UP_TO_DATE, DiskState.DISKLESS)


class ReportPacing:
    """What was last told of each replica, and since when that is not all any more."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[ResourceStatus, ReportAnswer]] = {}
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}
        """When it is going to be told."""

    def wait(
        self, replica: VolumeReplica, status: ResourceStatus, answer: ReportAnswer, now: float
    ) -> float:
        """The seconds until it is to be told. Whoever gave orders is answered at once."""
        told, answered = self._told.get(replica.name, (None, answer))
        if answered != answer:
            return 0.0
        due = self._due[replica.name] = self._when(replica, status, told, now)
        return max(0.0, due - now)

    def sooner(self, replica: VolumeReplica, status: ResourceStatus, now: float) -> float | None:
        """The seconds until it is to be told, if that is before it was going to be."""
        told, _ = self._told.get(replica.name, (None, None))
        if told == status:  # it is again as it was told
            self._settle(replica.name)
            return None
        due = self._when(replica, status, told, now)
        if due >= self._due.get(replica.name, math.inf):
            return None
        self._due[replica.name] = due
        return max(0.0, due - now)

    def tell(self, replica: VolumeReplica, status: ResourceStatus, answer: ReportAnswer) -> None:
        self._told[replica.name] = status, answer
        self._settle(replica.name)

    def forget(self, replica: str) -> None:
        for known in (self._told, self._since, self._due):
            known.pop(replica, None)

    def _settle(self, replica: str) -> None:
        self._since.pop(replica, None)
        self._due.pop(replica, None)

    def _when(
        self,
        replica: VolumeReplica,
        status: ResourceStatus,
        told: ResourceStatus | None,
        now: float,
    ) -> float:
        return self._since.setdefault(replica.name, now) + _patience(replica, status, told)


def is_syncing(status: ResourceStatus) -> bool:
    """Whether its amounts move."""
    return SYNC_TARGET in [link.replication for link in status.connections.values()]


def _patience(replica: VolumeReplica, status: ResourceStatus, told: ResourceStatus | None) -> float:
    """The first that fits."""
    if told == status or (
        replica.in_sync and replica.is_diskful and status.disk_state != _UP_TO_DATE
    ):
        return 0.0
    if told is None:
        has_begun = (
            not replica.initialized and status.disk_state == _UP_TO_DATE
        )  # or else another disk would begin, too
        return (
            0.0
            if has_begun or _is_complete(status) or replica.in_quorum > status.quorum
            else CONNECT_GRACE
        )
    before = told.connections
    others = [
        node
        for node, link in status.connections.items()
        if node not in before or before[node].state is not link.state
    ]
    if not others and told[:-1] == status[:-1]:  # all but the connections
        return PROGRESS_INTERVAL if is_syncing(status) else REPORT_INTERVAL
    if _is_complete(status) or status.role is not told.role or _is_worse(status, told):
        return 0.0
    is_cut = any(node in before and before[node].state is CONNECTED for node in others)
    return PEER_REMOVAL_GRACE if is_cut else CONNECT_GRACE


def _is_complete(status: ResourceStatus) -> bool:
    if not status.quorum or status.disk_state not in COMPLETE_DISKS:
        return False
    return not [link for link in status.connections.values() if link.state is not CONNECTED]


def _is_worse(status: ResourceStatus, told: ResourceStatus) -> bool:
    same_peers = (
        status.connections.keys() == told.connections.keys()
    )  # new ones come with new votes
    alone = same_peers and told.quorum and not status.quorum
    return alone or (status.suspended and not told.suspended)


AGENT_NAME = "replicated-volume-agent"
EVENT_DELAY = 0.1  # seconds within which a kernel has said all that it has to say of one event
RETRY_AFTER_REFUSAL = 2.0  # seconds until a kernel that refused is asked again
RETRY_UNREACHABLE = 1.0  # seconds until an agent that the API cannot hear tries again
PRIMARY, UP_TO_DATE = (
    Role.PRIMARY,
    DiskState.UP_TO_DATE,
)  # an enumeration takes its time to find them


class _CachedOrders(NamedTuple):
    """The last orders for a replica, and what they were read from."""

    replica: str
    grounds: object
    orders: AgentOrders


class StorageAgent:
    """One process. What it remembers, the API and the kernel would tell it again."""

    def __init__(self, plant: StorageSystem, container: ContainerContext) -> None:
        self._plant = plant
        self._node = container.node
        self._context = ControllerContext.of(
            f"{AGENT_NAME} on {container.node}", container.api, container.clock, plant.informers
        )
        self._configs: dict[str, ResourceConfig] = {}
        self._read: dict[str, _CachedOrders] = {}
        self._pace = ReportPacing()

    async def run(self) -> None:
        await self._plant.synced()
        controller = self._context.controller(
            self._reconcile, self._plant.volumes, self._plant.replicas
        )

        def hear(volume: str) -> None:
            controller.enqueue_after(volume, EVENT_DELAY)

        def feel(volume: str) -> None:
            """The kernel has news, which want a look when they are due."""
            wait = self._due_in(volume)
            if wait is not None:
                controller.enqueue_after(volume, max(EVENT_DELAY, wait))

        leave = self._plant.join_agents(self._node, hear, feel)
        try:
            for obj in self._plant.replicas_by_node.of(self._node):
                controller.enqueue(obj["spec"]["replicatedVolumeName"])
            await controller.run()
        finally:
            leave()

    def _due_in(self, volume: str) -> float | None:
        known, status = self._read.get(volume), self._plant.drbd.status(self._node, volume)
        obj = self._plant.replicas.get(known.replica) if known else None
        if known is None or status is None or obj is None:
            return 0.0 if volume in self._configs else None  # else it was taken down here
        if (status.role == PRIMARY) != known.orders.primary:
            return 0.0
        replica = self._plant.readings.of(obj, self._plant.volumes.get(volume))
        return self._pace.sooner(replica, status, self._context.now())

    async def _reconcile(self, volume: str) -> float | None:
        if not self._plant.machines[self._node].reachable:
            return RETRY_UNREACHABLE
        await self._context.api.caught_up()  # ports that were given away just now are seen
        definition = self._plant.volumes.get(volume)
        replicas = self._plant.readings.all_of(
            self._plant.replicas_by_volume.of(volume), definition
        )
        ours = [replica for replica in replicas if replica.node == self._node]
        replica = next((one for one in ours if one.held), None)
        for one in ours:
            if one.leaving and not one.held:
                await self._end(volume, one, wipe=replica is None)
        if replica is None or definition is None:
            if not ours and self._plant.drbd.status(self._node, volume):
                self._take_down(volume)
            return None
        return await self._tend(
            definition, replica, [one for one in replicas if one is not replica]
        )

    async def _tend(
        self, volume: Obj, replica: VolumeReplica, others: list[VolumeReplica]
    ) -> float | None:
        name = volume["metadata"]["name"]
        address = replica.address or ReplicaAddress(
            self._plant.machines[self._node].address, self._free_port()
        )
        orders = self._orders_of(name, volume, replica, first=is_initial_replica(replica, others))
        status, refusal = self._obey(name, orders, orders.config) if orders.config else (None, "")
        report = AgentReport(
            address, orders, status, {other.node: other for other in others}, refusal
        )
        wait = await self._tell(replica, report)
        if refusal:
            return RETRY_AFTER_REFUSAL
        return wait or (PROGRESS_INTERVAL if status and is_syncing(status) else None)

    async def _tell(self, replica: VolumeReplica, report: AgentReport) -> float | None:
        """What is new, if it is time; else the seconds until it is.

        What has to be told now takes the rest along.
        """
        status, answer = report.status, report.answer(replica)
        wait = self._pace.wait(replica, status, answer, self._context.now()) if status else 0.0
        if wait and replica.address:
            return wait
        if wait:
            report = report._replace(status=None)
        told = self._plant.generation.report(replica, report, self._context.timestamp())
        if told != replica.obj.get("status"):
            await perform(
                self._context.api, [WriteStatus(REPLICATED_VOLUME_REPLICAS, replica.obj, told)]
            )
        if status and not wait:
            self._pace.tell(replica, status, answer)
        return wait or None

    def _orders_of(
        self, name: str, volume: Obj, replica: VolumeReplica, *, first: bool
    ) -> AgentOrders:
        grounds = (
            self._plant.generation.orders_by(volume, replica),
            replica.type,
            replica.address,
            first,
        )
        known = self._read.get(name)
        if known and known.replica == replica.name and known.grounds == grounds:
            return known.orders
        orders = self._plant.generation.orders(volume, replica, first=first)
        self._read[name] = _CachedOrders(replica.name, grounds, orders)
        return orders

    def _obey(
        self, volume: str, orders: AgentOrders, config: ResourceConfig
    ) -> tuple[ResourceStatus | None, str]:
        """Bring the kernel to what is asked; how it is then, what it refused, and why."""
        drbd, node = self._plant.drbd, self._node
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
            orders.first and status.disk_state != UP_TO_DATE,
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

    async def _end(self, volume: str, replica: VolumeReplica, *, wipe: bool) -> None:
        """The controller has let it go: so does the node, with its data, unless that is another
        one's.
        """
        self._pace.forget(replica.name)
        if wipe:
            self._take_down(volume)
        if AGENT_FINALIZER in replica.obj["metadata"].get("finalizers", ()):
            finalizers = without_finalizer(replica.obj, AGENT_FINALIZER)
            await perform(
                self._context.api,
                [SetFinalizers(REPLICATED_VOLUME_REPLICAS, replica.obj, finalizers)],
            )

    def _take_down(self, volume: str) -> None:
        self._plant.drbd.down(self._node, volume, wipe=True)
        self._configs.pop(volume, None)
        self._read.pop(volume, None)

    def _free_port(self) -> int:
        """The first one that nobody on this node listens on."""
        there = self._plant.readings.all_of(self._plant.replicas_by_node.of(self._node), None)
        taken = [replica.address.port for replica in there if replica.address]
        return next(port for port in PORTS if port not in taken)
