"""Common parts of all storage pods of one cluster: the kernels, the caches, and the running
processes.

Created once, when the storage is attached. Running processes are notified of changes; a process
that starts later begins with the content of the caches.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.models.storage.drbd import Drbd
from pytest_kscen.models.storage.nodes import StorageNodes
from pytest_kscen.models.storage.volume_view import VolumeAttachment, VolumeLayout
from pytest_kscen.objects.storage import (
    REPLICATED_STORAGE_CLASSES,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any

    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.embedded.kubelet.nodes import Site
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.models.storage.generations import Generation
    from pytest_kscen.models.storage.nodes import StorageNode
    from pytest_kscen.models.storage.volume_view import PreviousDecisions, VolumeReplica
    from pytest_kscen.objects.resources import Obj

    VolumeListener = Callable[[str], None]


NO_LAYOUT = VolumeLayout(diskful=0, io_ready=1, redundancy=1, failures=0)


class ParsedObjects:
    """Replicas, attachments and layouts read from the API's objects, cached by the object's
    identity.

    Objects are never changed, so a result is valid as long as the cache holds the same object.
    """

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._read: dict[str, tuple[Obj, object, VolumeReplica]] = {}
        self._with_nodes: dict[str, tuple[Obj, object, StorageNode | None, VolumeReplica]] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._layouts: dict[str, tuple[Obj | None, Obj, VolumeLayout]] = {}
        self._previous: dict[str, tuple[Obj, PreviousDecisions]] = {}
        self._written: dict[str, tuple[VolumeReplica | VolumeAttachment, object, Obj | None]] = {}

    def of(self, obj: Obj, volume: Obj | None) -> VolumeReplica:
        name, volume_data = obj["metadata"]["name"], self._generation.volume_part(volume)
        known = self._read.get(name)
        if known and known[0] is obj and known[1] is volume_data:
            return known[2]
        replica = self._generation.read(obj, volume)
        self._read[name] = obj, volume_data, replica
        return replica

    def replicas_of(self, objs: Iterable[Obj], volume: Obj | None) -> list[VolumeReplica]:
        volume_data, found = self._generation.volume_part(volume), []
        for obj in objs:
            known = self._read.get(obj["metadata"]["name"])
            found.append(
                known[2]
                if known and known[0] is obj and known[1] is volume_data
                else self.of(obj, volume)
            )
        return found

    def with_nodes(
        self, objs: Iterable[Obj], volume: Obj, storage_nodes: StorageNodes
    ) -> list[VolumeReplica]:
        """Return a volume's replicas with the effect of their nodes' problems: on a node whose
        agent does not work, a replica is neither online nor ready.
        """
        volume_data, hosts, found = self._generation.volume_part(volume), storage_nodes.hosts, []
        for obj in objs:
            name = obj["metadata"]["name"]
            known = self._with_nodes.get(name)
            if (
                known is None
                or known[0] is not obj
                or known[1] is not volume_data
                or known[2] is not hosts.get(known[3].node)
            ):
                replica = self.of(obj, volume)
                problem = replica.node and storage_nodes.host(replica.node).problem
                with_nodes = replica.with_problem(problem) if problem else replica
                known = self._with_nodes[name] = (
                    obj,
                    volume_data,
                    hosts.get(replica.node),
                    with_nodes,
                )
            found.append(known[3])
        return found

    def is_written(self, part: VolumeReplica | VolumeAttachment, inputs: object) -> bool:
        """Return True if a status for these inputs was written before, or was not needed."""
        known = self._written.get(part.name)
        if known is None or known[1] != inputs:
            return False
        if known[0] is part:
            return known[2] is None
        if known[2] is None or known[2] != part.obj.get("status") or known[0] != part:
            return False
        if known[0].obj["metadata"]["generation"] != part.obj["metadata"]["generation"]:
            return False
        self._written[part.name] = part, inputs, None  # the write has arrived
        return True

    def note_written(
        self, part: VolumeReplica | VolumeAttachment, inputs: object, status: Obj | None
    ) -> None:
        """Record the status computed from these inputs, or None if the object has it already."""
        self._written[part.name] = part, inputs, status

    def attachment(self, obj: Obj) -> VolumeAttachment:
        name = obj["metadata"]["name"]
        known = self._attachments.get(name)
        if known is None or known.obj is not obj:
            known = self._attachments[name] = VolumeAttachment.of(obj)
        return known

    def previous(self, volume: Obj) -> PreviousDecisions:
        name = volume["metadata"]["name"]
        known = self._previous.get(name)
        if known is None or known[0] is not volume:
            known = self._previous[name] = volume, self._generation.previous_decisions(volume)
        return known[1]

    def layout(self, storage_class: Obj | None, volume: Obj) -> VolumeLayout:
        """Return the layout that the class requires; NO_LAYOUT while the class does not exist."""
        name, spec = volume["metadata"]["name"], volume["spec"]
        known = self._layouts.get(name)
        if known and known[0] is storage_class and known[1] is spec:
            return known[2]
        layout = self._generation.layout(storage_class, volume) or NO_LAYOUT
        self._layouts[name] = storage_class, spec, layout
        return layout

    def forget_replica(self, name: str) -> None:
        self._read.pop(name, None)
        self._with_nodes.pop(name, None)
        self._written.pop(name, None)

    def forget_attachment(self, name: str) -> None:
        self._attachments.pop(name, None)
        self._written.pop(name, None)

    def forget_volume(self, name: str) -> None:
        self._layouts.pop(name, None)
        self._previous.pop(name, None)


class StorageSystem:
    """Storage of one cluster, shared by all of its pods: the kernels under them, the caches of the
    API's objects, and the listeners of running controllers and agents.
    """

    def __init__(
        self, site: Site, informers: Informers, clock: Clock, chance: Chance, generation: Generation
    ) -> None:
        """Connect the storage to a cluster's machines and caches. The informers belong to the
        caller, which keeps them running.
        """
        self.machines, self.clock, self.chance, self.generation = (
            site.machines,
            clock,
            chance,
            generation,
        )
        self.parsed = ParsedObjects(generation)
        self.drbd = Drbd(site.machines, site.network, clock, chance)
        self.informers = informers
        self.volumes = self.informers.of(REPLICATED_VOLUMES)
        self.replicas = self.informers.of(REPLICATED_VOLUME_REPLICAS)
        self.attachments = self.informers.of(REPLICATED_VOLUME_ATTACHMENTS)
        self.classes = self.informers.of(REPLICATED_STORAGE_CLASSES)
        self.storage_nodes = StorageNodes(self.informers)
        self.replicas_by_volume = self.replicas.index("volume", _volumes_of, stable=True)
        self.replicas_by_node = self.replicas.index("node", _nodes_of, stable=True)
        self.attachments_by_volume = self.attachments.index("volume", _volumes_of, stable=True)
        self._controllers: list[VolumeListener] = []
        self._agents: dict[str, list[tuple[VolumeListener, VolumeListener]]] = {}
        self.volumes.on_change(self._volume_changed)
        self.replicas.on_change(self._replica_changed)

        def attachment_changed(new: Obj | None, old: Obj | None) -> None:
            """Notify the controller, except of the final removal of an attachment whose deletion it
            has handled.
            """
            if new is None and old is not None:
                self.parsed.forget_attachment(old["metadata"]["name"])
            is_gone = new is None and old is not None and "deletionTimestamp" in old["metadata"]
            if not is_gone and _needs_controller(new, old):
                self.notify_controllers((new or old or {})["spec"]["replicatedVolumeName"])

        self.attachments.on_change(attachment_changed)

        def class_changed(_: Obj | None, __: Obj | None) -> None:
            for volume in self.volumes:
                self.notify_controllers(volume["metadata"]["name"])

        def host_changed(node: str) -> None:
            # replicas on the node, and replicas without a node
            for replica in [*self.replicas_by_node.of(node), *self.replicas_by_node.of("")]:
                self.notify_controllers(replica["spec"]["replicatedVolumeName"])

        def kernel_changed(node: str, volume: str) -> None:
            for _, on_kernel in self._agents.get(node, ()):
                on_kernel(volume)

        self.classes.on_change(class_changed)
        self.storage_nodes.on_change(host_changed)
        self.drbd.on_change(kernel_changed)

    async def run_in_container(
        self, container: ContainerContext, program: Coroutine[Any, Any, None]
    ) -> int:
        """Run a storage program in a container until the container is stopped. An error of the
        program ends the container.
        """
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(program, name=f"life of {container.pod['metadata']['name']}"),
            loop.create_task(
                container.stopping(), name=f"end of {container.pod['metadata']['name']}"
            ),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
        return 0

    async def synced(self) -> None:
        for cache in (self.volumes, self.replicas, self.attachments, self.classes):
            await cache.synced()
        await self.storage_nodes.synced()

    def add_controller(self, listener: VolumeListener) -> Callable[[], None]:
        """Call the listener with each volume that the controller has to reconcile. Return a
        function that removes it.
        """
        self._controllers.append(listener)
        return lambda: self._controllers.remove(listener)

    def add_agent(
        self, node: str, on_orders: VolumeListener, on_kernel: VolumeListener
    ) -> Callable[[], None]:
        """Call `on_orders` with volumes whose orders changed, and `on_kernel` with those whose
        kernel state changed. Return a function that removes both.
        """
        listeners = on_orders, on_kernel
        self._agents.setdefault(node, []).append(listeners)
        return lambda: self._agents[node].remove(listeners)

    def notify_controllers(self, volume: str) -> None:
        for listener in self._controllers:
            listener(volume)

    def notify_agents(self, node: str, volume: str) -> None:
        for on_orders, _ in self._agents.get(node, ()):
            on_orders(volume)

    def _volume_changed(self, new: Obj | None, old: Obj | None) -> None:
        """Notify agents of changed orders. The controller is not notified of statuses, which it
        has written itself.
        """
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            self.parsed.forget_volume(name)
        if _needs_controller(new, old):
            self.notify_controllers(name)
        if self._orders_changed(new, old):
            for replica in self.replicas_by_volume.of(name):
                for node in _nodes_of(replica):
                    self.notify_agents(node, name)

    def _replica_changed(self, new: Obj | None, old: Obj | None) -> None:
        replica = new or old or {}
        volume = replica["spec"]["replicatedVolumeName"]
        if new is None:
            self.parsed.forget_replica(replica["metadata"]["name"])
        if new is None or old is None:
            needs_controller = True
        else:
            # the controller itself writes orders, so it is notified of them only after a deletion
            before, now = self.parsed.of(old, None), self.parsed.of(new, None)
            needs_controller = now != before or (
                now.deleting and now.ordered_primary != before.ordered_primary
            )
        if needs_controller:
            self.notify_controllers(volume)
        if self._orders_changed(new, old):
            for node in _nodes_of(replica):
                self.notify_agents(node, volume)

    def _orders_changed(self, new: Obj | None, old: Obj | None) -> bool:
        """Return True if the orders of agents have changed. A deleted object has orders until the
        controller releases it.
        """
        if (
            new is None
            or old is None
            or new["spec"] != old["spec"]
            or _finalizers_of(new) != _finalizers_of(old)
        ):
            return True
        return not self.generation.has_same_orders(new.get("status") or {}, old.get("status") or {})


def _needs_controller(new: Obj | None, old: Obj | None) -> bool:
    """Return True if the spec changed, deletion began, or a finalizer was removed. An added
    finalizer does not concern the controller.
    """
    if new is None or old is None or new["spec"] != old["spec"]:
        return True
    is_released = any(name not in _finalizers_of(new) for name in _finalizers_of(old))
    return is_released or (
        "deletionTimestamp" in new["metadata"] and "deletionTimestamp" not in old["metadata"]
    )


def _finalizers_of(obj: Obj) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def _volumes_of(obj: Obj) -> list[str]:
    return [obj["spec"]["replicatedVolumeName"]]


def _nodes_of(replica: Obj) -> list[str]:
    return [replica["spec"].get("nodeName", "")]
