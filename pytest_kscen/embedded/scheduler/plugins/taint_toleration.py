"""Taints keep pods away that do not tolerate them; those that only prefer to, make a node less
good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.node_matching import (
    HARD_EFFECTS,
    first_untolerated_taint,
    taints_of,
    tolerates,
)
from pytest_kscen.embedded.scheduler.framework.events import NODE, POD, Action, Interest
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import Status, unresolvable
from pytest_kscen.embedded.scheduler.plugins.score_formulas import turned, turned_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Scores, Table, Truths
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

TAINTED = unresolvable("node(s) had untolerated taint(s)").by("TaintToleration")
SOFT = "PreferNoSchedule"
Taints = tuple[tuple[str, str, str], ...]


class TaintToleration(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return (
            TAINTED
            if node.hard_taints and first_untolerated_taint(node.hard_taints, pod.tolerations)
            else None
        )

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: Table, rows: Rows
    ) -> Truths | None:
        return repelled(pod, table, rows)

    def is_indifferent(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> bool:
        return not any(node.soft_taints for node in nodes)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return _troubling(node.soft_taints, pod) if node.soft_taints else 0

    def score_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Scores:
        return table.taints.rated(lambda taints: _troubling(_objects(taints, (SOFT,)), pod), rows)

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        return turned(scores)

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        return turned_many(scores)

    def events(self) -> Sequence[Interest]:
        return (
            Interest(NODE, Action.ADD | Action.NODE_TAINT, _became_bearable),
            Interest(
                POD,
                Action.POD_TOLERATION,
                lambda pod, _, new: bool(new and new["metadata"]["uid"] == pod.uid),
            ),
        )


def repelled(pod: PodInfo, table: Table, rows: Rows) -> Truths | None:
    """Where a hard taint keeps the pod away; None if nowhere."""
    if table.taints.values in ([], [()]):
        return None
    return table.taints.judged(
        lambda taints: (
            first_untolerated_taint(_objects(taints, HARD_EFFECTS), pod.tolerations) is not None
        ),
        rows,
    )


def _objects(taints: Taints, effects: tuple[str, ...]) -> list[Obj]:
    return [
        {"key": key, "value": value, "effect": effect}
        for key, value, effect in taints
        if effect in effects
    ]


def _troubling(taints: Iterable[Obj], pod: PodInfo) -> int:
    """How many of these the pod would rather not be near."""
    tolerations = [one for one in pod.tolerations if not one.get("effect") or one["effect"] == SOFT]
    return sum(
        not any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints
    )


def _became_bearable(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
    was = old is not None and first_untolerated_taint(taints_of(old), pod.tolerations) is None
    return (
        new is not None
        and not was
        and first_untolerated_taint(taints_of(new), pod.tolerations) is None
    )
