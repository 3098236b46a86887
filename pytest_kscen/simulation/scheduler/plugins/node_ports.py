"""A port of the host can be had once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.placement.demand import demand_of
from pytest_kscen.simulation.scheduler.framework.events import NODE, POD, Action, Interest
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import SKIP, Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo

TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports").by("NodePorts")


class NodePorts(Plugin):
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        return None if pod.demand.ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return TAKEN if node.load.ports and node.load.ports_clash(pod.demand) else None

    def events(self) -> Sequence[Interest]:
        return Interest(POD, Action.DELETE, _frees_a_port), Interest(NODE, Action.ADD)


def _frees_a_port(pod: PodInfo, old: Obj | None, _: Obj | None) -> bool:
    freed = demand_of(old).ports if old else ()
    return any(port.clashes(other) for port in pod.demand.ports for other in freed)
