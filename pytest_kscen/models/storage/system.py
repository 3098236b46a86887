"""What all pods of one cluster's storage have in common: the kernels under them, the picture of the
API, and who is at work.

What changes is passed on to those who are at work at that moment; whoever comes to work begins with
what is there."""

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


# Replicas, attachments and layouts as they were read from the API's objects, kept as long as
# these are the same objects.


NO_LAYOUT = VolumeLayout(diskful=0, io_ready=1, redundancy=1, failures=0)


class ParsedObjects:
    """Of one cluster. Objects are never changed, so what one says is said for good."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._read: dict[str, tuple[Obj, object, VolumeReplica]] = {}
        self._judged: dict[str, tuple[Obj, object, StorageNode | None, VolumeReplica]] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._layouts: dict[str, tuple[Obj | None, Obj, VolumeLayout]] = {}
        self._pasts: dict[str, tuple[Obj, PreviousDecisions]] = {}
        self._told: dict[str, tuple[VolumeReplica | VolumeAttachment, object, Obj | None]] = {}

    def of(self, obj: Obj, volume: Obj | None) -> VolumeReplica:
        name, beside = obj["metadata"]["name"], self._generation.read_beside(volume)
        known = self._read.get(name)
        if known and known[0] is obj and known[1] is beside:
            return known[2]
        replica = self._generation.read(obj, volume)
        self._read[name] = obj, beside, replica
        return replica

    def all_of(self, objs: Iterable[Obj], volume: Obj | None) -> list[VolumeReplica]:
        """Several, all with the same volume beside them."""
        beside, found = self._generation.read_beside(volume), []
        for obj in objs:
            known = self._read.get(obj["metadata"]["name"])
            found.append(
                known[2]
                if known and known[0] is obj and known[1] is beside
                else self.of(obj, volume)
            )
        return found

    def judged(self, objs: Iterable[Obj], volume: Obj, fleet: StorageNodes) -> list[VolumeReplica]:
        """Those of a volume, with what follows from the nodes that they are on."""
        beside, hosts, found = self._generation.read_beside(volume), fleet.hosts, []
        for obj in objs:
            name = obj["metadata"]["name"]
            known = self._judged.get(name)
            if (
                known is None
                or known[0] is not obj
                or known[1] is not beside
                or known[2] is not hosts.get(known[3].node)
            ):
                replica = self.of(obj, volume)
                trouble = replica.node and fleet.host(replica.node).trouble
                judged = replica.unheard(trouble) if trouble else replica
                known = self._judged[name] = obj, beside, hosts.get(replica.node), judged
            found.append(known[3])
        return found

    def is_told(self, part: VolumeReplica | VolumeAttachment, grounds: object) -> bool:
        """Whether this part of a volume says already all that follows from these grounds, by
        what was noted of it before.
        """
        known = self._told.get(part.name)
        if known is None or known[1] != grounds:
            return False
        if known[0] is part:
            return known[2] is None
        if known[2] is None or known[2] != part.obj.get("status") or known[0] != part:
            return False
        if known[0].obj["metadata"]["generation"] != part.obj["metadata"]["generation"]:
            return False
        self._told[part.name] = part, grounds, None  # it has been written
        return True

    def note_told(
        self, part: VolumeReplica | VolumeAttachment, grounds: object, status: Obj | None
    ) -> None:
        """What follows from these grounds for a part like this; None if it says so already."""
        self._told[part.name] = part, grounds, status

    def attachment(self, obj: Obj) -> VolumeAttachment:
        name = obj["metadata"]["name"]
        known = self._attachments.get(name)
        if known is None or known.obj is not obj:
            known = self._attachments[name] = VolumeAttachment.of(obj)
        return known

    def past(self, volume: Obj) -> PreviousDecisions:
        name = volume["metadata"]["name"]
        known = self._pasts.get(name)
        if known is None or known[0] is not volume:
            known = self._pasts[name] = volume, self._generation.before(volume)
        return known[1]

    def layout(self, storage_class: Obj | None, volume: Obj) -> VolumeLayout:
        """What a volume is to be; nothing, while its class is not there."""
        name, spec = volume["metadata"]["name"], volume["spec"]
        known = self._layouts.get(name)
        if known and known[0] is storage_class and known[1] is spec:
            return known[2]
        layout = self._generation.layout(storage_class, volume) or NO_LAYOUT
        self._layouts[name] = storage_class, spec, layout
        return layout

    def forget_replica(self, name: str) -> None:
        self._read.pop(name, None)
        self._judged.pop(name, None)
        self._told.pop(name, None)

    def forget_attachment(self, name: str) -> None:
        self._attachments.pop(name, None)
        self._told.pop(name, None)

    def forget_volume(self, name: str) -> None:
        self._layouts.pop(name, None)
        self._pasts.pop(name, None)


class StorageSystem:
    """One cluster's storage."""

    def __init__(
        self, site: Site, informers: Informers, clock: Clock, chance: Chance, generation: Generation
    ) -> None:
        """`informers` are those of all the cluster's controllers, which somebody else keeps
        alive.
        """
        self.machines, self.clock, self.chance, self.generation = (
            site.machines,
            clock,
            chance,
            generation,
        )
        self.readings = ParsedObjects(generation)
        self.drbd = Drbd(site.machines, site.network, clock, chance)
        self.informers = informers
        self.volumes = self.informers.of(REPLICATED_VOLUMES)
        self.replicas = self.informers.of(REPLICATED_VOLUME_REPLICAS)
        self.attachments = self.informers.of(REPLICATED_VOLUME_ATTACHMENTS)
        self.classes = self.informers.of(REPLICATED_STORAGE_CLASSES)
        self.fleet = StorageNodes(self.informers)
        self.replicas_by_volume = self.replicas.index("volume", _volumes_of, lasting=True)
        self.replicas_by_node = self.replicas.index("node", _nodes_of, lasting=True)
        self.attachments_by_volume = self.attachments.index("volume", _volumes_of, lasting=True)
        self._leaders: list[VolumeListener] = []
        self._agents: dict[str, list[tuple[VolumeListener, VolumeListener]]] = {}
        self.volumes.on_change(self._volume_changed)
        self.replicas.on_change(self._replica_changed)
        self.attachments.on_change(self._attachment_changed)
        self.classes.on_change(self._class_changed)
        self.fleet.on_change(self._host_changed)
        self.drbd.on_change(self._kernel_changed)

    async def staff(self, container: ContainerContext, life: Coroutine[Any, Any, None]) -> int:
        """Live this life in a container until it is asked to stop; a refusal that ends the life
        ends the container.
        """
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(life, name=f"life of {container.pod['metadata']['name']}"),
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
        for picture in (self.volumes, self.replicas, self.attachments, self.classes):
            await picture.synced()
        await self.fleet.synced()

    # --- who is at work ---

    def join_leaders(self, hear: VolumeListener) -> Callable[[], None]:
        """Tell of volumes; what is returned ends it."""
        self._leaders.append(hear)
        return lambda: self._leaders.remove(hear)

    def join_agents(
        self, node: str, hear: VolumeListener, feel: VolumeListener
    ) -> Callable[[], None]:
        """Tell of volumes of which something else is asked, and of those that the node's kernel
        sees otherwise.
        """
        ears = hear, feel
        self._agents.setdefault(node, []).append(ears)
        return lambda: self._agents[node].remove(ears)

    def tell_leaders(self, volume: str) -> None:
        for hear in self._leaders:
            hear(volume)

    def tell_agents(self, node: str, volume: str) -> None:
        for hear, _ in self._agents.get(node, ()):
            hear(volume)

    # --- what changes ---

    def _volume_changed(self, new: Obj | None, old: Obj | None) -> None:
        """What is told of a volume is the leader's own; its agents may have to act by it."""
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            self.readings.forget_volume(name)
        if _needs_controller(new, old):
            self.tell_leaders(name)
        if self._orders(new, old):
            for replica in self.replicas_by_volume.of(name):
                for node in _nodes_of(replica):
                    self.tell_agents(node, name)

    def _replica_changed(self, new: Obj | None, old: Obj | None) -> None:
        replica = new or old or {}
        volume = replica["spec"]["replicatedVolumeName"]
        if new is None:
            self.readings.forget_replica(replica["metadata"]["name"])
        if new is None or old is None or self._is_news(new, old):
            self.tell_leaders(volume)
        if self._orders(new, old):
            for node in _nodes_of(replica):
                self.tell_agents(node, volume)

    def _is_news(self, new: Obj, old: Obj) -> bool:
        """Whether a replica says something else.

        What the leader asked of it is no news to him, unless it was to go after that.
        """
        before, now = self.readings.of(old, None), self.readings.of(new, None)
        return now != before or (now.leaving and now.asked_primary != before.asked_primary)

    def _orders(self, new: Obj | None, old: Obj | None) -> bool:
        """Whether agents have something else to go by.

        What is to go stays theirs until the leader has let go of it.
        """
        if (
            new is None
            or old is None
            or new["spec"] != old["spec"]
            or _finalizers_of(new) != _finalizers_of(old)
        ):
            return True
        return not self.generation.has_same_orders(new.get("status") or {}, old.get("status") or {})

    def _attachment_changed(self, new: Obj | None, old: Obj | None) -> None:
        """One that goes has been dealt with before."""
        if new is None and old is not None:
            self.readings.forget_attachment(old["metadata"]["name"])
        is_gone = new is None and old is not None and "deletionTimestamp" in old["metadata"]
        if not is_gone and _needs_controller(new, old):
            self.tell_leaders((new or old or {})["spec"]["replicatedVolumeName"])

    def _class_changed(self, _: Obj | None, __: Obj | None) -> None:
        for volume in self.volumes:
            self.tell_leaders(volume["metadata"]["name"])

    def _kernel_changed(self, node: str, volume: str) -> None:
        for _, feel in self._agents.get(node, ()):
            feel(volume)

    def _host_changed(self, node: str) -> None:
        """Replicas there stand otherwise; those that wait for a node may have one."""
        for replica in [*self.replicas_by_node.of(node), *self.replicas_by_node.of("")]:
            self.tell_leaders(replica["spec"]["replicatedVolumeName"])


def _needs_controller(new: Obj | None, old: Obj | None) -> bool:
    """Whether somebody wants something else, or lets go of it; who holds it as well changes
    nothing for the others.
    """
    if new is None or old is None or new["spec"] != old["spec"]:
        return True
    is_let_go = any(name not in _finalizers_of(new) for name in _finalizers_of(old))
    return is_let_go or (
        "deletionTimestamp" in new["metadata"] and "deletionTimestamp" not in old["metadata"]
    )


def _finalizers_of(obj: Obj) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def _volumes_of(obj: Obj) -> list[str]:
    return [obj["spec"]["replicatedVolumeName"]]


def _nodes_of(replica: Obj) -> list[str]:
    return [replica["spec"].get("nodeName", "")]
