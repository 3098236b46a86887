"""Plugin PodTopologySpread: keep or prefer an even distribution of pods over topology domains.

Matching pods are summed by domain once per constraint and attempt; each node is then judged by its
domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.scheduler.framework.events import NODE, POD, Action, Interest, is_placed
from pytest_kscen.embedded.scheduler.framework.plugin import Plugin
from pytest_kscen.embedded.scheduler.framework.status import (
    SKIP,
    Status,
    unresolvable,
    unschedulable,
)
from pytest_kscen.embedded.scheduler.plugins.node_affinity import match_pod_affinity
from pytest_kscen.embedded.scheduler.plugins.pod_counts import MatchingPodCounts
from pytest_kscen.embedded.scheduler.plugins.spread_constraints import (
    HARD,
    HOSTNAME,
    READ_RESOURCES,
    SOFT,
    SYSTEM_DEFAULTS,
    ConstraintSource,
)
from pytest_kscen.embedded.scheduler.plugins.taint_toleration import untolerated_mask
from pytest_kscen.embedded.scheduler.plugins.topology_counts import (
    DictDomainSums,
    DomainSums,
    TableDomainSums,
    TrialChanges,
    sum_by_code,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
    from pytest_kscen.embedded.scheduler.framework.handle import Handle
    from pytest_kscen.embedded.scheduler.framework.node_table import Mask, NodeTable, Rows, Scores
    from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NodeInfo, PodInfo
    from pytest_kscen.embedded.scheduler.plugins.pod_counts import PodCounts
    from pytest_kscen.embedded.scheduler.plugins.spread_constraints import SpreadConstraint
    from pytest_kscen.objects.resources import Obj

    ConstraintsOf = Callable[[PodInfo], Sequence[SpreadConstraint]]


def spread_interests(constraints_of: ConstraintsOf) -> Sequence[Interest]:
    """Return the events that may help pods refused by their constraints, which this function
    returns.
    """

    def pod_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        for one in (old, new):
            if one and one["metadata"]["uid"] != pod.uid:
                same_namespace = one["metadata"].get("namespace") == pod.namespace
                if not (same_namespace and is_placed(one)):
                    return False
        constraints = constraints_of(pod)
        if old is None or new is None:
            return any(one.matches(_labels(new or old)) for one in constraints)
        tolerates_more = old["spec"].get("tolerations") != new["spec"].get("tolerations")
        return (
            new["metadata"]["uid"] == pod.uid
            and tolerates_more
            and any(one.honors_taints for one in constraints)
        ) or any(one.matches(_labels(old)) != one.matches(_labels(new)) for one in constraints)

    def node_changed(pod: PodInfo, old: Obj | None, new: Obj | None) -> bool:
        constraints = constraints_of(pod)
        had, has = _has_all(constraints, old), _has_all(constraints, new)
        if old is None or new is None:
            return had or has
        if had != has:
            return True
        return has and (
            any(_labels(old).get(one.key) != _labels(new).get(one.key) for one in constraints)
            or (old.get("spec") or {}).get("taints") != (new.get("spec") or {}).get("taints")
        )

    return (
        Interest(
            POD, Action.ADD | Action.POD_LABEL | Action.POD_TOLERATION | Action.DELETE, pod_changed
        ),
        Interest(
            NODE, Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT, node_changed
        ),
    )


def _has_all(constraints: Sequence[SpreadConstraint], node: Obj | None) -> bool:
    return node is not None and all(one.key in _labels(node) for one in constraints)


def _labels(obj: Obj | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = (obj["metadata"].get("labels") if obj else None) or {}
    return labels


MAX_SCORE = 100
NAME, SCORES = "PodTopologySpread", "PodTopologySpread/scores"
SKEW_EXCEEDED = unschedulable("node(s) didn't match pod topology spread constraints").by(NAME)
LABEL_MISSING = unresolvable(
    "node(s) didn't match pod topology spread constraints (missing required label)"
).by(NAME)
COUNT_WITHOUT_DOMAINS = 2**31 - 1  # kube-scheduler's minimum over no domains


@dataclass(slots=True)
class SpreadState:
    """Hard constraints with the sums of their domains, and trial changes of preemption by number of
    the constraint.
    """

    parts: list[tuple[SpreadConstraint, DomainSums]]
    trial: TrialChanges

    def clone(self) -> SpreadState:
        return replace(self, trial=self.trial.clone())

    def allowed_count(self, number: int, pod: PodInfo) -> int:
        """Return how many matching pods a domain may have for this pod to be added."""
        constraint, sums = self.parts[number]
        low = sums.lowest(self.trial.changes.get(str(number), {}))
        low = COUNT_WITHOUT_DOMAINS if low is None else low
        if len(sums) < constraint.min_domains:
            low = 0
        return constraint.max_skew + low - constraint.matches(pod.labels)

    def count_at(self, number: int, value: str) -> int:
        return self.parts[number][1].get(value) + self.trial.get(str(number), value)


@dataclass(slots=True)
class SpreadScoreState:
    """Soft constraints for scoring: counts by domain (by node for host names) and weight of
    each.
    """

    parts: list[tuple[SpreadConstraint, Any, float]]
    ignored: list[bool]
    """Nodes, in order, that lack one of the topology keys; they score 0."""


class PodTopologySpread(Plugin):
    """Filter and score by topology spread constraints of the pod, or by default constraints."""

    reads = READ_RESOURCES

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        listed = args.get("defaultingType") == "List"
        self._is_system = not listed
        self._constraints = ConstraintSource(
            handle.context.informers,
            args.get("defaultConstraints") or () if listed else SYSTEM_DEFAULTS,
        )
        self._snapshot = handle.snapshot

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        constraints = self._constraints.of(pod, HARD)
        if not constraints:
            return SKIP
        state[NAME] = SpreadState(
            [(one, self._sums(pod, one, constraints)) for one in constraints], TrialChanges()
        )
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        _apply_trial(state[NAME], pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        _apply_trial(state[NAME], pod, removed, node, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        spread: SpreadState = state[NAME]
        for number, (constraint, _) in enumerate(spread.parts):
            value = node.labels.get(constraint.key)
            if value is None:
                return LABEL_MISSING
            if spread.count_at(number, value) > spread.allowed_count(number, pod):
                return SKEW_EXCEEDED
        return None

    def filter_many(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> Mask | None:
        spread: SpreadState = state[NAME]
        wrong: Mask = rows < 0
        for number, (constraint, sums) in enumerate(spread.parts):
            wrong = (
                wrong
                | (table.label(constraint.key).codes[rows] < 0)
                | (sums.many(rows) > spread.allowed_count(number, pod))
            )
        return wrong

    def pre_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        constraints = self._constraints.of(pod, SOFT)
        if not constraints:
            return SKIP
        needed = (
            constraints
            if bool(pod.spec.get("topologySpreadConstraints")) or not self._is_system
            else ()
        )
        ignored = (
            [any(one.key not in node.labels for one in needed) for node in nodes]
            if needed
            else [False] * len(nodes)
        )
        scored = (
            [node for node, out in zip(nodes, ignored, strict=True) if not out]
            if any(ignored)
            else nodes
        )
        parts: list[tuple[SpreadConstraint, Any, float]] = []
        for one in constraints:
            if one.key == HOSTNAME:  # each host is a domain, whatever the inclusion policies
                parts.append((one, self._tally(pod, one), math.log(len(scored) + 2)))
            else:
                domains = {node.labels.get(one.key, "") for node in scored}
                parts.append((one, self._sums(pod, one, needed), math.log(len(domains) + 2)))
        state[SCORES] = SpreadScoreState(parts, ignored)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        evenness: SpreadScoreState = state[SCORES]
        total = 0.0
        for constraint, counts_by_domain, weight in evenness.parts:
            value = node.labels.get(constraint.key)
            if value is not None:
                count = (
                    counts_by_domain.on.get(node, 0)
                    if constraint.key == HOSTNAME
                    else counts_by_domain.get(value)
                )
                total += count * weight + (constraint.max_skew - 1)
        whole = math.floor(total)
        return whole + (total - whole >= 0.5)  # noqa: PLR2004

    def score_many(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        import numpy as np

        evenness: SpreadScoreState = state[SCORES]
        total = np.zeros(len(rows))
        for constraint, counts_by_domain, weight in evenness.parts:
            counts = (
                counts_by_domain.column(table)[rows]
                if constraint.key == HOSTNAME
                else counts_by_domain.many(rows)
            )
            has_key = table.label(constraint.key).codes[rows] >= 0
            total += np.where(has_key, counts * weight + (constraint.max_skew - 1), 0.0)
        whole = np.floor(total)
        # round half up, as Go's math.Round does for positive numbers
        rounded: Scores = (whole + (total - whole >= 0.5)).astype(np.int64)  # noqa: PLR2004
        return rounded

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        ignored = state[SCORES].ignored
        scored = [score for score, out in zip(scores, ignored, strict=True) if not out]
        most, least = max(scored, default=0), min(scored, default=0)
        return [
            0 if out else MAX_SCORE if most == 0 else MAX_SCORE * (most + least - score) // most
            for score, out in zip(scores, ignored, strict=True)
        ]

    def normalize_many(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        import numpy as np

        out = np.array(state[SCORES].ignored, np.bool_)
        scored = scores[~out]
        most, least = scored.max(initial=0), scored.min() if len(scored) else 0
        even = MAX_SCORE * (most + least - scores) // most if most else scores * 0 + MAX_SCORE
        return np.where(out, 0, even)

    def _tally(self, pod: PodInfo, constraint: SpreadConstraint) -> PodCounts:
        return self._snapshot.shared(MatchingPodCounts).tally(
            constraint.pod_selector(pod.namespace)
        )

    def _sums(
        self, pod: PodInfo, constraint: SpreadConstraint, needed: Sequence[SpreadConstraint]
    ) -> DomainSums:
        """Return sums by domain over nodes that have all needed topology keys and count under the
        constraint's inclusion policies.
        """
        tally, table = self._tally(pod, constraint), self._snapshot.table
        if table is not None:
            rows = table.order
            for part in needed:
                rows = rows[table.label(part.key).codes[rows] >= 0]
            if (
                constraint.honors_affinity
                and (right := match_pod_affinity(pod, table, rows)) is not None
            ):
                rows = rows[right]
            if (
                constraint.honors_taints
                and (wrong := untolerated_mask(pod, table, rows)) is not None
            ):
                rows = rows[~wrong]
            import numpy as np

            codes = table.label(constraint.key)
            present = np.bincount(codes.codes[rows] + 1, minlength=len(codes.values) + 1)[1:] > 0
            return TableDomainSums(codes, sum_by_code(codes, [(tally, 1)], table, rows), present)
        sums: dict[str, int] = {}
        for node in self._snapshot.nodes:
            if all(one.key in node.labels for one in needed) and constraint.counts_at(pod, node):
                value = node.labels.get(constraint.key, "")
                sums[value] = sums.get(value, 0) + tally.on.get(node, 0)
        return DictDomainSums(sums)

    def events(self) -> Sequence[Interest]:
        return spread_interests(lambda pod: self._constraints.of(pod, HARD))


def _apply_trial(
    spread: SpreadState, pod: PodInfo, other: PodInfo, node: NodeInfo, amount: int
) -> None:
    if other.namespace != pod.namespace or any(
        one.key not in node.labels for one, _ in spread.parts
    ):
        return
    for number, (constraint, _) in enumerate(spread.parts):
        if constraint.matches(other.labels) and constraint.counts_at(pod, node):
            spread.trial.add(str(number), node.labels[constraint.key], amount)
