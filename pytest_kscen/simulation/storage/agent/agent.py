"""The life of an agent's pod: for each replica on its node, orders are read, the kernel is told, and its state is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS
from pytest_kscen.simulation.bench import Bench
from pytest_kscen.simulation.storage.agent.snapshots import FIGURES_EVERY, Snapshots
from pytest_kscen.simulation.storage.controller.deeds import Tell, holding, perform
from pytest_kscen.simulation.storage.controller.releasing import without
from pytest_kscen.simulation.storage.controller.view import AGENT_FINALIZER, Address
from pytest_kscen.simulation.storage.drbd import DrbdRefused, Role, State
from pytest_kscen.simulation.storage.generations.generation import PORTS, Report

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.images import ContainerContext
    from pytest_kscen.simulation.storage.controller.view import Replica
    from pytest_kscen.simulation.storage.drbd import Config, Status
    from pytest_kscen.simulation.storage.generations.generation import Orders
    from pytest_kscen.simulation.storage.plant import Plant

NAME = "replicated-volume-agent"
SETTLES = 0.1  # seconds within which a kernel has said all that it has to say of one event
LINKS_COME = 3.5  # seconds within which new peers are connected, if they are there
ASK_AGAIN = 2.0  # seconds until a kernel that refused is asked again
UNHEARD = 1.0  # seconds until an agent that the API cannot hear tries again


class Agent:
    """One process. What it remembers, the API and the kernel would tell it again."""

    def __init__(self, plant: Plant, container: ContainerContext) -> None:
        self._plant = plant
        self._node = container.node
        self._bench = Bench.of(f"{NAME} on {container.node}", container.api, container.clock, plant.informers)
        self._controller = self._bench.controller(self._reconcile, plant.volumes, plant.replicas)
        self._configs: dict[str, Config] = {}
        self._links_due: dict[str, float] = {}
        self._snapshots = Snapshots()

    async def run(self) -> None:
        await self._plant.synced()
        leave = self._plant.join_agents(self._node, self._hear)
        try:
            for obj in self._plant.replicas_by_node.of(self._node):
                self._controller.enqueue(obj["spec"]["replicatedVolumeName"])
            await self._controller.run()
        finally:
            leave()

    def _hear(self, volume: str) -> None:
        self._controller.enqueue_after(volume, SETTLES)

    async def _reconcile(self, volume: str) -> float | None:
        if not self._plant.machines[self._node].reachable:
            return UNHEARD
        await self._bench.api.caught_up()  # ports that were given away just now are seen
        definition = self._plant.volumes.get(volume)
        replicas = [self._plant.generation.read(obj, definition) for obj in self._plant.replicas_by_volume.of(volume)]
        ours = [replica for replica in replicas if replica.node == self._node]
        replica = next((one for one in ours if one.held), None)
        for one in ours:
            if one.leaving and not one.held:
                await self._end(volume, one, wipe=replica is None)
        if replica is None or definition is None:
            if not ours and self._plant.drbd.status(self._node, volume):
                self._take_down(volume)
            return None
        return await self._tend(definition, replica, [one for one in replicas if one is not replica])

    async def _tend(self, volume: Obj, replica: Replica, others: list[Replica]) -> float | None:
        name = volume["metadata"]["name"]
        address = replica.address or Address(self._plant.machines[self._node].address, self._free_port())
        orders = self._plant.generation.orders(volume, replica, others)
        known = self._configs.get(name)
        refusal = self._obey(name, orders, orders.config) if orders.config else ""
        if orders.config and (known or not replica.initialized) and _has_new_peers(orders.config, known):
            self._links_due[name] = self._bench.now() + LINKS_COME
        status = self._plant.drbd.status(self._node, name) if orders.config else None
        if status and (wait := self._seconds_until_linked(name, status)) > 0:
            return wait
        if status:
            status = self._snapshots.of(name, status, self._bench.now())
        report = Report(address, orders, status, {other.node: other for other in others}, refusal)
        told = self._plant.generation.report(replica, report, self._bench.timestamp())
        if told != replica.obj.get("status"):
            await perform(self._bench.api, [Tell(REPLICATED_VOLUME_REPLICAS, replica.obj, told)])
        if refusal:
            return ASK_AGAIN
        return FIGURES_EVERY if self._snapshots.is_moving(name) else None

    def _seconds_until_linked(self, volume: str, status: Status) -> float:
        """How long the kernel still has for links to new peers, before it is told that there are none."""
        wait = self._links_due.get(volume, 0.0) - self._bench.now()
        return wait if any(one.state != State.CONNECTED for one in status.connections.values()) else 0.0

    def _obey(self, volume: str, orders: Orders, config: Config) -> str:
        """Bring the kernel to what is asked; what it refused, and why."""
        drbd, node = self._plant.drbd, self._node
        status = drbd.status(node, volume)
        if config != self._configs.get(volume) or status is None:
            drbd.up(node, volume, config)
            self._configs[volume] = config
            status = drbd.status(node, volume)
        if status is None:
            return ""
        try:
            if orders.first and status.disk_state != "UpToDate":
                drbd.initialize(node, volume)
            if orders.primary and status.role != Role.PRIMARY:
                drbd.primary(node, volume)
            elif not orders.primary and status.role == Role.PRIMARY:
                drbd.secondary(node, volume)
        except DrbdRefused as refused:
            return str(refused)
        return ""

    async def _end(self, volume: str, replica: Replica, *, wipe: bool) -> None:
        """The controller has let it go: so does the node, with its data, unless that is another one's."""
        if wipe:
            self._take_down(volume)
        if AGENT_FINALIZER in replica.obj["metadata"].get("finalizers", ()):
            finalizers = without(replica.obj, AGENT_FINALIZER)
            await perform(self._bench.api, [holding(REPLICATED_VOLUME_REPLICAS, replica.obj, finalizers)])

    def _take_down(self, volume: str) -> None:
        self._plant.drbd.down(self._node, volume, wipe=True)
        self._configs.pop(volume, None)
        self._links_due.pop(volume, None)
        self._snapshots.forget(volume)

    def _free_port(self) -> int:
        """The first one that nobody on this node listens on."""
        there = (self._plant.generation.read(obj, None) for obj in self._plant.replicas_by_node.of(self._node))
        taken = [replica.address.port for replica in there if replica.address]
        return next(port for port in PORTS if port not in taken)


def _has_new_peers(config: Config, before: Config | None) -> bool:
    return any(node not in (before.peers if before else {}) for node in config.peers)
