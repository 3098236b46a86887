"""Replicas, attachments and layouts as they were read from the API's objects, kept as long as these are the same objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.controller.layout import Layout
from pytest_kscen.simulation.storage.controller.view import Attachment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.view import Past, Replica
    from pytest_kscen.simulation.storage.fleet import Fleet, Host
    from pytest_kscen.simulation.storage.generations import Generation

NO_CLASS = Layout(diskful=0, io_ready=1, redundancy=1, failures=0)


class Readings:
    """Of one cluster. Objects are never changed, so what one says is said for good."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._read: dict[str, tuple[Obj, object, Replica]] = {}
        self._judged: dict[str, tuple[Obj, object, Host | None, Replica]] = {}
        self._attachments: dict[str, Attachment] = {}
        self._layouts: dict[str, tuple[Obj | None, Obj, Layout]] = {}
        self._pasts: dict[str, tuple[Obj, Past]] = {}
        self._told: dict[str, tuple[Replica | Attachment, object, Obj | None]] = {}

    def of(self, obj: Obj, volume: Obj | None) -> Replica:
        name, beside = obj["metadata"]["name"], self._generation.read_beside(volume)
        known = self._read.get(name)
        if known and known[0] is obj and known[1] is beside:
            return known[2]
        replica = self._generation.read(obj, volume)
        self._read[name] = obj, beside, replica
        return replica

    def all_of(self, objs: Iterable[Obj], volume: Obj | None) -> list[Replica]:
        """Several, all with the same volume beside them."""
        beside, found = self._generation.read_beside(volume), []
        for obj in objs:
            known = self._read.get(obj["metadata"]["name"])
            found.append(known[2] if known and known[0] is obj and known[1] is beside else self.of(obj, volume))
        return found

    def judged(self, objs: Iterable[Obj], volume: Obj, fleet: Fleet) -> list[Replica]:
        """Those of a volume, with what follows from the nodes that they are on."""
        beside, hosts, found = self._generation.read_beside(volume), fleet.hosts, []
        for obj in objs:
            name = obj["metadata"]["name"]
            known = self._judged.get(name)
            if known is None or known[0] is not obj or known[1] is not beside or known[2] is not hosts.get(known[3].node):
                replica = self.of(obj, volume)
                trouble = replica.node and fleet.host(replica.node).trouble
                judged = replica.unheard(trouble) if trouble else replica
                known = self._judged[name] = obj, beside, hosts.get(replica.node), judged
            found.append(known[3])
        return found

    def is_told(self, part: Replica | Attachment, grounds: object) -> bool:
        """Whether this part of a volume says already all that follows from these grounds, by what was noted of it before."""
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

    def note_told(self, part: Replica | Attachment, grounds: object, status: Obj | None) -> None:
        """What follows from these grounds for a part like this; None if it says so already."""
        self._told[part.name] = part, grounds, status

    def attachment(self, obj: Obj) -> Attachment:
        name = obj["metadata"]["name"]
        known = self._attachments.get(name)
        if known is None or known.obj is not obj:
            known = self._attachments[name] = Attachment.of(obj)
        return known

    def past(self, volume: Obj) -> Past:
        name = volume["metadata"]["name"]
        known = self._pasts.get(name)
        if known is None or known[0] is not volume:
            known = self._pasts[name] = volume, self._generation.before(volume)
        return known[1]

    def layout(self, storage_class: Obj | None, volume: Obj) -> Layout:
        """What a volume is to be; nothing, while its class is not there."""
        name, spec = volume["metadata"]["name"], volume["spec"]
        known = self._layouts.get(name)
        if known and known[0] is storage_class and known[1] is spec:
            return known[2]
        layout = self._generation.layout(storage_class, volume) or NO_CLASS
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
