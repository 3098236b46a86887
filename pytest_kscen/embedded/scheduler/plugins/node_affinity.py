"""Plugin NodeAffinity: nodeSelector, required and preferred node affinity.

The plugin's arguments may add an affinity that holds for all pods.
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
from pytest_kscen.embedded.scheduler.plugins.score_formulas import (
    normalize_scores,
    normalize_scores_many,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Mask, NodeTable, Rows, Scores
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.objects.resources import Obj

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
AFFINITY_MISMATCH = unresolvable("node(s) didn't match Pod's node affinity/selector").by(
    "NodeAffinity"
)
ENFORCED_AFFINITY_MISMATCH = unresolvable(
    "node(s) didn't match scheduler-enforced node affinity"
).by("NodeAffinity")


class NodeAffinity(Plugin):
    """Filter by required node affinity and nodeSelector; score by the weights of preferred
    terms.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.get("addedAffinity") or {}
        self._added: Obj | None = added.get(REQUIRED)
        self._added_preferences: list[Obj] = added.get(PREFERRED) or []

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | Collection[str] | None:
        required = _affinity(pod).get(REQUIRED)
        if not required and self._added is None and not pod.spec.get("nodeSelector"):
            return SKIP
        terms = (required or {}).get("nodeSelectorTerms") or ()
        named = [_named_nodes(term) for term in terms]
        if not named or any(names is None for names in named):
            return None
        union = frozenset(name for names in named for name in names or ())
        return union or unresolvable("pod affinity terms conflict")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if self._added is not None and not matches_node_selector(self._added, node.node):
            return ENFORCED_AFFINITY_MISMATCH
        return None if node_matches_pod(pod.obj, node.node) else AFFINITY_MISMATCH

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> Mask | None:
        right = match_pod_affinity(pod, table, rows)
        if self._added is not None:
            right = _and(right, _match_selector(self._added, table, rows))
        return None if right is None else ~right

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

    def score_many(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        scores: Scores = 0 * rows
        for term in self._preferences(pod):
            scores = scores + term["weight"] * _match_term(term["preference"], table, rows)
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        return normalize_scores(scores)

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        return normalize_scores_many(scores)

    def _preferences(self, pod: PodInfo) -> list[Obj]:
        return [*self._added_preferences, *(_affinity(pod).get(PREFERRED) or ())]

    def events(self) -> Sequence[Interest]:
        return (
            Interest(
                NODE,
                Action.ADD | Action.NODE_LABEL,
                lambda pod, old, new: (
                    new is not None
                    and (self._added is None or matches_node_selector(self._added, new))
                    and node_matches_pod(pod.obj, new)
                    and (old is None or not node_matches_pod(pod.obj, old))
                ),
            ),
        )


def match_pod_affinity(pod: PodInfo, table: NodeTable, rows: Rows) -> Mask | None:
    """Return the mask of rows that match the pod's own selector and required affinity; None if it
    has neither. Equals `node_matches_pod` for each node.
    """
    right: Mask | None = None
    for key, value in (pod.spec.get("nodeSelector") or {}).items():
        right = _and(right, table.label(key).evaluate(value.__eq__, rows))
    required = _affinity(pod).get(REQUIRED)
    return right if required is None else _and(right, _match_selector(required, table, rows))


def _affinity(pod: PodInfo) -> Obj:
    return (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}


def _named_nodes(term: Obj) -> frozenset[str] | None:
    """Return the only node names that a term can match, if it names them."""
    names: frozenset[str] | None = None
    for part in term.get("matchFields") or ():
        if part["key"] == "metadata.name" and part["operator"] == "In":
            listed = frozenset(part.get("values") or ())
            names = listed if names is None else names & listed
    return names


def _match_selector(selector: Obj, table: NodeTable, rows: Rows) -> Mask:
    right = rows < 0
    for term in selector.get("nodeSelectorTerms") or ():
        right = right | _match_term(term, table, rows)
    return right


def _match_term(term: Obj, table: NodeTable, rows: Rows) -> Mask:
    right: Mask | None = None
    for part in term.get("matchExpressions") or ():
        judged = table.label(part["key"]).evaluate(
            partial(_requirement_holds, part), rows, absent=matches_node_requirement(part, {})
        )
        right = _and(right, judged)
    for part in term.get("matchFields") or ():
        right = _and(right, table.names.evaluate(partial(_requirement_holds, part), rows))
    return rows < 0 if right is None else right


def _requirement_holds(requirement: Obj, value: str) -> bool:
    return matches_node_requirement(requirement, {requirement["key"]: value})


def _and(one: Mask | None, other: Mask) -> Mask:
    return other if one is None else one & other
