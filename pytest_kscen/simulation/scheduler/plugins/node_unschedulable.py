"""A node that is cordoned takes only pods that tolerate it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.placement.taints import tolerates
from pytest_kscen.simulation.scheduler.framework.events import NODE, POD, Action, Interest
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.table import Rows, Table, Truths

TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
CORDONED = unresolvable("node(s) were unschedulable").by("NodeUnschedulable")


class NodeUnschedulable(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return CORDONED if node.unschedulable and not _tolerates(pod) else None

    def filter_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Truths | None:
        closed = table.unschedulable[rows]
        return closed if closed.any() and not _tolerates(pod) else None

    def events(self) -> Sequence[Interest]:
        return (
            Interest(NODE, Action.ADD | Action.NODE_TAINT, _is_open),
            Interest(POD, Action.POD_TOLERATION, lambda pod, _, new: bool(new and new["metadata"]["uid"] == pod.uid)),
        )


def _tolerates(pod: PodInfo) -> bool:
    return any(tolerates(toleration, TAINT) for toleration in pod.tolerations)


def _is_open(_: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    def closed(node: Obj | None) -> bool:
        return bool(((node or {}).get("spec") or {}).get("unschedulable"))

    return new is not None and not closed(new) and (old is None or closed(old))
