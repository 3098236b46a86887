"""A pod that names its node goes there and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.scheduler.framework.events import NODE, Action, Interest
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.table import Rows, Table, Truths

ELSEWHERE = unresolvable("node(s) didn't match the requested node name").by("NodeName")


class NodeName(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        wanted = pod.spec.get("nodeName")
        return ELSEWHERE if wanted and wanted != node.name else None

    def filter_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Truths | None:
        wanted = pod.spec.get("nodeName")
        return table.names.judged(lambda name: name != wanted, rows) if wanted else None

    def events(self) -> Sequence[Interest]:
        return (Interest(NODE, Action.ADD),)
