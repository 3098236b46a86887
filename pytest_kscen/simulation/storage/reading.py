"""Replicas as they were read from the API's objects, kept as long as nothing that they were read from is another object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.storage.generations.generation import judged

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.view import Replica
    from pytest_kscen.simulation.storage.fleet import Host
    from pytest_kscen.simulation.storage.generations import Generation


class Readings:
    """Of one cluster. Objects are never changed, so what one says is said for good."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._read: dict[str, tuple[Obj, object, Replica]] = {}
        self._judged: dict[str, tuple[Replica, Host, Replica]] = {}

    def of(self, obj: Obj, volume: Obj | None) -> Replica:
        name, beside = obj["metadata"]["name"], self._generation.read_beside(volume)
        known = self._read.get(name)
        if known and known[0] is obj and known[1] is beside:
            return known[2]
        replica = self._generation.read(obj, volume)
        self._read[name] = obj, beside, replica
        return replica

    def judged(self, obj: Obj, volume: Obj | None, host: Host) -> Replica:
        """With what follows from the node that it is on."""
        replica = self.of(obj, volume)
        known = self._judged.get(replica.name)
        if known and known[0] is replica and known[1] is host:
            return known[2]
        result = judged(replica, host)
        self._judged[replica.name] = replica, host, result
        return result

    def forget(self, name: str) -> None:
        self._read.pop(name, None)
        self._judged.pop(name, None)
