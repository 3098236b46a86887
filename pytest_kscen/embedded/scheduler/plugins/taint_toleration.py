"""Plugin TaintToleration: filter by NoSchedule and NoExecute taints, score by PreferNoSchedule
ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.node_matching import (
    HARD_EFFECTS,
    first_untolerated_taint,
    taints_of,
    tolerates,
)
from pytest_kscen.embedded.scheduler.framework.events import (
    NODE,
    POD,
    Action,
    Interest,
    is_same_pod,
)
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import Status, unresolvable
from pytest_kscen.embedded.scheduler.plugins.score_formulas import (
    normalize_reversed,
    normalize_reversed_many,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.node_table import Mask, NodeTable, Rows, Scores
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

UNTOLERATED_TAINT = unresolvable("node(s) had untolerated taint(s)").by("TaintToleration")
PREFER_NO_SCHEDULE = "PreferNoSchedule"
Taints = tuple[tuple[str, str, str], ...]


class TaintToleration(Plugin):
    """Filter of nodes with untolerated hard taints; fewer untolerated soft taints score higher."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return (
            UNTOLERATED_TAINT
            if node.hard_taints and first_untolerated_taint(node.hard_taints, pod.tolerations)
            else None
        )

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> Mask | None:
        return untolerated_mask(pod, table, rows)

    def is_indifferent(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> bool:
        return not any(node.soft_taints for node in nodes)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return _count_intolerable_soft(node.soft_taints, pod) if node.soft_taints else 0

    def score_many(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        return table.taints.evaluate_scores(
            lambda taints: _count_intolerable_soft(
                _taint_objects(taints, (PREFER_NO_SCHEDULE,)), pod
            ),
            rows,
        )

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        return normalize_reversed(scores)

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        return normalize_reversed_many(scores)

    def events(self) -> Sequence[Interest]:
        return (
            Interest(
                NODE,
                Action.ADD | Action.NODE_TAINT,
                lambda pod, old, new: (
                    new is not None
                    and not (old is not None and _tolerates_all(pod, old))
                    and _tolerates_all(pod, new)
                ),
            ),
            Interest(POD, Action.POD_TOLERATION, is_same_pod),
        )


def untolerated_mask(pod: PodInfo, table: NodeTable, rows: Rows) -> Mask | None:
    """Return the mask of rows with a hard taint that the pod does not tolerate; None if no row has
    one.
    """
    if table.taints.values in ([], [()]):
        return None
    return table.taints.evaluate(
        lambda taints: (
            first_untolerated_taint(_taint_objects(taints, HARD_EFFECTS), pod.tolerations)
            is not None
        ),
        rows,
    )


def _taint_objects(taints: Taints, effects: tuple[str, ...]) -> list[Obj]:
    return [
        {"key": key, "value": value, "effect": effect}
        for key, value, effect in taints
        if effect in effects
    ]


def _count_intolerable_soft(taints: Iterable[Obj], pod: PodInfo) -> int:
    tolerations = [
        one
        for one in pod.tolerations
        if not one.get("effect") or one["effect"] == PREFER_NO_SCHEDULE
    ]
    return sum(
        not any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints
    )


def _tolerates_all(pod: PodInfo, node: Obj) -> bool:
    return first_untolerated_taint(taints_of(node), pod.tolerations) is None
