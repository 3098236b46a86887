"""Nodes that the pod names by their labels or by name: those that it needs, and those that it would
like.

The plugin's arguments may add an affinity that holds for every pod.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.node_matching import (
    matches_node_requirement,
    matches_node_selector,
    matches_node_selector_term,
    node_matches_pod,
)
from pytest_kscen.embedded.scheduler.framework.events import NODE, Action, Interest
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import SKIP, Status, unresolvable
from pytest_kscen.embedded.scheduler.plugins.score_formulas import scaled, scaled_many

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Rows, Scores, Table, Truths
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
UNWANTED = unresolvable("node(s) didn't match Pod's node affinity/selector").by("NodeAffinity")
FORBIDDEN = unresolvable("node(s) didn't match scheduler-enforced node affinity").by("NodeAffinity")


class NodeAffinity(Plugin):
    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.get("addedAffinity") or {}
        self._added: Obj | None = added.get(REQUIRED)
        self._added_preferences: list[Obj] = added.get(PREFERRED) or []

    # --- what is needed ---

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | Collection[str] | None:
        required = _affinity(pod).get(REQUIRED)
        if not required and self._added is None and not pod.spec.get("nodeSelector"):
            return SKIP
        terms = (required or {}).get("nodeSelectorTerms") or ()
        named = [_named(term) for term in terms]
        if not named or any(names is None for names in named):
            return None
        union = frozenset(name for names in named for name in names or ())
        return union or unresolvable("pod affinity terms conflict")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if self._added is not None and not matches_node_selector(self._added, node.node):
            return FORBIDDEN
        return None if node_matches_pod(pod.obj, node.node) else UNWANTED

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: Table, rows: Rows
    ) -> Truths | None:
        right = selected(pod, table, rows)
        if self._added is not None:
            right = _both(right, _selected(self._added, table, rows))
        return None if right is None else ~right

    # --- what would be liked ---

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        return None if self._preferences(pod) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return sum(
            term["weight"]
            for term in self._preferences(pod)
            if matches_node_selector_term(term["preference"], node.node)
        )

    def score_many(self, state: CycleState, pod: PodInfo, table: Table, rows: Rows) -> Scores:
        scores: Scores = 0 * rows
        for term in self._preferences(pod):
            scores = scores + term["weight"] * _term(term["preference"], table, rows)
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        return scaled(scores)

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        return scaled_many(scores)

    def _preferences(self, pod: PodInfo) -> list[Obj]:
        return [*self._added_preferences, *(_affinity(pod).get(PREFERRED) or ())]

    def events(self) -> Sequence[Interest]:
        return (Interest(NODE, Action.ADD | Action.NODE_LABEL, self._became_right),)

    def _became_right(self, pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        if new is None or (self._added is not None and not matches_node_selector(self._added, new)):
            return False
        return node_matches_pod(pod.obj, new) and (
            old is None or not node_matches_pod(pod.obj, old)
        )


def selected(pod: PodInfo, table: Table, rows: Rows) -> Truths | None:
    """Where the pod itself says it may be: `pod_may_be_on` for many nodes; None if it says
    nothing.
    """
    right: Truths | None = None
    for key, value in (pod.spec.get("nodeSelector") or {}).items():
        right = _both(right, table.label(key).judged(value.__eq__, rows))
    required = _affinity(pod).get(REQUIRED)
    return right if required is None else _both(right, _selected(required, table, rows))


def _affinity(pod: PodInfo) -> Obj:
    return (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}


def _named(term: Obj) -> frozenset[str] | None:
    """The only nodes that a term can mean, if it names them."""
    names: frozenset[str] | None = None
    for part in term.get("matchFields") or ():
        if part["key"] == "metadata.name" and part["operator"] == "In":
            listed = frozenset(part.get("values") or ())
            names = listed if names is None else names & listed
    return names


def _selected(selector: Obj, table: Table, rows: Rows) -> Truths:
    right = rows < 0
    for term in selector.get("nodeSelectorTerms") or ():
        right = right | _term(term, table, rows)
    return right


def _term(term: Obj, table: Table, rows: Rows) -> Truths:
    right: Truths | None = None
    for part in term.get("matchExpressions") or ():
        judged = table.label(part["key"]).judged(
            partial(_holds, part), rows, absent=matches_node_requirement(part, {})
        )
        right = _both(right, judged)
    for part in term.get("matchFields") or ():
        right = _both(right, table.names.judged(partial(_holds, part), rows))
    return rows < 0 if right is None else right


def _holds(requirement: Obj, value: str) -> bool:
    return matches_node_requirement(requirement, {requirement["key"]: value})


def _both(one: Truths | None, other: Truths) -> Truths:
    return other if one is None else one & other
