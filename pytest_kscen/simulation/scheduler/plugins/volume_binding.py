"""A pod goes where its volumes are; claims that wait for it get theirs where it goes, before it is bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.informer import Ref
from pytest_kscen.simulation.pictures import claims_of
from pytest_kscen.simulation.scheduler.framework.events import NODE, Action, Interest
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import SKIP, Status, failure, unresolvable
from pytest_kscen.simulation.scheduler.plugins.claims import Claims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.handle import Handle
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

PATIENCE = 600.0  # seconds that a pod waits for its claims once a node is chosen


class VolumeBinding(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._claims = Claims(handle.bench, args.get("bindTimeoutSeconds", PATIENCE))

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        if not pod.spec.get("volumes"):
            return SKIP
        claims = self._claims.of(pod.obj)
        if claims.problem:
            return unresolvable(claims.problem)
        if not claims.volumes and not claims.waiting and not claims.lacks_volume:
            return SKIP
        state[self.name] = claims
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        reasons = self._claims.conflicts(state[self.name], node.node)
        return unresolvable(*reasons) if reasons else None

    def pre_bind_waits(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        claims = state.get(self.name)
        return bool(claims and claims.waiting)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        claims, info = state.get(self.name), self.handle.snapshot.get(node)
        if claims is None or not claims.waiting:
            return None
        if info is not None and await self._claims.settle(claims, info.node):
            return None
        return failure("binding volumes: the claims of the pod have not been bound in time")

    def events(self) -> Sequence[Interest]:
        return (
            Interest("StorageClass", Action.ADD | Action.UPDATE, _allows_more),
            Interest("PersistentVolumeClaim", Action.ADD | Action.UPDATE, _is_its_claim),
            Interest("PersistentVolume", Action.ADD | Action.UPDATE),
            Interest("CSIStorageCapacity", Action.ADD | Action.UPDATE),
            Interest("CSIDriver", Action.UPDATE),
            Interest(NODE, Action.ADD | Action.NODE_LABEL),
        )


def _is_its_claim(pod: PodInfo, _: Obj | None, new: Obj | None) -> bool:
    return new is not None and Ref.of(new) in claims_of(pod.obj)


def _allows_more(_: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    return old is None or new is None or old.get("allowedTopologies") != new.get("allowedTopologies")
