"""Making a volume's replicas what its layout asks for: deeds, numbers and nodes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.storage import (
    ACCESS,
    DISKFUL,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
    TIE_BREAKER,
)
from pytest_kscen.simulation.storage.controller import layout, releasing
from pytest_kscen.simulation.storage.controller.deeds import Change, Deed, Hold, Make, Remove

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.storage.controller.means import Means
    from pytest_kscen.simulation.storage.controller.view import Replica, View
    from pytest_kscen.simulation.storage.generations import Generation


def hold(view: View) -> list[Deed]:
    """Whatever is ours or concerns us is not to vanish without us. The volume's own comes with its first status."""
    deeds: list[Deed] = []
    for replica in view.living:
        if not replica.held or (replica.node and not replica.tended):
            wanted = releasing.with_finalizers(replica.obj, *releasing.finalizers_of_replica(replica.node))
            deeds.append(Hold(REPLICATED_VOLUME_REPLICAS, replica.obj, wanted))
    return deeds


def form(view: View, means: Means) -> list[Deed]:
    tie_breakers, missing = means.generation.tie_breakers, _missing_disks(view, means.generation)
    if not missing and not view.homeless and not any(layout.changes(view, (), tie_breakers)):
        return []
    hands = _Hands(view, means)
    homes = [hands.find(DISKFUL) for _ in range(missing)]
    wrong = layout.changes(view, homes, tie_breakers)
    hands.leave_alone([*wrong.surplus, *wrong.converted])
    deeds: list[Deed] = [Remove(REPLICATED_VOLUME_REPLICAS, replica.obj) for replica in wrong.surplus]
    to_access = {"spec": {"type": ACCESS}}
    deeds += [Change(REPLICATED_VOLUME_REPLICAS, replica.obj, to_access) for replica in wrong.converted]
    for replica in sorted(view.homeless, key=lambda one: not one.is_diskful):  # whoever needs a node most comes first
        if replica not in wrong.surplus:
            deeds += hands.settle(replica) or hands.stand_in(replica)
    for node in homes:
        deeds += hands.make(DISKFUL, node)
    for _ in range(wrong.access):
        if node := hands.find(ACCESS):  # a disk that was settled first may have taken it
            deeds += hands.make(ACCESS, node)
    for _ in range(wrong.tie_breakers):
        deeds += hands.make(TIE_BREAKER, hands.find(TIE_BREAKER))
    return deeds


def _missing_disks(view: View, generation: Generation) -> int:
    """The first of them gets the volume's data before there are others. Who goes before it has had them was never one."""
    there = view.diskful
    if len(there) >= view.layout.diskful:
        return 0
    has_data = sum(replica.initialized for replica in view.replicas if replica.is_diskful)
    if not generation.replaces_disks and has_data >= view.layout.diskful:
        return 0
    at_once = generation.forms_at_once or any(replica.initialized for replica in there)
    return max(0, (view.layout.diskful if at_once else 1) - len(there))


class _Hands:
    """Numbers and nodes as they are given away, one replica after the other."""

    def __init__(self, view: View, means: Means) -> None:
        self._view, self._means = view, means
        self._numbers = [replica.number for replica in [*view.replicas, *view.doubles]]
        self._nodes = [replica.node for replica in view.replicas if replica.node]
        self._disks = sum(bool(replica.node) for replica in view.diskful)
        self._able = {one.node: one for one in view.living if one.node and not one.is_diskful}

    def leave_alone(self, changing: list[Replica]) -> None:
        """These have something else to do."""
        for replica in changing:
            self._able.pop(replica.node, None)

    def find(self, type_: str) -> str:
        """A node for one of this type, if there is one: nobody else gets it."""
        node = layout.place(self._view, type_, self._nodes, self._means.load, self._means.chance)
        if node:
            self._nodes.append(node)
            self._disks += type_ == DISKFUL
        return node

    def settle(self, replica: Replica) -> list[Deed]:
        """Give a replica a node that has none."""
        node = self.find(replica.type)
        if not node:
            return []
        finalizers = releasing.with_finalizers(replica.obj, *releasing.finalizers_of_replica(node))
        return [
            Change(REPLICATED_VOLUME_REPLICAS, replica.obj, {"spec": {"nodeName": node}, "metadata": {"finalizers": finalizers}})
        ]

    def stand_in(self, replica: Replica) -> list[Deed]:
        """Where no node is free for a disk that the class asks for, somebody who is there without one gets it."""
        if not replica.is_diskful or self._disks >= self._view.layout.diskful:
            return []
        taken = [node for node in self._nodes if node not in self._able]
        other = self._able.pop(layout.place(self._view, DISKFUL, taken, self._means.load, self._means.chance), None)
        if other is None:
            return []
        self._disks += 1
        to_disk = {"spec": {"type": DISKFUL}}
        return [Change(REPLICATED_VOLUME_REPLICAS, other.obj, to_disk), Remove(REPLICATED_VOLUME_REPLICAS, replica.obj)]

    def make(self, type_: str, node: str) -> list[Deed]:
        number = layout.free_number(self._numbers)
        if number is None:
            return []
        self._numbers.append(number)
        return [Make(REPLICATED_VOLUME_REPLICAS, _replica(self._view, number, type_, node))]


def _replica(view: View, number: int, type_: str, node: str) -> Obj:
    owner = {
        "apiVersion": REPLICATED_VOLUMES.api_version,
        "kind": REPLICATED_VOLUMES.kind,
        "name": view.name,
        "uid": view.volume["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": f"{view.name}-{number}",
        "finalizers": releasing.finalizers_of_replica(node),
        "ownerReferences": [owner],
    }
    spec = {"replicatedVolumeName": view.name, "type": type_, **({"nodeName": node} if node else {})}
    return {
        "apiVersion": REPLICATED_VOLUME_REPLICAS.api_version,
        "kind": REPLICATED_VOLUME_REPLICAS.kind,
        "metadata": metadata,
        "spec": spec,
    }
