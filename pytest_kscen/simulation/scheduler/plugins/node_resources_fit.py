"""What the pod asks for must be left on the node; which nodes are better is a matter of strategy."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_kscen.simulation.placement.demand import demand_of
from pytest_kscen.simulation.placement.load import allocatable_of
from pytest_kscen.simulation.scheduler.framework.events import NODE, POD, Action, Interest
from pytest_kscen.simulation.scheduler.framework.plugin import Plugin
from pytest_kscen.simulation.scheduler.framework.status import Code, Status
from pytest_kscen.simulation.scheduler.plugins.shares import NATIVE, shares, shares_many, wanted, weighed
from pytest_kscen.simulation.scheduler.plugins.strategies import strategy_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.scheduler.framework.cycle import CycleState
    from pytest_kscen.simulation.scheduler.framework.handle import Handle
    from pytest_kscen.simulation.scheduler.framework.nodes import NodeInfo
    from pytest_kscen.simulation.scheduler.framework.pods import PodInfo
    from pytest_kscen.simulation.scheduler.framework.table import Rows, Scores, Table, Truths


class NodeResourcesFit(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        settings = args.get("scoringStrategy") or {}
        self._strategy = strategy_of(settings)
        self._resources = weighed(settings.get("resources"))
        self._ignored = frozenset(args.get("ignoredResources") or ())
        self._ignored_groups = frozenset(args.get("ignoredResourceGroups") or ())
        self._left_to_extenders = frozenset(args.get("ignoredByScheduler") or ())

    def _needed(self, pod: PodInfo) -> list[tuple[str, int]]:
        """What the pod asks for and somebody has to look after."""
        return [(name, asked) for name, asked in pod.demand.requests.items() if asked and not self._is_ignored(name)]

    def _is_ignored(self, name: str) -> bool:
        if name in NATIVE:
            return False
        return name in self._ignored or name in self._left_to_extenders or name.partition("/")[0] in self._ignored_groups

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        capacity, used = node.allocatable, node.load.used
        lacking: list[str] | None = None
        hopeless = False
        if node.load.pods + 1 > capacity.get("pods", 0):
            lacking = ["Too many pods"]
        for name, asked in pod.demand.requests.items():
            there = capacity.get(name, 0)
            if asked and asked > there - used.get(name, 0) and not self._is_ignored(name):
                lacking = [*(lacking or ()), f"Insufficient {name}"]
                hopeless = hopeless or asked > there
        return None if lacking is None else _refusal(tuple(lacking), hopeless=hopeless)

    def filter_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Truths | None:
        wrong: Truths = table.pods[rows] + 1 > table.room[rows]
        for name, asked in self._needed(pod):
            amount = table.amount(name)
            wrong |= amount.allocatable[rows] - amount.used[rows] < asked
        return wrong

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        state[self.name] = wanted(pod, self._resources, assumed=True)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return self._strategy.one(shares(node, state[self.name]))

    def score_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Scores:
        return self._strategy.many(shares_many(table, rows, state[self.name])) + 0 * rows

    def events(self) -> Sequence[Interest]:
        return (
            Interest(POD, Action.DELETE | Action.POD_SCALE_DOWN, _frees),
            Interest(NODE, Action.ADD | Action.NODE_ALLOCATABLE, self._offers),
        )

    def _offers(self, pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        """Whether the node has room for the pod if it were empty, and more than it had of something that is wanted."""
        if new is None:
            return False
        now, before = allocatable_of(new), allocatable_of(old) if old else {}
        needed = self._needed(pod)
        if now.get("pods", 0) < 1 or any(now.get(name, 0) < asked for name, asked in needed):
            return False
        return old is None or any(now.get(name, 0) > before.get(name, 0) for name in ("pods", *(name for name, _ in needed)))


@functools.lru_cache(maxsize=1024)
def _refusal(lacking: tuple[str, ...], *, hopeless: bool) -> Status:
    return Status(Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE, lacking, "NodeResourcesFit")


def _frees(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    """A pod that had a node is gone, or asks for less of what this one wants."""
    if old is None:
        return False
    if new is None:
        return bool(old["spec"].get("nodeName") or (old.get("status") or {}).get("nominatedNodeName"))
    if new["metadata"]["uid"] == pod.uid:
        return True
    before, now = demand_of(old).requests, demand_of(new).requests
    return bool(new["spec"].get("nodeName")) and any(before.get(name, 0) > now.get(name, 0) for name in pod.demand.requests)
